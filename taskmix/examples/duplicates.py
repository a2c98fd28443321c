"""Pictures that are the same, so that one never trains while its twin evaluates.

A picture is known by a hash of its decoded pixels, by a perceptual hash, and by a
thumbnail. Two are the same if their pixels are, or if both of the others are near:
the perceptual hash alone takes two dark or plain pictures for one.

    re-saved, resized ──► perceptual hash differs in 0..4 of 64 bits
    unrelated         ──► in 32 +- 4
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Sequence

import cv2
import numpy as np

# Bits of the perceptual hash, and mean 8-bit levels of the thumbnail, that two
# copies of a picture may differ in.
MAX_BITS = 6
MAX_LEVELS = 8.0

THUMBNAIL = (8, 8, 3)
_HASHED_SIDE, _DCT_SIDE, _HASH_SIDE = 128, 32, 8


@dataclasses.dataclass(frozen=True, eq=False)
class Fingerprints:
  """What is known of n pictures.

  Attributes:
    content: uint64 [n], hash of the decoded pixels, averaged down.
    perceptual: uint64 [n].
    thumbnail: uint8 [n, 192].
  """

  content: np.ndarray
  perceptual: np.ndarray
  thumbnail: np.ndarray

  def __len__(self) -> int:
    return len(self.content)

  @classmethod
  def join(cls, parts: Sequence["Fingerprints"]) -> "Fingerprints":
    if not parts:
      return cls(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros((0, 192), np.uint8))
    names = [field.name for field in dataclasses.fields(cls)]
    return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def fingerprint(levels: Sequence[np.ndarray]) -> Fingerprints:
  """The fingerprint of one picture.

  Args:
    levels: of `taskmix.faces.crops.halved`. The smallest of 128 pixels and more
      is hashed: equal pictures stay equal, and it costs a twentieth.
  """
  hashed = next((level for level in reversed(levels) if min(level.shape[:2]) >= _HASHED_SIDE), levels[0])
  digest = hashlib.sha1(hashed.data, usedforsecurity=False)
  digest.update(np.array([*levels[0].shape], "<u4").tobytes())
  coarse = next((level for level in reversed(levels) if min(level.shape[:2]) >= _DCT_SIDE), levels[0])
  return Fingerprints(
    np.array([int.from_bytes(digest.digest()[:8], "big")], np.uint64),
    np.array([_perceptual_hash(coarse)], np.uint64),
    cv2.resize(coarse, THUMBNAIL[:2], interpolation=cv2.INTER_AREA).reshape(1, -1),
  )


def groups(prints: Fingerprints) -> np.ndarray:
  """Which pictures are the same: int64 [n], the lowest index of each one's group.

  Copies of copies go together, though the ends of the chain may differ more.
  """
  parent = np.arange(len(prints))
  for first, second in _pairs(prints):
    _union(parent, first, second)
  return np.array([_find(parent, index) for index in range(len(parent))], np.int64)


def alike(prints: Fingerprints, first: np.ndarray, second: np.ndarray) -> np.ndarray:
  """Whether the pictures of each pair of indices are the same: bool [pairs]."""
  same = prints.content[first] == prints.content[second]
  near = _bits(prints.perceptual[first] ^ prints.perceptual[second]) <= MAX_BITS
  check = np.flatnonzero(near & ~same)
  if len(check):
    a = prints.thumbnail[first[check]].astype(np.int16)
    b = prints.thumbnail[second[check]].astype(np.int16)
    same[check] = np.abs(a - b).mean(axis=1) <= MAX_LEVELS
  return same


def crossing_pairs(prints: Fingerprints, phases: np.ndarray) -> list[tuple[int, int]]:
  """Pairs of the same picture in two phases: what must be empty.

  Compares every picture of one phase with every one of the others, which shares
  nothing with the search that `groups` makes.

  Args:
    prints: of n pictures.
    phases: int [n].
  """
  found = []
  for index in np.flatnonzero(phases > 0):
    others = np.flatnonzero(phases != phases[index])
    others = others[(phases[others] == 0) | (others > index)]
    hits = others[alike(prints, np.full(len(others), index), others)]
    found += [(int(index), int(other)) for other in hits]
  return found


def _perceptual_hash(picture: np.ndarray) -> int:
  """The signs of the lowest frequencies about their median (pHash, phash.org)."""
  small = cv2.resize(picture, (_DCT_SIDE, _DCT_SIDE), interpolation=cv2.INTER_AREA)
  grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
  low = cv2.dct(grey)[:_HASH_SIDE, :_HASH_SIDE].ravel()
  # The first one is the mean brightness, which a re-save may change.
  bits = low > np.sort(low[1:])[len(low) // 2 - 1]
  bits[0] = False
  return int.from_bytes(np.packbits(bits).tobytes(), "big")


def _pairs(prints: Fingerprints):
  """Pairs of indices that are alike; every one, some twice."""
  yield from _equal_pairs(prints.content)
  # Of MAX_BITS + 1 bands of the hash, two hashes that differ in MAX_BITS bits
  # agree in at least one: only those are compared.
  edges = np.linspace(0, 64, MAX_BITS + 2).astype(int)
  for low, high in itertools.pairwise(edges):
    band = (prints.perceptual >> np.uint64(low)) & np.uint64((1 << int(high - low)) - 1)
    yield from _alike_in_band(prints, band)


def _equal_pairs(values: np.ndarray):
  order = np.argsort(values, kind="stable")
  equal = np.flatnonzero(values[order][1:] == values[order][:-1])
  yield from zip(order[equal], order[equal + 1], strict=True)


def _alike_in_band(prints: Fingerprints, band: np.ndarray):
  """Pairs that are alike among those of equal `band`: each with the next, the one after, ..."""
  order = np.argsort(band, kind="stable")
  band, places = band[order], np.arange(len(order))
  for step in range(1, len(order)):
    places = places[places + step < len(order)]
    places = places[band[places] == band[places + step]]
    if not len(places):
      return
    first, second = order[places], order[places + step]
    near = _bits(prints.perceptual[first] ^ prints.perceptual[second]) <= MAX_BITS
    first, second = first[near], second[near]
    hits = alike(prints, first, second)
    yield from zip(first[hits], second[hits], strict=True)


_BYTE_BITS = np.array([bin(value).count("1") for value in range(256)], np.uint8)


def _bits(values: np.ndarray) -> np.ndarray:
  """Set bits of each uint64: int [n]."""
  octets = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), 8)
  return _BYTE_BITS[octets].sum(axis=1, dtype=np.int64)


def _find(parent: np.ndarray, index: int) -> int:
  while parent[index] != index:
    parent[index] = parent[parent[index]]
    index = parent[index]
  return int(index)


def _union(parent: np.ndarray, first: int, second: int) -> None:
  a, b = _find(parent, first), _find(parent, second)
  parent[max(a, b)] = min(a, b)
