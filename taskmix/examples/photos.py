"""Pixels of an annotated image, or the reason why there are none."""

import io
import struct

import cv2
import numpy as np

from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import TooLargeError, read_bytes

# OpenCV's remap, which cuts the crops, counts in 16 bits.
_LONGEST_SIDE = (1 << 15) - 2


class BadPhotoError(Exception):
  """A photo that gives no pixels; the message is the reason, without the name."""


def load(image: AnnotatedImage, *, max_pixels: int, max_bytes: int = 1 << 28) -> np.ndarray:
  """The upright picture: uint8 [h, w, 3] RGB.

  Args:
    image: what to open.
    max_pixels: a header that promises more is not decoded.
    max_bytes: no more of a file is read.

  Raises:
    BadPhotoError: if it is missing, unreadable, cut off, too large or no picture.
  """
  try:
    data = read_bytes(image.path, image.span, at_most=max_bytes)
  except TooLargeError:
    raise BadPhotoError(f"more than max_bytes {max_bytes}") from None
  except FileNotFoundError:
    raise BadPhotoError("no such file") from None
  except OSError as error:
    raise BadPhotoError(f"cannot be read: {error.strerror or error}") from None
  if image.raw_shape:
    return _planar(data, image.raw_shape)
  return decode(data, max_pixels=max_pixels)


def decode(data: bytes, *, max_pixels: int) -> np.ndarray:
  """The upright picture of an encoded file: uint8 [h, w, 3] RGB; raises BadPhotoError."""
  if not data:
    raise BadPhotoError("the file is empty")
  _check_whole(data)
  width, height = _header_size(data)
  if width * height > max_pixels:
    raise BadPhotoError(f"{width} x {height} pixels are more than max_pixels {max_pixels}")
  if max(width, height) > _LONGEST_SIDE:
    raise BadPhotoError(f"{width} x {height} pixels: no side may pass {_LONGEST_SIDE}")
  if data[:3] == b"GIF":
    return _first_frame(data)
  try:
    # The orientation in the EXIF header is applied, as viewers and annotators see it.
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
  except cv2.error as error:
    raise BadPhotoError(f"cannot be decoded: {error.err}") from None
  if picture is None:
    raise BadPhotoError("cannot be decoded")
  return picture


def _first_frame(data: bytes) -> np.ndarray:
  """Of a GIF, which OpenCV as it comes from PyPI does not read."""
  from PIL import Image

  try:
    with Image.open(io.BytesIO(data)) as picture:
      return np.asarray(picture.convert("RGB"))
  except (OSError, ValueError, SyntaxError, IndexError, EOFError) as error:
    raise BadPhotoError(f"cannot be decoded: {error}") from None


def _planar(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
  if len(data) != np.prod(shape):
    raise BadPhotoError(f"{len(data)} bytes are not the {shape} of its format")
  return np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(shape).transpose(1, 2, 0))


def _check_whole(data: bytes) -> None:
  """Raises BadPhotoError for a JPEG or PNG that is cut off.

  OpenCV decodes what is left of one and paints the rest grey, with no error.
  """
  if data[:2] == b"\xff\xd8":
    # An end marker before the scan belongs to a thumbnail in the header; in the
    # scan itself FF D9 can only be the end.
    _, scan = _jpeg_segments(data)
    whole = scan > 0 and data.rfind(b"\xff\xd9", scan) > 0
  else:
    whole = data[:4] != b"\x89PNG" or b"IEND" in data[-64:]
  if not whole:
    raise BadPhotoError("the file is cut off")


def _header_size(data: bytes) -> tuple[int, int]:
  """(width, height) as the header says, without decoding."""
  if data[:2] == b"\xff\xd8":
    size, _ = _jpeg_segments(data)
    return size
  if data[:4] == b"\x89PNG" and len(data) >= 24:
    return struct.unpack(">II", data[16:24])
  from PIL import Image, UnidentifiedImageError

  Image.MAX_IMAGE_PIXELS = None
  try:
    with Image.open(io.BytesIO(data)) as header:
      return header.size
  except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
    raise BadPhotoError("not a picture") from None


# Start-of-frame markers, whose segments hold the size (ITU-T T.81, table B.1).
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}


def _jpeg_segments(data: bytes) -> tuple[tuple[int, int], int]:
  """((width, height), offset of the scan) of a JPEG; the offset is 0 if none comes."""
  at, size = 2, (0, 0)
  while at + 9 < len(data) and data[at] == 0xFF:
    marker = data[at + 1]
    if marker == 0xFF:
      at += 1
      continue
    if marker in _FRAMES:
      height, width = struct.unpack(">HH", data[at + 5 : at + 9])
      size = (width, height)
    at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    if marker == 0xDA:
      return size, at
  return size, 0
