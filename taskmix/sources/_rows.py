"""Rows of numbers in text lists, read strictly.

What every list reader shares: each value is a number that a photo can hold, each
row has its columns, and each photo comes once.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from taskmix.sources.annotated import AnnotationError
from taskmix.sources.files import image_name, read_lines

# Pixels. JPEG and PNG readers stop far below; what lies beyond is a broken file.
LIMIT = 1e6


class Once:
  """Remembers names, and refuses the second of a kind."""

  def __init__(self, path: str):
    self._path = path
    self._lines: dict[str, int] = {}

  def add(self, name: str, line: int) -> None:
    """Raises AnnotationError if `name` was added before."""
    if name in self._lines:
      raise AnnotationError(
        self._path, line, f"photo {name!r} was listed on line {self._lines[name]} already; merge the two"
      )
    self._lines[name] = line


def numbers(
  fields: Sequence[str], columns: str, *, path: str, line: int, missing: bool = False
) -> list[float]:
  """One float a field.

  Args:
    fields: the texts.
    columns: the names of the columns, with blanks between; their count is what
      a row must have.
    path, line: where the row stands, for messages.
    missing: let NaN pass, where a format writes it for what nobody marked.

  Raises:
    AnnotationError: for another count, for what is no number, and for NaN,
      infinity and anything beyond `LIMIT`.
  """
  count = columns.count(" ") + 1
  if len(fields) != count:
    raise AnnotationError(
      path,
      line,
      f"expected {count} numbers ({columns}), found {len(fields)}: {_short(fields)}; is the file cut off?",
    )
  try:
    values = [float(field) for field in fields]
  except ValueError:
    raise AnnotationError(path, line, f"not all of {_short(fields)} are numbers ({columns})") from None
  for value in values:
    if not -LIMIT <= value <= LIMIT and not (missing and math.isnan(value)):
      raise AnnotationError(
        path,
        line,
        f"{value} is no pixel of a photo ({_short(fields)}); every number is finite, at most {LIMIT:g}",
      )
  return values


def whole_number(text: str, what: str, *, path: str, line: int) -> int:
  """`text` as a count of 0 or more; raises AnnotationError."""
  try:
    count = int(text)
  except ValueError:
    count = -1
  if count < 0:
    raise AnnotationError(
      path, line, f"expected {what}, found {text.strip()[:60]!r}; is this the right list?"
    )
  return count


def counted_blocks(path: str, columns: str) -> Iterator[tuple[str, np.ndarray]]:
  """The blocks of a list of the form photo, number of faces, one row a face.

  Args:
    path: of the list.
    columns: the names of a row's columns.

  Yields:
    (image id, float64 [faces, columns]). After a count of 0 a row of zeros may
    stand (WIDER FACE) or not (FDDB).

  Raises:
    AnnotationError: for a list that is cut off, has other columns, or names a
      photo twice.
  """
  lines, once, at = read_lines(path), Once(path), 0
  while at < len(lines):
    if not lines[at].strip():
      at += 1
      continue
    name = image_name(lines[at].strip(), path=path, line=at + 1)
    once.add(name, at + 1)
    rows, at = _block(path, lines, at + 1, columns)
    yield name, rows


def _block(path: str, lines: list[str], at: int, columns: str) -> tuple[np.ndarray, int]:
  """The rows of the block whose count is at `lines[at]`, and the next block's index."""
  if at >= len(lines):
    raise AnnotationError(path, at, "the list ends after a photo's path, before its count; copy it again")
  count = whole_number(lines[at], "the number of faces", path=path, line=at + 1)
  if at + 1 + count > len(lines):
    raise AnnotationError(path, len(lines), f"the list ends before the last of {count} faces; copy it again")
  width = columns.count(" ") + 1
  rows = [
    numbers(lines[index].split(), columns, path=path, line=index + 1)
    for index in range(at + 1, at + 1 + count)
  ]
  at += 1 + count
  if count == 0 and at < len(lines) and lines[at].split() == ["0"] * width:
    at += 1
  return np.asarray(rows, np.float64).reshape(-1, width), at


def _short(fields: Sequence[str]) -> str:
  return repr(" ".join(fields)[:60])
