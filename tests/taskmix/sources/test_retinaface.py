import numpy as np
import pytest

from taskmix.sources import AnnotationError, retinaface


def test_the_real_excerpt(shared_data):
  path = shared_data / "annotations/retinaface_train_label_EXCERPT.txt"
  images = list(retinaface.read(str(path), "WIDER_train/images"))
  assert [len(image.boxes) for image in images] == [1, 1, 3]
  parade, _, band = images
  assert parade.image_id == "0--Parade/0_Parade_marchingband_1_849.jpg"
  # 449 330 122 149
  assert parade.boxes.tolist() == [[449, 330, 571, 479]]
  np.testing.assert_allclose(
    parade.landmarks[0],
    [[488.906, 373.643], [542.089, 376.442], [515.031, 412.83], [485.174, 425.893], [538.357, 431.491]],
    rtol=1e-6,
  )
  # -1.0 -1.0 -1.0 ... stands for points that nobody marked.
  assert np.isnan(band.landmarks).all(axis=(1, 2)).tolist() == [True, False, False]
  assert band.attributes["quality"].tolist() == [0.2, 0.36, 0.3]
  assert band.attributes["point_flags"][:, 0].tolist() == [-1, 1, 0]


def test_photos_without_faces_and_faces_without_points(tmp_path):
  path = tmp_path / "label.txt"
  path.write_text("# none.jpg\n# a.jpg\n1 2 3 4\n5 6 0 8\n#b.jpg\n")
  images = list(retinaface.read(str(path), "images"))
  assert [(image.image_id, len(image.boxes)) for image in images] == [
    ("none.jpg", 0),
    ("a.jpg", 2),
    ("b.jpg", 0),
  ]
  assert np.isnan(images[1].landmarks).all()
  assert images[1].ignore.tolist() == [False, True]


def test_a_face_before_any_photo(tmp_path):
  (tmp_path / "label.txt").write_text("1 2 3 4\n# a.jpg\n")
  with pytest.raises(AnnotationError, match=r"label\.txt:1: a face before the first '# path'"):
    list(retinaface.read(str(tmp_path / "label.txt"), ""))
