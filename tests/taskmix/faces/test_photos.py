"""Photos from bytes: orientation, colour spaces, formats."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from taskmix.faces import photos

DECODE = tf.function(photos.decode, input_signature=[tf.TensorSpec([], tf.string)])
ORIENTATION = tf.function(photos.orientation, input_signature=[tf.TensorSpec([], tf.string)])


def scene() -> Image.Image:
  """24 x 16: red left, blue right, a white block in the top-left corner."""
  pixels = np.zeros((16, 24, 3), np.uint8)
  pixels[:, :12] = (200, 20, 20)
  pixels[:, 12:] = (20, 20, 200)
  pixels[:8, :8] = 255
  return Image.fromarray(pixels)


def encoded(image: Image.Image, format: str = "JPEG", **options) -> bytes:
  buffer = io.BytesIO()
  image.save(buffer, format, **options)
  return buffer.getvalue()


def with_orientation(value: int, prefix: bytes = b"Exif\x00\x00", endian: str = "II") -> bytes:
  """A JPEG of the scene whose APP1 segment tells an orientation."""
  order = "little" if endian == "II" else "big"

  def number(n: int, size: int) -> bytes:
    return n.to_bytes(size, order)

  entries = number(0x010F, 2) + number(2, 2) + number(4, 4) + b"abc\x00"
  entries += number(0x0112, 2) + number(3, 2) + number(1, 4) + number(value, 2) + b"\x00\x00"
  tiff = endian.encode() + number(42, 2) + number(8, 4) + number(2, 2) + entries + number(0, 4)
  body = prefix + tiff
  jpeg = encoded(scene(), quality=95, subsampling=0)
  return jpeg[:2] + b"\xff\xe1" + (len(body) + 2).to_bytes(2, "big") + body + jpeg[2:]


@pytest.mark.parametrize("value", range(1, 9))
@pytest.mark.parametrize("endian", ["II", "MM"])
def test_each_orientation_is_turned_as_pillow_turns_it(value, endian):
  jpeg = with_orientation(value, endian=endian)
  expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(jpeg))).convert("RGB"))
  found = DECODE(jpeg).numpy()
  assert found.shape == expected.shape
  np.testing.assert_array_equal(found, expected)
  assert int(ORIENTATION(jpeg)) == value


def test_orientation_written_by_pillow_is_read():
  exif = Image.Exif()
  exif[0x0112] = 6
  jpeg = encoded(scene(), exif=exif, icc_profile=b"x" * 70_000)
  assert int(ORIENTATION(jpeg)) == 6


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_a_nonsense_orientation_leaves_the_photo_as_it_is(value):
  assert int(ORIENTATION(with_orientation(value))) == 1


def test_it_works_outside_a_graph_too():
  assert int(photos.orientation(tf.constant(with_orientation(6)))) == 6
  assert photos.decode(tf.constant(with_orientation(6))).shape == (24, 16, 3)


def test_no_exif_other_app1_and_other_formats_are_left_as_they_are():
  assert int(ORIENTATION(encoded(scene()))) == 1
  assert int(ORIENTATION(with_orientation(6, prefix=b"http\x00\x00"))) == 1
  assert int(ORIENTATION(encoded(scene(), "PNG"))) == 1
  assert int(ORIENTATION(b"")) == 1


def test_a_damaged_header_never_costs_the_photo():
  jpeg = with_orientation(6)
  for end in range(2, 90):
    assert int(ORIENTATION(jpeg[:end])) in (1, 6)
  rng = np.random.default_rng(0)
  for _ in range(200):
    broken = bytearray(jpeg[:120])
    for at in rng.integers(2, 70, 3):
      broken[at] = rng.integers(256)
    assert 1 <= int(ORIENTATION(bytes(broken))) <= 8


@pytest.mark.parametrize("format", ["PNG", "JPEG", "BMP", "GIF"])
def test_formats_and_modes_become_rgb(format):
  found = DECODE(encoded(scene(), format)).numpy()
  assert found.shape == (16, 24, 3)
  assert found.dtype == np.uint8
  assert np.abs(found[12, 2].astype(int) - (200, 20, 20)).max() < 20


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "1", "P", "I;16"])
def test_grey_alpha_and_palette_pngs_become_rgb(mode):
  if mode == "I;16":
    image = Image.fromarray(np.asarray(scene().convert("L")).astype(np.uint16) * 257)
  else:
    image = scene().convert(mode)
  found = DECODE(encoded(image, "PNG")).numpy()
  expected = np.asarray(scene().convert("L" if mode == "I;16" else mode).convert("RGB"))
  assert found.shape == (16, 24, 3)
  assert np.abs(found.astype(int) - expected).max() <= 1


def test_a_cmyk_jpeg_keeps_its_colours():
  # Pillow writes CMYK JPEGs inverted, with Adobe's marker, as Photoshop does.
  found = DECODE(encoded(scene().convert("CMYK"), quality=95)).numpy()
  assert np.abs(found.astype(int) - np.asarray(scene())).max() <= 40
  assert np.abs(found.astype(int) - np.asarray(scene())).mean() < 3


def test_bytes_that_are_no_image_are_refused():
  with pytest.raises(tf.errors.InvalidArgumentError):
    DECODE(b"no image")
