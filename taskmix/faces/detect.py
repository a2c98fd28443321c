"""Faces in files: a saved detector's findings as JSON lines, and drawn.

One line a photo:

    {"photo": "team.jpg", "faces": [{"box": [x1, y1, x2, y2], "score": 0.99,
      "landmarks": [[x, y], ...]}]}

The best face comes first. Boxes and points are pixels of the upright photo.
"""

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from taskmix.faces import cascade

_BOX_COLOUR = (0, 255, 0)
# In the order of the points: left eye, right eye, nose, left and right mouth corner.
_POINT_COLOURS = ("red", "blue", "yellow", "magenta", "cyan")


def find_faces(
  model: str | pathlib.Path, photos: Iterable[str | pathlib.Path]
) -> Iterator[tuple[pathlib.Path, list[dict[str, Any]]]]:
  """Each photo's path and faces, photo by photo.

  Args:
    model: folder of a SavedModel that `Detector.save` wrote.
    photos: files that `taskmix.faces.photos.decode` takes.

  Raises:
    ValueError: if the folder holds no detector, or a file is no photo.
    FileNotFoundError: if a photo is not there.
  """
  import tensorflow as tf

  cascade.read_options(model)  # says so where the folder is no detector
  signature = tf.saved_model.load(str(model)).signatures["serving_default"]
  for photo in map(pathlib.Path, photos):
    try:
      found = signature(images=tf.constant([photo.read_bytes()]))
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(f"{photo} is no JPEG, PNG, BMP or GIF, or it is broken") from error
    yield photo, _faces({name: values.numpy()[0] for name, values in found.items()})


def _faces(found: dict[str, Any]) -> list[dict[str, Any]]:
  # Hundredths of a pixel are finer than any net.
  return [
    {
      "box": found["boxes"][face].astype(float).round(2).tolist(),
      "score": round(float(found["scores"][face]), 4),
      "landmarks": found["landmarks"][face].astype(float).round(2).tolist(),
    }
    for face in range(found["count"])
  ]


def detect(
  model: str | pathlib.Path,
  photos: Sequence[str | pathlib.Path],
  *,
  stream: TextIO,
  out: str | pathlib.Path | None = None,
) -> None:
  """Writes a JSON line a photo to `stream`; see this module.

  Args:
    model, photos: as for `find_faces`.
    stream: what the lines go to, each as soon as its photo is done.
    out: folder, made if need be, for the photos with their faces drawn: PNG files
      under the photos' names.

  Raises:
    ValueError: as `find_faces`; also if two photos would be drawn to one file.
  """
  drawings = _drawings(photos, out)
  for photo, faces in find_faces(model, photos):
    stream.write(json.dumps({"photo": str(photo), "faces": faces}) + "\n")
    stream.flush()
    if photo in drawings:
      draw(photo, faces, drawings[photo])


def _drawings(photos: Sequence[str | pathlib.Path], out: str | pathlib.Path | None):
  """Photo -> file to draw it to; nothing without a folder."""
  if out is None:
    return {}
  folder = pathlib.Path(out)
  folder.mkdir(parents=True, exist_ok=True)
  places: dict[pathlib.Path, pathlib.Path] = {}
  for photo in dict.fromkeys(map(pathlib.Path, photos)):
    place = folder / f"{photo.name}.png"
    if place in places.values():
      raise ValueError(f"two photos are named {photo.name}: draw them into folders of their own")
    places[photo] = place
  return places


def draw(photo: pathlib.Path, faces: Sequence[dict[str, Any]], file: pathlib.Path) -> None:
  """Writes the upright photo with boxes and points on it."""
  from PIL import Image, ImageDraw, ImageOps

  with Image.open(photo) as opened:
    picture = ImageOps.exif_transpose(opened).convert("RGB")
  pen, thick = ImageDraw.Draw(picture), max(1, max(picture.size) // 400)
  for face in faces:
    pen.rectangle(face["box"], outline=_BOX_COLOUR, width=thick)
    for (x, y), colour in zip(face["landmarks"], _POINT_COLOURS, strict=False):
      pen.ellipse([x - thick, y - thick, x + thick, y + thick], fill=colour)
  picture.save(file)
