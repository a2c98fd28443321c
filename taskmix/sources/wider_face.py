"""WIDER FACE's bbx_gt text (http://shuoyang1213.me/WIDERFACE/, README of the split).

One block a photo: the path, the number of faces, then a row each of
`x y w h blur expression illumination invalid occlusion pose`. A photo without a
face has the count 0 and one row of zeros (some lists leave that row out). Width
and height are counts of pixels, so `x + w` is the exclusive right edge.
"""

from collections.abc import Iterator

import numpy as np

from taskmix.sources._points import flat
from taskmix.sources._rows import counted_blocks
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import join

ATTRIBUTES = ("blur", "expression", "illumination", "invalid", "occlusion", "pose")
_COLUMNS = " ".join(("x", "y", "w", "h", *ATTRIBUTES))


def read(annotations_path: str, images_root: str) -> Iterator[AnnotatedImage]:
  """The photos of a bbx_gt list, in its order.

  Faces that the list marks `invalid` and boxes of zero size are kept with
  `ignore` set: crops keep away from them, none is cut for them.

  Raises:
    AnnotationError: for a list that is cut off, has other columns, or names a
      photo twice.
  """
  for name, rows in counted_blocks(annotations_path, _COLUMNS):
    yield _image(name, join(images_root, name), rows)


def _image(name: str, path: str, rows: np.ndarray) -> AnnotatedImage:
  boxes = np.concatenate([rows[:, :2], rows[:, :2] + rows[:, 2:4]], axis=1)
  attributes = {key: rows[:, 4 + index].astype(np.int64) for index, key in enumerate(ATTRIBUTES)}
  return AnnotatedImage(
    image_id=name,
    path=path,
    boxes=boxes,
    ignore=flat(boxes) | (attributes["invalid"] != 0),
    attributes=attributes,
  )
