r"""CNN_FacePoint's and MTFL's lists: a face a row, with five points.

    cnn_facepoint   trainImageList.txt, testImageList.txt
                    (http://mmlab.ie.cuhk.edu.hk/archive/CNN_FacePoint.htm):
                    path, box as left right top bottom, then x y of each point;
                    pixels count from 0
    mtfl            training.txt, testing.txt
                    (http://mmlab.ie.cuhk.edu.hk/projects/TCDCN.html):
                    path, the five x, the five y, then gender, smile, glasses and
                    head pose; pixels count from 1

Both share photos: MTFL's numbers are the other list's plus 1, on all 200 rows
that we have of each. Points are left eye, right eye, nose, left and right mouth
corner, left in the photo. Paths have backslashes; MTFL's have a blank before.
"""

from collections.abc import Callable, Iterator

import numpy as np

from taskmix.sources._points import boxes_of_five, flat
from taskmix.sources._rows import numbers
from taskmix.sources.annotated import POINTS, AnnotatedImage, AnnotationError
from taskmix.sources.files import image_name, join, read_lines

# path, line, fields after the name -> box (4), points (10), attributes (0 or 4)
_Parse = Callable[[str, int, list[str]], list[float]]

MTFL_ATTRIBUTES = ("gender", "smile", "glasses", "pose")
_PAIRS = " ".join(f"x{n} y{n}" for n in range(1, POINTS + 1))
_CNN_FACEPOINT = f"left right top bottom {_PAIRS}"
_MTFL = " ".join([*(f"x{n}" for n in range(1, 6)), *(f"y{n}" for n in range(1, 6)), *MTFL_ATTRIBUTES])


def read(annotations_path: str, images_root: str, layout: str = "cnn_facepoint") -> Iterator[AnnotatedImage]:
  """The photos of the list, in the order of their first row.

  Rows of one photo are its faces. Other faces are not annotated: take landmark
  samples from these photos, no negatives.

  Args:
    annotations_path: the list.
    images_root: folder that its paths start from.
    layout: "cnn_facepoint" or "mtfl". MTFL has no boxes: each is a square round
      the points, see `taskmix.sources._points`.

  Raises:
    ValueError: for an unknown layout.
    AnnotationError: for a row with other columns, or of the other layout. A
      list that ends between two rows looks whole: the formats count nothing.
  """
  if layout not in _LAYOUTS:
    raise ValueError(f"no layout {layout!r}; there is {', '.join(_LAYOUTS)}")
  faces: dict[str, list[list[float]]] = {}
  for line, text in enumerate(read_lines(annotations_path), start=1):
    fields = text.split()
    if fields:
      name = image_name(fields[0], path=annotations_path, line=line)
      faces.setdefault(name, []).append(_LAYOUTS[layout](annotations_path, line, fields[1:]))
  for name, rows in faces.items():
    values = np.asarray(rows, np.float64)
    yield AnnotatedImage(
      image_id=name,
      path=join(images_root, name),
      boxes=values[:, :4],
      landmarks=values[:, 4:14].reshape(-1, POINTS, 2),
      ignore=flat(values[:, :4]),
      attributes=_attributes(values[:, 14:]),
    )


def _attributes(values: np.ndarray) -> dict[str, np.ndarray]:
  """MTFL's, [n, 4]; none of CNN_FacePoint's, [n, 0]."""
  return {
    key: values[:, index].astype(np.int64) for index, key in enumerate(MTFL_ATTRIBUTES[: values.shape[1]])
  }


def _cnn_facepoint(path: str, line: int, fields: list[str]) -> list[float]:
  values = numbers(fields, _CNN_FACEPOINT, path=path, line=line)
  left, right, top, bottom = values[:4]
  if left > right or top > bottom:
    raise AnnotationError(
      path, line, f'{values[:4]} is no left, right, top, bottom; a list of MTFL needs layout="mtfl"'
    )
  return [left, top, right, bottom, *values[4:]]


def _mtfl(path: str, line: int, fields: list[str]) -> list[float]:
  values = numbers(fields, _MTFL, path=path, line=line)
  if any(value not in (1, 2, 3, 4, 5) for value in values[10:]):
    raise AnnotationError(
      path,
      line,
      f"{values[10:]} are no {', '.join(MTFL_ATTRIBUTES)} (1 to 5); "
      'a list of CNN_FacePoint needs layout="cnn_facepoint"',
    )
  points = np.reshape(values[:10], (2, POINTS)).T - 1
  return [*boxes_of_five(points[None])[0], *points.ravel(), *values[10:]]


_LAYOUTS: dict[str, _Parse] = {"cnn_facepoint": _cnn_facepoint, "mtfl": _mtfl}
