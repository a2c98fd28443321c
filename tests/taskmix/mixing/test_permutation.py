import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.mixing import permutation

U32 = 0xFFFFFFFF


def _mix(value, key, word):
  """The hash in plain integers, as an independent calculation."""
  value = ((value ^ word) * 0x9E3779B1 + key) & U32
  value = ((value ^ value >> 16) * 0x85EBCA6B) & U32
  value = ((value ^ value >> 13) * 0xC2B2AE35) & U32
  return value ^ value >> 16


def _place(index, size, key):
  """One element's place, in plain integers: walks a first x second grid until inside."""
  first = next(side for side in range(1, size + 1) if side * side >= size)
  second = -(-size // first)
  words = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
  while True:
    left, right = divmod(index, second)
    for left_word, right_word in zip(words[::2], words[1::2], strict=True):
      left = (left + ((_mix(right, key, left_word) >> 16) * first >> 16)) % first
      right = (right + ((_mix(left, key, right_word) >> 16) * second >> 16)) % second
    index = left * second + right
    if index < size:
      return index


@given(size=st.integers(1, 300), key=st.integers(0, U32))
def test_places_are_those_of_plain_integers(size, key):
  places = permutation.permute(np.arange(size), size, key)
  assert places.tolist() == [_place(index, size, key) for index in range(size)]


@given(size=st.integers(1, 5000), key=st.integers(0, U32))
def test_every_place_comes_once(size, key):
  places = permutation.permute(np.arange(size), size, key)
  assert np.array_equal(np.sort(places), np.arange(size))


@settings(max_examples=30)
@given(key=st.integers(0, U32), size=st.integers(2**31 - 10_000, 2**31 - 1))
def test_largest_sizes_stay_inside_and_apart(key, size):
  places = permutation.permute(np.arange(size - 1000, size), size, key)
  assert places.min() >= 0
  assert places.max() < size
  assert len(np.unique(places)) == 1000


def test_places_are_even_over_many_epochs():
  size, epochs = 50, 4000
  key = permutation.epoch_key(np.arange(epochs, dtype=np.uint32), np.uint32(7), np.uint32(9))
  places = permutation.permute(np.tile(np.arange(size), epochs), size, np.repeat(key, size))
  counts = np.zeros((size, size))
  np.add.at(counts, (np.tile(np.arange(size), epochs), places), 1)
  expected = epochs / size
  chi_square = ((counts - expected) ** 2 / expected).sum()
  # 49 * 49 degrees of freedom: mean 2401, deviation 69; five of them either way.
  assert abs(chi_square - 49 * 49) < 5 * np.sqrt(2 * 49 * 49)


def test_neighbours_do_not_stay_neighbours():
  size = 10_000
  places = permutation.permute(np.arange(size), size, 123)
  assert np.sum(np.abs(np.diff(places)) == 1) < 12  # chance gives 2


@pytest.mark.parametrize("size", [0, 2**31])
def test_a_size_out_of_range_is_an_error(size):
  with pytest.raises(ValueError, match="1 to 2147483647"):
    permutation.sides(size)
