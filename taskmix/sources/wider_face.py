"""WIDER FACE's bbx_gt text (http://shuoyang1213.me/WIDERFACE/, README of the split).

One block a photo: the path, the number of faces, then a row each of
`x y w h blur expression illumination invalid occlusion pose`. A photo without a
face has the count 0 and one row of zeros (some lists leave that row out). Width
and height are counts of pixels, so `x + w` is the exclusive right edge.
"""

from collections.abc import Iterator

import numpy as np

from taskmix.sources.annotated import AnnotatedImage, AnnotationError
from taskmix.sources.files import image_name, join, read_lines

ATTRIBUTES = ("blur", "expression", "illumination", "invalid", "occlusion", "pose")
_COLUMNS = 4 + len(ATTRIBUTES)


def read(annotations_path: str, images_root: str) -> Iterator[AnnotatedImage]:
  """The photos of a bbx_gt list, in its order.

  Faces that the list marks `invalid` and boxes of zero size are kept with
  `ignore` set: crops keep away from them, none is cut for them.

  Raises:
    AnnotationError: for a list that is cut off, has other columns, or names a
      photo twice.
  """
  lines = read_lines(annotations_path)
  first_seen: dict[str, int] = {}
  at = 0
  while at < len(lines):
    if not lines[at].strip():
      at += 1
      continue
    name = image_name(lines[at].strip(), path=annotations_path, line=at + 1)
    if name in first_seen:
      raise AnnotationError(
        annotations_path,
        at + 1,
        f"photo {name!r} was listed on line {first_seen[name]} already; merge the two",
      )
    first_seen[name] = at + 1
    rows, at = _rows(annotations_path, lines, at + 1)
    yield _image(name, join(images_root, name), rows)


def _rows(path: str, lines: list[str], at: int) -> tuple[np.ndarray, int]:
  """The faces of the block whose count is at `lines[at]`: float32 [n, 10], next line."""
  if at >= len(lines):
    raise AnnotationError(path, at, "the list ends after a photo's path, before its count; copy it again")
  try:
    count = int(lines[at])
  except ValueError:
    raise AnnotationError(
      path, at + 1, f"expected the number of faces, found {lines[at][:60]!r}; is this a bbx_gt list?"
    ) from None
  if count < 0:
    raise AnnotationError(path, at + 1, f"{count} faces: the count is 0 or more")
  rows = [_row(path, lines, at + 1 + index, count) for index in range(count)]
  after = at + 1 + count
  if count == 0 and after < len(lines) and _is_zero_row(lines[after]):
    after += 1
  return np.asarray(rows, np.float32).reshape(-1, _COLUMNS), after


def _row(path: str, lines: list[str], at: int, count: int) -> list[float]:
  if at >= len(lines):
    raise AnnotationError(path, len(lines), f"the list ends before the last of {count} faces; copy it again")
  fields = lines[at].split()
  if len(fields) != _COLUMNS:
    raise AnnotationError(
      path,
      at + 1,
      f"expected {_COLUMNS} numbers (x y w h and six attributes), found {len(fields)}: {lines[at][:60]!r}",
    )
  try:
    return [float(field) for field in fields]
  except ValueError:
    raise AnnotationError(path, at + 1, f"not all of {lines[at][:60]!r} are numbers") from None


def _is_zero_row(line: str) -> bool:
  fields = line.split()
  return len(fields) == _COLUMNS and all(field == "0" for field in fields)


def _image(name: str, path: str, rows: np.ndarray) -> AnnotatedImage:
  corners, sizes = rows[:, :2], rows[:, 2:4]
  attributes = {key: rows[:, 4 + index].astype(np.int64) for index, key in enumerate(ATTRIBUTES)}
  # Not `sizes <= 0`: NaN must count as no size.
  flat = ~(sizes > 0).all(axis=1)
  return AnnotatedImage(
    image_id=name,
    path=path,
    boxes=np.concatenate([corners, corners + sizes], axis=1),
    ignore=flat | (attributes["invalid"] != 0),
    attributes=attributes,
  )
