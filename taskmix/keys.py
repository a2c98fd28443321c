"""Stable hashes and the random generators keyed by them.

Python's own `hash` changes from process to process; these do not, so a
re-run, a retry or another runner draws the very same numbers.
"""

import hashlib

import numpy as np

_SEPARATOR = b"\x1f"


def stable_hash(*parts: object) -> int:
  """A 64-bit unsigned hash of the parts' text, the same in every process.

  >>> stable_hash(7, "photos/a.jpg", "neg") == stable_hash(7, "photos/a.jpg", "neg")
  True
  """
  text = _SEPARATOR.join(str(part).encode("utf-8", "surrogateescape") for part in parts)
  return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def keyed_rng(*parts: object) -> np.random.Generator:
  """A NumPy generator that depends on `parts` alone."""
  return np.random.default_rng(stable_hash(*parts))


def unit_interval(key: int) -> float:
  """The 64-bit `key` as a float in [0, 1)."""
  return (key >> 11) / float(1 << 53)
