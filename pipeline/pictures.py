"""The held-out photos with what a pushed detector found, on one picture."""

import math
import os
import pathlib
import tempfile

import cv2
import numpy as np

from taskmix.examples import manifest
from taskmix.faces.detect import detect_photos

# Side of a photo's cell in pixels, and most photos of a picture.
_CELL, _MOST = 320, 24


def draw_held_out(detector: str, *, examples: str, data: str, to: pathlib.Path) -> pathlib.Path:
  """Writes the picture as a PNG.

  Args:
    detector: folder of the SavedModel.
    examples: folder of the examples, whose `photos.jsonl` says who evaluates.
    data: folder that image ids start from.
    to: the file.

  Returns:
    `to`.

  Raises:
    ValueError: if no photo is held out.
  """
  photos = _held_out(examples, data)[:_MOST]
  if not photos:
    raise ValueError(f"{examples}: no photo evaluates, so none can show what the detector does")
  with tempfile.TemporaryDirectory(prefix="taskmix-drawn-") as scratch:
    cells = []
    for index, photo in enumerate(photos):
      # A folder each: photos of several folders may share a name.
      out = pathlib.Path(scratch, str(index))
      for _ in detect_photos(detector, [photo], out=out):
        pass
      cells += [_cell(drawn) for drawn in out.glob("*.jpg")]
  to.parent.mkdir(parents=True, exist_ok=True)
  partial = to.with_suffix(".partial.png")
  cv2.imwrite(str(partial), _sheet(cells))
  os.replace(partial, to)
  return to


def _held_out(examples: str, data: str) -> list[str]:
  """Paths of the photos that evaluate, in the order of the list, each once."""
  image_ids, phases, _ = manifest.read_photos(examples)
  chosen = (name for name, phase in zip(image_ids, phases, strict=True) if phase == "eval")
  return [os.path.join(data, name) for name in dict.fromkeys(chosen)]


def _cell(drawn: pathlib.Path) -> np.ndarray:
  """The photo fitted into a grey square."""
  photo = cv2.imread(str(drawn))
  height, width = photo.shape[:2]
  scale = _CELL / max(height, width)
  size = max(1, round(width * scale)), max(1, round(height * scale))
  cell = np.full((_CELL, _CELL, 3), 40, np.uint8)
  top, left = (_CELL - size[1]) // 2, (_CELL - size[0]) // 2
  cell[top : top + size[1], left : left + size[0]] = cv2.resize(photo, size, interpolation=cv2.INTER_AREA)
  return cell


def _sheet(cells: list[np.ndarray]) -> np.ndarray:
  columns = math.ceil(math.sqrt(len(cells)))
  blank = np.full_like(cells[0], 40)
  cells = cells + [blank] * (-len(cells) % columns)
  return np.vstack([np.hstack(cells[start : start + columns]) for start in range(0, len(cells), columns)])
