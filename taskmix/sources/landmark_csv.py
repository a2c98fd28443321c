"""Landmark CSV: `image,x1,y1,x2,y2,` then x,y of each of the five points.

One row a face; a header line is optional; rows of one photo may lie apart. Boxes
are in pixels with exclusive x2,y2, points in the order of
`taskmix.sources.annotated`, paths relative to the images folder.
"""

import csv
from collections.abc import Iterator

import numpy as np

from taskmix.sources.annotated import POINTS, AnnotatedImage, AnnotationError
from taskmix.sources.files import image_name, join, read_lines


def read(annotations_path: str, images_root: str, points: int = POINTS) -> Iterator[AnnotatedImage]:
  """The photos of the list, in order of their first row.

  Args:
    annotations_path: the CSV file.
    images_root: folder that its paths start from.
    points: how many points a row has.

  Raises:
    AnnotationError: for a row with other columns or with what is no number.
  """
  faces: dict[str, list[list[float]]] = {}
  lines = read_lines(annotations_path)
  for number, fields in enumerate(csv.reader(lines), start=1):
    if not fields or (number == 1 and fields[0].strip() == "image"):
      continue
    numbers = _numbers(annotations_path, number, fields, 4 + 2 * points)
    name = image_name(fields[0].strip(), path=annotations_path, line=number)
    faces.setdefault(name, []).append(numbers)
  for name, rows in faces.items():
    values = np.asarray(rows, np.float32)
    yield AnnotatedImage(
      image_id=name,
      path=join(images_root, name),
      boxes=values[:, :4],
      landmarks=values[:, 4:].reshape(-1, points, 2),
    )


def _numbers(path: str, line: int, fields: list[str], count: int) -> list[float]:
  if len(fields) != 1 + count:
    raise AnnotationError(
      path,
      line,
      f"expected image and {count} numbers (x1,y1,x2,y2 and the points), found {len(fields)} fields; "
      "is the file cut off?",
    )
  try:
    return [float(field) for field in fields[1:]]
  except ValueError:
    raise AnnotationError(path, line, f"not all of {','.join(fields[1:])[:60]!r} are numbers") from None
