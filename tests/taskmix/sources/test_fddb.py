import math

import numpy as np
import pytest

from taskmix.sources import fddb


@pytest.mark.parametrize(
  ("angle", "half_width", "half_height"),
  [
    (0, 5, 3),
    (math.pi / 2, 3, 5),
    # x(t) = 5 cos t cos 45 - 3 sin t sin 45: its largest is sqrt((25 + 9) / 2).
    (math.pi / 4, math.sqrt(17), math.sqrt(17)),
    (-math.pi / 4, math.sqrt(17), math.sqrt(17)),
  ],
)
def test_boxes_touch_the_ellipse(angle, half_width, half_height):
  boxes = fddb.ellipse_boxes(np.array([[5, 3, angle, 20, 30, 1]]))
  expected = [20 - half_width, 30 - half_height, 20 + half_width, 30 + half_height]
  np.testing.assert_allclose(boxes, [expected])


def test_boxes_hold_every_point_of_the_ellipse_and_no_more():
  ellipse = np.array([[123.5833, 85.5495, 1.265839, 269.6934, 161.7812]])
  t = np.linspace(0, 2 * np.pi, 100_001)
  major, minor, angle, x, y = ellipse[0]
  outline_x = x + major * np.cos(t) * np.cos(angle) - minor * np.sin(t) * np.sin(angle)
  outline_y = y + major * np.cos(t) * np.sin(angle) + minor * np.sin(t) * np.cos(angle)
  expected = [outline_x.min(), outline_y.min(), outline_x.max(), outline_y.max()]
  np.testing.assert_allclose(fddb.ellipse_boxes(ellipse)[0], expected, atol=1e-5)


def test_the_real_fold(shared_data):
  path = shared_data / "annotations/FDDB-folds/FDDB-fold-01-ellipseList.txt"
  images = list(fddb.read(str(path), "originalPics"))
  listed = (path.parent / "FDDB-fold-01.txt").read_text().split()
  assert [image.image_id for image in images] == [f"{name}.jpg" for name in listed]
  assert (len(images), sum(len(image.boxes) for image in images)) == (290, 515)
  assert images[0].path == "originalPics/2002/08/11/big/img_591.jpg"
  # The second photo's three faces lie side by side.
  assert [len(image.boxes) for image in images[:2]] == [1, 3]
  assert images[0].attributes["angle"].tolist() == [1.265839]


def test_an_ellipse_without_an_area_is_ignored(tmp_path):
  (tmp_path / "list.txt").write_text("a\n2\n0 3 0 20 30 1\n5 3 0 20 30 1\n")
  (image,) = fddb.read(str(tmp_path / "list.txt"), "", extension=".png")
  assert image.image_id == "a.png"
  assert image.ignore.tolist() == [True, False]
