"""The 68-point mark-up of 300-W and its kin, as .pts files or JSON
(https://ibug.doc.ic.ac.uk/resources/facial-point-annotations/).

    .pts    one face a file, beside its photo and with its name: `version: 1`,
            `n_points: 68`, `{`, an `x y` a line, `}`; pixels count from 1, as
            the page says
    .json   {path: [[x, y] x 68]}, or a list of such faces a photo; pixels count
            from 0

Left in the photo comes first. `taskmix.sources._points` says which of the 68
make our five.
"""

import json
import posixpath
from collections.abc import Iterator
from typing import Any

import numpy as np

from taskmix.sources._points import MARKS, boxes_of_68, five_of_68, flat
from taskmix.sources._rows import LIMIT, numbers
from taskmix.sources.annotated import AnnotatedImage, AnnotationError
from taskmix.sources.files import image_name, join, list_files, read_lines, read_text


def read(
  annotations_path: str, images_root: str, extension: str = ".jpg", first_pixel: int = -1
) -> Iterator[AnnotatedImage]:
  """Photos with eye centres, nose tip and mouth corners, and boxes round the points.

  Other faces of a photo are not annotated: take landmark samples from it, no
  negatives. The box is the extent of the 68 points and the forehead above.

  Args:
    annotations_path: a .json file, a .pts file, or a folder with .pts files at
      any depth.
    images_root: folder of the photos; a .pts file lies below the annotations'
      folder as its photo lies below this one.
    extension: of the photos of .pts files.
    first_pixel: what the annotations call the first pixel; -1 takes the
      format's own: 1 for .pts, 0 for JSON.

  Raises:
    AnnotationError: for a file that is cut off, has another number of points,
      or names a photo twice.
  """
  if annotations_path.endswith((".json", ".json.gz")):
    faces, origin = _json_faces(annotations_path), max(first_pixel, 0)
  else:
    faces, origin = _pts_faces(annotations_path, extension), 1 if first_pixel < 0 else first_pixel
  for name, points in faces:
    boxes = boxes_of_68(points - origin)
    yield AnnotatedImage(
      image_id=name,
      path=join(images_root, name),
      boxes=boxes,
      landmarks=five_of_68(points - origin),
      ignore=flat(boxes),
    )


def _pts_faces(path: str, extension: str) -> Iterator[tuple[str, np.ndarray]]:
  """(image id, float64 [1, 68, 2]) of each .pts file, by name."""
  if path.endswith(".pts"):
    folder, files = posixpath.dirname(path), [path]
  else:
    folder, files = path.rstrip("/"), list_files(path, ".pts")
  for file in files:
    below = file[len(folder) :].lstrip("/") if folder else file
    name = image_name(below[: -len(".pts")] + extension, path=file, line=None)
    yield name, _pts_points(file)[None]


def _pts_points(path: str) -> np.ndarray:
  """The points of one .pts file: float64 [68, 2]."""
  lines = [(line, text.strip()) for line, text in enumerate(read_lines(path), start=1) if text.strip()]
  at = 0
  while at < len(lines) and lines[at][1] != "{":
    line, text = lines[at]
    key, _, value = text.partition(":")
    if key.strip() == "n_points" and value.strip() != str(MARKS):
      raise AnnotationError(path, line, f"n_points is {value.strip()[:20]!r}; this reader takes {MARKS}")
    at += 1
  points = lines[at + 1 : at + 1 + MARKS]
  if len(points) < MARKS or "}" not in [text for _, text in lines[at + 1 + MARKS :]]:
    raise AnnotationError(
      path, lines[-1][0], f"expected {MARKS} points between {{ and }}; is the file cut off?"
    )
  return np.asarray([numbers(text.split(), "x y", path=path, line=line) for line, text in points])


def _json_faces(path: str) -> Iterator[tuple[str, np.ndarray]]:
  """(image id, float64 [faces, 68, 2]) of each entry, in the file's order."""
  try:
    entries = json.loads(read_text(path), object_pairs_hook=_Pairs)
  except json.JSONDecodeError as error:
    raise AnnotationError(path, error.lineno, f"no JSON: {error.msg}; is the file cut off?") from None
  except RecursionError:
    raise AnnotationError(path, None, "no list of faces: brackets nest too deep") from None
  if not isinstance(entries, _Pairs):
    raise AnnotationError(path, None, "expected an object: {path: [[x, y], ...]}")
  seen: set[str] = set()
  for key, value in entries:
    name = image_name(key, path=path, line=None)
    if name in seen:
      raise AnnotationError(path, None, f"photo {name!r} is there twice; merge its faces into one list")
    seen.add(name)
    yield name, _json_points(path, name, value)


class _Pairs(list):
  """A JSON object as its pairs: a dict would drop a key's first value in silence."""


def _json_points(path: str, name: str, value: Any) -> np.ndarray:
  try:
    points = np.asarray(value, np.float64)
  except (TypeError, ValueError, OverflowError):
    points = np.zeros(0)
  if points.ndim == 2:
    points = points[None]
  if points.shape[1:] != (MARKS, 2):
    raise AnnotationError(
      path, None, f"photo {name!r}: expected {MARKS} points [x, y], or a list of such faces"
    )
  if not (np.abs(points) <= LIMIT).all():
    raise AnnotationError(path, None, f"photo {name!r}: every number is finite, at most {LIMIT:g}")
  return points
