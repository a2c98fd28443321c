"""FDDB's ellipse lists (http://vis-www.cs.umass.edu/fddb/README.txt).

`FDDB-fold-NN-ellipseList.txt`, one block a photo: the path without its ending,
the number of faces, then a row each of `major_axis_radius minor_axis_radius
angle center_x center_y 1`. The angle is in radians, from the x axis to the
major axis; lengths are pixels, counted from 0.
"""

from collections.abc import Iterator

import numpy as np

from taskmix.sources._rows import counted_blocks
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import join

_COLUMNS = "major_radius minor_radius angle center_x center_y 1"


def read(annotations_path: str, images_root: str, extension: str = ".jpg") -> Iterator[AnnotatedImage]:
  """The photos of one ellipse list, in its order; faces as upright boxes.

  The box is the smallest that holds the ellipse, and may leave the photo.
  Ellipses without an area are kept with `ignore` set.

  Args:
    annotations_path: one fold's ellipse list.
    images_root: folder that its paths start from.
    extension: put after every path.

  Raises:
    AnnotationError: for a list that is cut off, has other columns, or names a
      photo twice.
  """
  for name, rows in counted_blocks(annotations_path, _COLUMNS):
    yield AnnotatedImage(
      image_id=name + extension,
      path=join(images_root, name + extension),
      boxes=ellipse_boxes(rows),
      ignore=~(rows[:, :2] > 0).all(axis=1),
      attributes={"angle": rows[:, 2]},
    )


def ellipse_boxes(ellipses: np.ndarray) -> np.ndarray:
  """The upright box of each ellipse.

  Args:
    ellipses: [n, 5 or more]: major radius, minor radius, angle, centre x, y.

  Returns:
    float64 [n, 4]. Half the width is hypot(major cos, minor sin), half the
    height hypot(major sin, minor cos): where the ellipse's tangent is upright
    or level.
  """
  major, minor, angle = ellipses[:, 0], ellipses[:, 1], ellipses[:, 2]
  half = np.stack(
    [
      np.hypot(major * np.cos(angle), minor * np.sin(angle)),
      np.hypot(major * np.sin(angle), minor * np.cos(angle)),
    ],
    axis=1,
  )
  centre = ellipses[:, 3:5]
  return np.concatenate([centre - half, centre + half], axis=1)
