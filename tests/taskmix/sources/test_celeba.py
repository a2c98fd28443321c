import numpy as np
import pytest

from taskmix.sources import AnnotationError, celeba

# The first rows of the real lists.
BOXES = """\
2
image_id x_1 y_1 width height
000001.jpg    95  71 226 313
000002.jpg    72  94 221 306
"""
POINTS = """\
2
lefteye_x lefteye_y righteye_x righteye_y nose_x nose_y leftmouth_x leftmouth_y rightmouth_x rightmouth_y
000001.jpg 165  184  244  176  196  249  194  271  266  260
000002.jpg 140  204  220  204  168  254  146  289  226  289
"""


@pytest.fixture
def folder(tmp_path):
  (tmp_path / "list_bbox_celeba.txt").write_text(BOXES)
  (tmp_path / "list_landmarks_celeba.txt").write_text(POINTS)
  return tmp_path


def test_boxes_and_points_of_a_photo_come_together(folder):
  images = list(celeba.read(str(folder), "img_celeba"))
  assert [image.path for image in images] == ["img_celeba/000001.jpg", "img_celeba/000002.jpg"]
  np.testing.assert_array_equal(images[0].boxes, [[95, 71, 321, 384]])
  np.testing.assert_array_equal(
    images[0].landmarks, [[[165, 184], [244, 176], [196, 249], [194, 271], [266, 260]]]
  )


def test_points_alone_get_a_square_round_them(folder):
  image = next(celeba.read(str(folder), "aligned", boxes=""))
  # Mean (213, 228); the larger extent is 266 - 165 = 101, and 1.8 / 2 of it 90.9.
  np.testing.assert_allclose(image.boxes, [[213 - 90.9, 228 - 90.9, 213 + 90.9, 228 + 90.9]], rtol=1e-6)


def test_boxes_alone_leave_the_points_out(folder):
  image = next(celeba.read(str(folder), "img", landmarks=""))
  assert np.isnan(image.landmarks).all()


def test_neither_is_refused(folder):
  with pytest.raises(ValueError, match="boxes, landmarks or both"):
    next(celeba.read(str(folder), "img", boxes="", landmarks=""))


def test_lists_of_different_photos_are_refused(folder):
  (folder / "list_landmarks_celeba.txt").write_text(POINTS.replace("000002", "000003"))
  with pytest.raises(AnnotationError, match=r"2 photos stand in this list or in .*'000002\.jpg'"):
    list(celeba.read(str(folder), "img"))


def test_a_list_with_fewer_rows_than_promised_is_cut_off(folder):
  (folder / "list_bbox_celeba.txt").write_text(BOXES.rsplit("000002", 1)[0])
  with pytest.raises(AnnotationError, match=r"list_bbox_celeba\.txt:3: line 1 promises 2 photos.* has 1"):
    list(celeba.read(str(folder), "img"))


def test_the_fixture_of_the_format(shared_data):
  folder = str(shared_data / "annotations/celeba_mini")
  images = list(celeba.read(folder, "img", landmarks=""))
  # 000001.jpg 1 8 0 2: no width.
  assert len(images) == 6
  assert images[0].boxes.tolist() == [[1, 8, 1, 10]]
  assert images[0].ignore.tolist() == [True]
  # Its landmarks are made up, with two columns of the ten.
  with pytest.raises(
    AnnotationError, match=r"list_landmarks_align_celeba\.txt:3: expected 10 numbers .* found 2"
  ):
    list(celeba.read(folder, "img", boxes="", landmarks="list_landmarks_align_celeba.txt"))
