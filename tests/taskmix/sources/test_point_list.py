import numpy as np
import pytest

from taskmix.sources import AnnotationError, point_list

# The first row of each real list.
_NAME = r"lfw_5590\Aaron_Eckhart_0001.jpg"
CNN_FACEPOINT = _NAME + " 84 161 92 169 106.25 107.75 146.75 112.25 125.25 142.75 105.25 157.75 139.75 161.75"
MTFL = f" {_NAME} 107.25 147.75 126.25 106.25 140.75 108.75 113.25 143.75 158.75 162.75 1 2 2 3"
POINTS = [[106.25, 107.75], [146.75, 112.25], [125.25, 142.75], [105.25, 157.75], [139.75, 161.75]]


def _read(tmp_path, text, layout):
  path = tmp_path / "list.txt"
  path.write_bytes(text.encode())
  return list(point_list.read(str(path), "photos", layout))


def test_cnn_facepoint_has_left_right_top_bottom(tmp_path):
  (image,) = _read(tmp_path, CNN_FACEPOINT + "\r\n", "cnn_facepoint")
  assert image.image_id == "lfw_5590/Aaron_Eckhart_0001.jpg"
  assert image.boxes.tolist() == [[84, 92, 161, 169]]
  assert image.landmarks.tolist() == [POINTS]


def test_mtfl_counts_from_one_and_has_all_x_first(tmp_path):
  (image,) = _read(tmp_path, MTFL + "\r\n", "mtfl")
  assert image.image_id == "lfw_5590/Aaron_Eckhart_0001.jpg"
  assert image.landmarks.tolist() == [POINTS]
  assert {name: values.tolist() for name, values in image.attributes.items()} == {
    "gender": [1],
    "smile": [2],
    "glasses": [2],
    "pose": [3],
  }


def test_mtfl_boxes_are_squares_round_the_points(tmp_path):
  (image,) = _read(tmp_path, MTFL, "mtfl")
  # Mean (124.65, 136.45); extents 146.75 - 105.25 = 41.5 and 161.75 - 107.75 = 54.
  np.testing.assert_allclose(image.boxes, [[76.05, 87.85, 173.25, 185.05]], rtol=1e-6)


def test_the_wrong_layout_is_named(tmp_path):
  with pytest.raises(AnnotationError, match=r'list\.txt:1: .* needs layout="cnn_facepoint"'):
    _read(tmp_path, CNN_FACEPOINT, "mtfl")
  with pytest.raises(AnnotationError, match=r'list\.txt:1: .* needs layout="mtfl"'):
    _read(tmp_path, MTFL, "cnn_facepoint")
  with pytest.raises(ValueError, match="there is cnn_facepoint, mtfl"):
    _read(tmp_path, MTFL, "MTFL")


def test_rows_of_one_photo_are_its_faces(tmp_path):
  (image,) = _read(tmp_path, CNN_FACEPOINT + "\n" + CNN_FACEPOINT.replace(" 84 ", " 80 "), "cnn_facepoint")
  assert image.boxes[:, 0].tolist() == [84, 80]


def test_the_real_lists_agree_on_every_point(shared_data):
  folder = shared_data / "annotations"
  cnn = list(point_list.read(str(folder / "trainImageList_HEAD.txt"), "", "cnn_facepoint"))
  mtfl = list(point_list.read(str(folder / "MTFL_training_HEAD.txt"), "", "mtfl"))
  assert [image.image_id for image in cnn] == [image.image_id for image in mtfl]
  assert len(cnn) == 200
  for ours, theirs in zip(cnn, mtfl, strict=True):
    np.testing.assert_array_equal(ours.landmarks, theirs.landmarks)


def test_squares_round_points_agree_with_the_boxes_that_people_use(shared_data):
  folder = shared_data / "annotations"
  cnn = point_list.read(str(folder / "trainImageList_HEAD.txt"), "", "cnn_facepoint")
  mtfl = point_list.read(str(folder / "MTFL_training_HEAD.txt"), "", "mtfl")
  ious = [_iou(ours.boxes[0], theirs.boxes[0]) for ours, theirs in zip(cnn, mtfl, strict=True)]
  assert np.mean(ious) == pytest.approx(0.83, abs=0.01)


def _iou(a, b):
  width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
  height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
  shared = width * height
  return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)
