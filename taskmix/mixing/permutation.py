"""Seeded permutations of 0..n-1, computed one element at a time.

A permutation is never stored: `permute(i, n, key)` is the place of element i,
so an endless sequence of shuffled epochs can be entered anywhere in O(1).

It is a Feistel network over a x b >= n with a and b near sqrt(n) (Black and
Rogaway 2002, "Ciphers with arbitrary finite domains", method 3 with cycle
walking). At most a - 1 of the a x b places lie outside of n, so that walking is
rare at every n; `tf.raw_ops.RandomIndexShuffle` works on at least 16 bits and
walks 65536 / n times for each element, which is slow for small kinds.

Everything is uint32 arithmetic that wraps, the same in NumPy, TensorFlow and
JAX: `xp` is numpy, jax.numpy, or `taskmix.mixing.graph.TF`.
"""

from typing import Any

import numpy as np

MAX_SIZE = 2**31 - 1

# Three updates of each half. From n = 10 on, places and neighbours over many epochs
# are as chance would have them; below, every order occurs, some of them up to three
# times as often as others, which no training notices. More rounds cost time.
_ROUNDS = 3

# Any constants without structure: the fraction of the golden ratio, the
# multipliers of MurmurHash3's finalizer, and 32-bit words of pi.
_GOLDEN = 0x9E3779B1
_MURMUR_1 = 0x85EBCA6B
_MURMUR_2 = 0xC2B2AE35
_ROUND_WORDS = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)


def sides(size: Any) -> tuple[np.ndarray, np.ndarray]:
  """Two uint32 near sqrt(size), shaped like `size`, whose product is `size` or just above.

  Raises:
    ValueError: if a size is not in 1..MAX_SIZE.
  """
  size = np.asarray(size, np.int64)
  if size.size and (size.min() < 1 or size.max() > MAX_SIZE):
    raise ValueError(f"a permutation has 1 to {MAX_SIZE} elements, not {size.min()}..{size.max()}")
  first = np.ceil(np.sqrt(size)).astype(np.int64)
  return first.astype(np.uint32), (-(-size // first)).astype(np.uint32)


def epoch_key(epoch: Any, low: Any, high: Any, *, xp: Any = np) -> Any:
  """The uint32 key of one epoch's permutation.

  Args:
    epoch: uint32 [n].
    low, high: uint32 [n], the two halves of the kind's 64-bit key.
    xp: the array module.
  """
  return _mix(_mix(epoch, low, _ROUND_WORDS[0], xp), high, _ROUND_WORDS[1], xp)


def encrypt(index: Any, first: Any, second: Any, key: Any, *, xp: Any = np) -> Any:
  """One pass of the network: a permutation of 0..first*second-1.

  Args:
    index: uint32 [n] below first * second.
    first, second: uint32 [n], from `sides`.
    key: uint32 [n].
    xp: the array module.
  """
  left = index // second
  right = index - left * second
  for turn in range(_ROUNDS):
    left = _add(left, right, first, key, _ROUND_WORDS[2 * turn], xp)
    right = _add(right, left, second, key, _ROUND_WORDS[2 * turn + 1], xp)
  return left * second + right


def permute(index: Any, size: Any, key: Any) -> np.ndarray:
  """Where each index goes in the permutation of its size and key.

  Args:
    index: [n] integers, each below its size.
    size: integer or [n], 1 to MAX_SIZE.
    key: uint32 or [n].

  Returns:
    int64 [n]; for one size and key, indices 0..size-1 give each of 0..size-1 once.
  """
  index, size, key = np.broadcast_arrays(
    np.atleast_1d(np.asarray(index, np.uint32)), np.asarray(size), np.asarray(key, np.uint32)
  )
  first, second = sides(size)
  place = encrypt(index, first, second, key)
  outside = np.flatnonzero(place >= size)
  while outside.size:
    place[outside] = encrypt(place[outside], first[outside], second[outside], key[outside])
    outside = outside[place[outside] >= size[outside]]
  return place.astype(np.int64)


def _add(half: Any, other: Any, side: Any, key: Any, word: int, xp: Any) -> Any:
  """`half` moved, modulo its side, by a hash of the other half.

  The upper 16 bits of the hash are scaled to the side: sides stay below 2**16,
  so the product fits in uint32 and no division is needed.
  """
  sixteen = xp.uint32(16)
  step = xp.right_shift(xp.right_shift(_mix(other, key, word, xp), sixteen) * side, sixteen)
  moved = half + step
  return xp.where(moved >= side, moved - side, moved)


def _mix(value: Any, key: Any, word: int, xp: Any) -> Any:
  """A uint32 hash of value and key; `word` sets the rounds apart."""
  value = xp.bitwise_xor(value, xp.uint32(word)) * xp.uint32(_GOLDEN) + key
  value = xp.bitwise_xor(value, xp.right_shift(value, xp.uint32(16))) * xp.uint32(_MURMUR_1)
  value = xp.bitwise_xor(value, xp.right_shift(value, xp.uint32(13))) * xp.uint32(_MURMUR_2)
  return xp.bitwise_xor(value, xp.right_shift(value, xp.uint32(16)))
