"""Photos, crops and tiles as small JPEGs inside the page."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from taskmix.report.facts import Mark, Picture

# Pixels of a photo's longer side: twice what a phone gives it.
PHOTO_SIDE = 560

_QUALITY = 76


def embed(
  pixels: np.ndarray,
  text: str,
  *,
  side: int = PHOTO_SIDE,
  caption: str = "",
  marks: Sequence[Mark] = (),
) -> Picture:
  """The picture, made smaller if need be; its marks with it.

  Args:
    pixels: uint8 [h, w, 3] RGB.
    text: what it shows.
    side: its longer side is at most so many pixels.
    caption: below it.
    marks: in pixels of the picture as given.
  """
  height, width = pixels.shape[:2]
  scale = min(1.0, side / max(height, width))
  size = max(1, round(width * scale)), max(1, round(height * scale))
  small = Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
  moved = tuple(_scaled(mark, scale) for mark in marks)
  return Picture(data_uri(_jpeg(small)), *size, text, caption, moved)


def embed_encoded(data: bytes, text: str, *, side: int, caption: str = "") -> Picture:
  """The same of an encoded picture, such as a PNG."""
  with Image.open(io.BytesIO(data)) as picture:
    return embed(np.asarray(picture.convert("RGB")), text, side=side, caption=caption)


def data_uri(jpeg: bytes) -> str:
  return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


def _jpeg(picture: Image.Image) -> bytes:
  file = io.BytesIO()
  picture.save(file, "JPEG", quality=_QUALITY, optimize=True)
  return file.getvalue()


def _scaled(mark: Mark, scale: float) -> Mark:
  x1, y1, x2, y2 = (round(value * scale, 1) for value in mark.box)
  points = tuple((round(x * scale, 1), round(y * scale, 1)) for x, y in mark.points)
  return Mark(mark.kind, (x1, y1, x2, y2), mark.label, points)
