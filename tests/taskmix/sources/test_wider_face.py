import time

import numpy as np
import pytest

from taskmix.sources import AnnotationError, wider_face

LIST = """\
1--Handshaking/a.jpg
2
10 20 30 40 0 1 0 0 2 0
50 60 7 0 2 0 0 1 0 1
2--Demo/none.jpg
0
0 0 0 0 0 0 0 0 0 0
2--Demo/bare.jpg
0
3--Riot/b.jpg
1
1 2 3 4 0 0 0 1 0 0
"""


@pytest.fixture
def photos(tmp_path):
  path = tmp_path / "bbx_gt.txt"
  path.write_text(LIST)
  return list(wider_face.read(str(path), "images"))


def test_boxes_get_exclusive_corners(photos):
  np.testing.assert_array_equal(photos[0].boxes, [[10, 20, 40, 60], [50, 60, 57, 60]])
  assert photos[0].boxes.dtype == np.float32


def test_photos_without_faces_stay_with_and_without_the_row_of_zeros(photos):
  assert [(photo.image_id, len(photo.boxes)) for photo in photos] == [
    ("1--Handshaking/a.jpg", 2),
    ("2--Demo/none.jpg", 0),
    ("2--Demo/bare.jpg", 0),
    ("3--Riot/b.jpg", 1),
  ]
  assert photos[0].path == "images/1--Handshaking/a.jpg"


def test_invalid_and_zero_size_faces_are_kept_but_ignored(photos):
  assert photos[0].ignore.tolist() == [False, True]
  assert photos[3].ignore.tolist() == [True]


def test_attributes_are_kept(photos):
  assert {name: values.tolist() for name, values in photos[0].attributes.items()} == {
    "blur": [0, 2],
    "expression": [1, 0],
    "illumination": [0, 0],
    "invalid": [0, 1],
    "occlusion": [2, 0],
    "pose": [0, 1],
  }


def test_a_count_that_is_too_high_names_the_line(tmp_path):
  path = tmp_path / "bbx_gt.txt"
  path.write_text(LIST.replace("a.jpg\n2", "a.jpg\n3"))
  with pytest.raises(AnnotationError, match=r"bbx_gt\.txt:5: expected 10 numbers"):
    list(wider_face.read(str(path), "images"))


def test_a_count_that_is_too_low_names_the_line(tmp_path):
  path = tmp_path / "bbx_gt.txt"
  path.write_text(LIST.replace("a.jpg\n2", "a.jpg\n1"))
  # The second face is then taken for a photo, and the next photo for its count.
  with pytest.raises(AnnotationError, match=r"bbx_gt\.txt:5: expected the number of faces"):
    list(wider_face.read(str(path), "images"))


def test_the_whole_train_list_reads_in_seconds(shared_data):
  start = time.process_time()
  photos = list(
    wider_face.read(str(shared_data / "annotations/wider_face_train_bbx_gt.txt.gz"), "WIDER_train/images")
  )
  assert time.process_time() - start < 10
  # The site tells of 12,880 photos; its 159,424 rows hold four of zeros.
  assert len(photos) == 12_880
  assert sum(len(photo.boxes) for photo in photos) == 159_420
  assert sum(len(photo.boxes) == 0 for photo in photos) == 4
  first = photos[0]
  assert first.image_id == "0--Parade/0_Parade_marchingband_1_849.jpg"
  # 449 330 122 149
  np.testing.assert_array_equal(first.boxes, [[449, 330, 571, 479]])


def test_the_whole_validation_list(shared_data):
  photos = list(wider_face.read(str(shared_data / "annotations/wider_face_val_bbx_gt.txt.gz"), "images"))
  assert len(photos) == 3_226
  assert sum(len(photo.boxes) for photo in photos) == 39_704


@pytest.mark.parametrize(("split", "photos", "faces"), [("train", 963, 5716), ("devval", 107, 463)])
def test_the_development_lists_name_photos_that_are_there(shared_data, split, photos, faces):
  folder = shared_data / "wider"
  images = list(
    wider_face.read(str(folder / f"wider_face_{split}_bbx_gt.txt"), str(folder / "WIDER_train/images"))
  )
  assert (len(images), sum(len(image.boxes) for image in images)) == (photos, faces)
  assert (folder / "WIDER_train/images" / images[-1].image_id).is_file()


def test_the_small_lists_with_their_photos(shared_data, demo):
  # The demo's 75 faces, and one that is marked as invalid.
  for folder, photos, faces in ((shared_data / "dlib_train", 4, 18), (demo, 75, 76)):
    images = list(wider_face.read(str(folder / "bbx_gt.txt"), str(folder)))
    assert (len(images), sum(len(image.boxes) for image in images)) == (photos, faces)
    assert all((folder / image.image_id).is_file() for image in images)
