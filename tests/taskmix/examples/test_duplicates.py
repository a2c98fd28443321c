import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.examples import duplicates
from taskmix.examples.duplicates import Fingerprints
from taskmix.faces.crops import halved


def _print_of(picture: np.ndarray) -> Fingerprints:
  return duplicates.fingerprint(halved(picture, 12))


@pytest.fixture
def astronaut(demo) -> np.ndarray:
  return cv2.imread(str(demo / "photos/skimage_astronaut.jpg"), cv2.IMREAD_COLOR_RGB)


@pytest.fixture
def coffee(demo) -> np.ndarray:
  return cv2.imread(str(demo / "negatives/skimage_coffee.jpg"), cv2.IMREAD_COLOR_RGB)


def _alike(first: np.ndarray, second: np.ndarray) -> bool:
  prints = Fingerprints.join([_print_of(first), _print_of(second)])
  found = bool(duplicates.alike(prints, np.array([0]), np.array([1]))[0])
  assert duplicates.groups(prints).tolist() == ([0, 0] if found else [0, 1])
  return found


def test_a_picture_is_itself(astronaut):
  assert _alike(astronaut, astronaut.copy())


def test_a_resaved_a_resized_and_a_darker_copy_are_the_same(astronaut):
  _, data = cv2.imencode(".jpg", astronaut, [cv2.IMWRITE_JPEG_QUALITY, 40])
  assert _alike(astronaut, cv2.imdecode(data, cv2.IMREAD_COLOR))
  assert _alike(astronaut, cv2.resize(astronaut, None, fx=0.43, fy=0.43, interpolation=cv2.INTER_AREA))
  assert _alike(astronaut, (astronaut * 0.97).astype(np.uint8))


def test_other_pictures_are_not(astronaut, coffee):
  assert not _alike(astronaut, coffee)
  assert not _alike(astronaut, astronaut[:, ::-1])


def test_two_plain_pictures_of_other_colours_are_not_the_same():
  red, blue = np.zeros((2, 200, 200, 3), np.uint8)
  red[..., 0] = blue[..., 2] = 200
  assert not _alike(red, blue)


def test_one_pixel_changes_the_content_hash_of_a_small_picture():
  picture = np.full((100, 100, 3), 90, np.uint8)
  other = picture.copy()
  other[50, 50] = 91
  assert _print_of(picture).content != _print_of(other).content


def test_copies_of_copies_are_one_group():
  """0 and 2 differ in 12 bits, more than copies may; 1 lies between them."""
  hashes = np.array([0, 0b111111, 0b111111111111, 2**64 - 2**40], np.uint64)
  prints = Fingerprints(np.arange(4).astype(np.uint64), hashes, np.zeros((4, 192), np.uint8))
  assert duplicates.groups(prints).tolist() == [0, 0, 0, 3]


def test_the_boundary_is_six_bits_and_eight_levels():
  def same(bits: int, levels: int) -> bool:
    thumbnails = np.full((2, 192), 100, np.uint8)
    thumbnails[1] += levels
    hashes = np.array([0, (1 << bits) - 1], np.uint64)
    prints = Fingerprints(np.array([1, 2], np.uint64), hashes, thumbnails)
    return bool(duplicates.alike(prints, np.array([0]), np.array([1]))[0])

  assert same(6, 8)
  assert not same(7, 8)
  assert not same(6, 9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2**12 - 1), min_size=1, max_size=30))
def test_the_search_by_bands_finds_what_comparing_all_pairs_finds(values):
  # Hashes of 12 bits in two places: many pairs are near, in some bands only.
  hashes = np.array([value | value << 40 for value in values], np.uint64)
  prints = Fingerprints(
    np.arange(len(values)).astype(np.uint64), hashes, np.zeros((len(values), 192), np.uint8)
  )
  expected = list(range(len(values)))
  for _ in values:
    for first in range(len(values)):
      for second in range(len(values)):
        if bin(int(hashes[first] ^ hashes[second])).count("1") <= duplicates.MAX_BITS:
          expected[first] = expected[second] = min(expected[first], expected[second])
  assert duplicates.groups(prints).tolist() == expected


def test_no_picture_is_no_group():
  assert duplicates.groups(Fingerprints.join([])).tolist() == []


def test_crossing_pairs_names_each_pair_once():
  hashes = np.array([5, 5, 255 << 30, 5], np.uint64)
  prints = Fingerprints(np.array([1, 1, 2, 3], np.uint64), hashes, np.zeros((4, 192), np.uint8))
  assert duplicates.crossing_pairs(prints, np.array([0, 1, 1, 0])) == [(1, 0), (1, 3)]
