import struct

import cv2
import numpy as np
import pytest

from taskmix.examples.photos import BadPhotoError, decode, load
from taskmix.sources.annotated import AnnotatedImage

PICTURE = np.arange(40 * 60 * 3, dtype=np.uint8).reshape(40, 60, 3)


def _encoded(suffix: str) -> bytes:
  return cv2.imencode(suffix, cv2.cvtColor(PICTURE, cv2.COLOR_RGB2BGR))[1].tobytes()


def test_a_png_comes_back_as_rgb():
  np.testing.assert_array_equal(decode(_encoded(".png"), max_pixels=2400), PICTURE)


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_more_pixels_than_allowed_are_not_decoded(suffix):
  with pytest.raises(BadPhotoError, match="60 x 40 pixels are more than max_pixels 2399"):
    decode(_encoded(suffix), max_pixels=2399)


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_file_that_is_cut_off_is_refused(suffix, kept):
  data = _encoded(suffix)
  with pytest.raises(BadPhotoError, match="cut off"):
    decode(data[: int(len(data) * kept)], max_pixels=10**6)


@pytest.mark.parametrize(
  ("data", "problem"), [(b"", "the file is empty"), (b"no picture at all", "not a picture")]
)
def test_what_is_no_picture_says_so(data, problem):
  with pytest.raises(BadPhotoError, match=problem):
    decode(data, max_pixels=10**6)


def test_a_photo_is_turned_as_its_header_says():
  exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01" + struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0) + bytes(4)
  data = _encoded(".jpg")
  turned = data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]
  assert decode(turned, max_pixels=10**6).shape == (60, 40, 3)


def test_files_that_are_missing_or_too_long_say_so(tmp_path):
  path = tmp_path / "a.png"
  with pytest.raises(BadPhotoError, match="no such file"):
    load(AnnotatedImage("a.png", str(path)), max_pixels=10**6)
  path.write_bytes(_encoded(".png"))
  with pytest.raises(BadPhotoError, match="more than max_bytes 100"):
    load(AnnotatedImage("a.png", str(path)), max_pixels=10**6, max_bytes=100)


def test_a_span_of_a_file_is_read_alone(tmp_path):
  path, data = tmp_path / "packed", _encoded(".png")
  path.write_bytes(b"before" + data + b"after")
  image = AnnotatedImage("a", str(path), span=(6, len(data)))
  np.testing.assert_array_equal(load(image, max_pixels=10**6), PICTURE)
