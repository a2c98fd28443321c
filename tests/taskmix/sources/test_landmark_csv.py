import numpy as np
import pytest

from taskmix.sources import AnnotationError, landmark_csv

HEADER = "image,x1,y1,x2,y2,lx,ly,rx,ry,nx,ny,lmx,lmy,rmx,rmy\n"
ROW = "a.jpg,1,2,11,22,3,4,8,4.5,6,9,4,15,8,16\n"


def _read(tmp_path, text, **options):
  path = tmp_path / "landmarks.csv"
  path.write_text(text)
  return list(landmark_csv.read(str(path), "photos", **options))


@pytest.mark.parametrize("text", [HEADER + ROW, ROW], ids=["header", "no header"])
def test_a_row_is_a_face(tmp_path, text):
  (image,) = _read(tmp_path, text)
  assert (image.image_id, image.path) == ("a.jpg", "photos/a.jpg")
  np.testing.assert_array_equal(image.boxes, [[1, 2, 11, 22]])
  np.testing.assert_array_equal(image.landmarks, [[[3, 4], [8, 4.5], [6, 9], [4, 15], [8, 16]]])


def test_rows_of_one_photo_that_lie_apart_are_its_faces(tmp_path):
  images = _read(tmp_path, ROW + ROW.replace("a.jpg", "b.jpg") + ROW.replace(",1,2,", ",0,2,"))
  assert [(image.image_id, len(image.boxes)) for image in images] == [("a.jpg", 2), ("b.jpg", 1)]
  assert images[0].boxes[:, 0].tolist() == [1, 0]


def test_nan_marks_a_face_without_points(tmp_path):
  (image,) = _read(tmp_path, ROW + "a.jpg,1,2,11,22" + ",nan" * 10 + "\n")
  assert np.isnan(image.landmarks).all(axis=(1, 2)).tolist() == [False, True]


def test_nan_in_a_box_is_refused(tmp_path):
  with pytest.raises(AnnotationError, match=r"landmarks\.csv:2: nan stands for points"):
    _read(tmp_path, HEADER + ROW.replace(",1,", ",nan,"))


def test_the_number_of_points_is_a_setting(tmp_path):
  (image,) = _read(tmp_path, "a.jpg,1,2,11,22,3,4\n", points=1)
  assert image.landmarks.tolist() == [[[3, 4]]]
  (image,) = _read(tmp_path, "a.jpg,1,2,11,22\n", points=0)
  assert image.landmarks.shape == (1, 0, 2)


def test_the_demo_list(demo):
  images = list(landmark_csv.read(str(demo / "landmarks.csv"), str(demo)))
  assert sum(len(image.boxes) for image in images) == 47
  assert all((demo / image.image_id).is_file() for image in images)
  first = images[0]
  assert first.boxes.tolist() == [[73, 59, 143, 149]]
  np.testing.assert_allclose(first.landmarks[0, 0], [105.7, 94.7], rtol=1e-6)


@pytest.mark.parametrize(
  ("name", "photos"),
  [
    ("lfw_net_80px/lfw_5590_landmarks.csv", 4150),
    ("lfw_net_80px/net_7876_landmarks.csv", 2000),
    ("ibug/afw_landmarks.csv", 337),
    ("ibug/helen_train_landmarks.csv", 870),
  ],
)
def test_the_development_lists_have_left_eyes_left_of_right_ones(shared_data, name, photos):
  images = list(landmark_csv.read(str(shared_data / name), "images"))
  assert len(images) == photos
  eyes = np.concatenate([image.landmarks[:, :2, 0] for image in images])
  # Profiles may have both on one line; a list with swapped sides would fail by far.
  assert (eyes[:, 0] < eyes[:, 1]).mean() > 0.99
