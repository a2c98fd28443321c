"""What every reader yields: one image, and what people marked in it.

Coordinates are those of `taskmix.faces.geometry`: boxes float32
`[x1, y1, x2, y2]` in photo pixels with `x2, y2` exclusive, points `[x, y]` in the
order left eye, right eye, nose, left and right mouth corner, where *left* is the
photo's left. Readers convert inclusive or one-based formats on entry.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

POINTS = 5


class AnnotationError(ValueError):
  """A malformed annotation file: the message names file, line and remedy."""

  def __init__(self, path: str, line: int | None, problem: str):
    where = path if line is None else f"{path}:{line}"
    super().__init__(f"{where}: {problem}")
    self.path, self.line, self.problem = path, line, problem

  def __reduce__(self):
    return type(self), (self.path, self.line, self.problem)


@dataclasses.dataclass(frozen=True, eq=False)
class AnnotatedImage:
  """One image and its annotations.

  A *malformed file* (cut off, wrong columns) is the reader's AnnotationError. A
  *bad photo or face* (no such file, a box of zero size or outside the photo) is
  passed on as it is: the conversion, which sees the pixels, quarantines it.

  Attributes:
    image_id: the path below the data folder, with forward slashes; readers give
      it below their images folder, `taskmix.sources.read` puts the rest before.
    path: what to open; local, gs://, s3://...
    boxes: float32 [n, 4], one a face.
    landmarks: float32 [n, p, 2]; NaN where a face has no points; left out, all
      NaN with p = 5.
    ignore: bool [n], faces that a format marks as invalid: every crop keeps away
      from them, none is cut for them; left out, all False.
    attributes: name -> array [n]: what else the format says of each face.
    span: (offset, length) in bytes of the image inside `path`; None is the
      whole file.
    raw_shape: (3, h, w) for planar uint8 RGB without any header (CIFAR-10); ()
      for an encoded image (JPEG, PNG, ...).
    kind: for an image that is a sample as it stands (a labelled image, a crop
      cut elsewhere): its kind. "" for a photo that crops are cut from.
    targets: for such an image: column name -> value.
    function, item: for a sample that the user's Python makes: the
      "package.module:function", and what it is called with, pickled; see
      `taskmix.sources.python`.
  """

  image_id: str
  path: str
  boxes: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 4), np.float32))
  landmarks: np.ndarray | None = None
  ignore: np.ndarray | None = None
  attributes: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
  span: tuple[int, int] | None = None
  raw_shape: tuple[int, ...] = ()
  kind: str = ""
  targets: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  function: str = ""
  item: bytes = b""

  def __post_init__(self):
    boxes = np.asarray(self.boxes, np.float32).reshape(-1, 4)
    count = len(boxes)
    landmarks = np.full((count, POINTS, 2), np.nan) if self.landmarks is None else self.landmarks
    ignore = np.zeros(count) if self.ignore is None else self.ignore
    _set(self, "boxes", boxes)
    _set(self, "landmarks", np.asarray(landmarks, np.float32))
    _set(self, "ignore", np.asarray(ignore, bool))
    for name in ("landmarks", "ignore"):
      if len(getattr(self, name)) != count:
        raise ValueError(f"{self.image_id}: {count} boxes but {len(getattr(self, name))} {name}")
    if self.landmarks.ndim != 3 or self.landmarks.shape[-1] != 2:  # type: ignore[union-attr]
      raise ValueError(f"{self.image_id}: landmarks are [faces, points, 2], not {self.landmarks.shape}")  # type: ignore[union-attr]


def _set(image: AnnotatedImage, name: str, value: np.ndarray) -> None:
  object.__setattr__(image, name, value)
