"""RetinaFace's label.txt: WIDER FACE's boxes with five points
(https://github.com/deepinsight/insightface/tree/master/detection/retinaface).

A line `# path` a photo, then a row a face: `x y w h`, five times `x y flag`, and
a quality between 0 and 1. -1 stands for points that nobody marked. The
validation list has the box alone. The order is left eye, right eye, nose, left
and right mouth corner, left in the photo; pixels count from 0.
"""

from collections.abc import Iterator

import numpy as np

from taskmix.sources._points import flat
from taskmix.sources._rows import Once, numbers
from taskmix.sources.annotated import POINTS, AnnotatedImage, AnnotationError
from taskmix.sources.files import image_name, join, read_lines

_BOX = "x y w h"
_FACE = _BOX + "".join(f" x{n} y{n} flag{n}" for n in range(1, POINTS + 1)) + " quality"
_WIDTH = 4 + 3 * POINTS + 1


def read(annotations_path: str, images_root: str) -> Iterator[AnnotatedImage]:
  """The photos of a label.txt, in its order.

  Faces without points have NaN landmarks; boxes of zero size are kept with
  `ignore` set. `quality` (NaN where a row has none) and `point_flags`, as they
  stand in the file, are attributes.

  Raises:
    AnnotationError: for a row with other columns or before the first photo, and
      for a photo that is listed twice. A list that ends between two rows looks
      whole: the format counts nothing.
  """
  once = Once(annotations_path)
  name, rows = "", []
  for line, text in enumerate(read_lines(annotations_path), start=1):
    if text.lstrip().startswith("#"):
      if name:
        yield _image(name, join(images_root, name), rows)
      name, rows = image_name(text.lstrip()[1:].strip(), path=annotations_path, line=line), []
      once.add(name, line)
    elif text.strip():
      if not name:
        raise AnnotationError(
          annotations_path, line, "a face before the first '# path'; is this a label.txt?"
        )
      rows.append(_row(text.split(), annotations_path, line))
  yield _image(name, join(images_root, name), rows)


def _row(fields: list[str], path: str, line: int) -> list[float]:
  """One face: 20 numbers, NaN for what the row leaves out."""
  columns = _BOX if len(fields) == 4 else _FACE
  values = numbers(fields, columns, path=path, line=line)
  return values + [np.nan] * (_WIDTH - len(values))


def _image(name: str, path: str, rows: list[list[float]]) -> AnnotatedImage:
  faces = np.asarray(rows, np.float64).reshape(-1, _WIDTH)
  boxes = np.concatenate([faces[:, :2], faces[:, :2] + faces[:, 2:4]], axis=1)
  points = faces[:, 4:-1].reshape(-1, POINTS, 3)
  landmarks = points[..., :2].copy()
  # All or none: a face with one unmarked point has no set of five to learn.
  landmarks[(points[..., 2] < 0).any(axis=1)] = np.nan
  return AnnotatedImage(
    image_id=name,
    path=path,
    boxes=boxes,
    landmarks=landmarks,
    ignore=flat(boxes),
    attributes={"quality": faces[:, -1], "point_flags": points[..., 2]},
  )
