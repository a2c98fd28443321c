"""Landmark CSV: `image,x1,y1,x2,y2,` then x,y of each of the five points.

One row a face; a header line is optional; rows of one photo may lie apart. Boxes
are in pixels with exclusive x2,y2, points in the order of
`taskmix.sources.annotated`, paths relative to the images folder. A face whose
points nobody marked has `nan` in their place.
"""

import csv
from collections.abc import Iterator

import numpy as np

from taskmix.sources._points import flat
from taskmix.sources._rows import numbers
from taskmix.sources.annotated import POINTS, AnnotatedImage, AnnotationError
from taskmix.sources.files import image_name, join, read_lines


def read(annotations_path: str, images_root: str, points: int = POINTS) -> Iterator[AnnotatedImage]:
  """The photos of the list, in order of their first row.

  Args:
    annotations_path: the CSV file.
    images_root: folder that its paths start from.
    points: how many points a row has.

  Raises:
    ValueError: for a negative number of points.
    AnnotationError: for a row with other columns or with what is no number.
  """
  if points < 0:
    raise ValueError(f"points must be 0 or more, not {points}")
  columns = "x1 y1 x2 y2" + "".join(f" point{n}_x point{n}_y" for n in range(1, points + 1))
  faces: dict[str, list[list[float]]] = {}
  for line, fields in _records(annotations_path):
    if not any(field.strip() for field in fields) or (line == 1 and fields[0].strip() == "image"):
      continue
    name = image_name(fields[0].strip(), path=annotations_path, line=line)
    faces.setdefault(name, []).append(_face(fields[1:], columns, annotations_path, line))
  for name, rows in faces.items():
    values = np.asarray(rows, np.float64)
    yield AnnotatedImage(
      image_id=name,
      path=join(images_root, name),
      boxes=values[:, :4],
      landmarks=values[:, 4:].reshape(len(rows), points, 2),
      ignore=flat(values[:, :4]),
    )


def _face(fields: list[str], columns: str, path: str, line: int) -> list[float]:
  values = numbers(fields, columns, path=path, line=line, missing=True)
  if any(value != value for value in values[:4]):
    raise AnnotationError(
      path, line, "nan stands for points that nobody marked; a box needs its four numbers"
    )
  return values


def _records(path: str) -> Iterator[tuple[int, list[str]]]:
  """(line, fields) of each row."""
  rows = csv.reader(read_lines(path))
  try:
    for fields in rows:
      yield rows.line_num, fields
  except csv.Error as error:
    raise AnnotationError(path, rows.line_num, f"no CSV: {error}") from None
