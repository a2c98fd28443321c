"""Which records make up batch n of a stream, and where they lie: arithmetic, no TensorFlow.

A stream cannot permute a whole kind, since each record would be a random read.
It shuffles in two stages, both keyed by the seed and computed, never stored:

  1. Each epoch cuts the kind's records, taken as a ring that starts at a place of
     the epoch's own, into chunks of `chunk` records and permutes the chunks.
  2. Steps are taken `steps` at a time, a window. The records that the order above
     gives a window are permuted among its batches (an epoch's end and the next
     one's start each by itself, so that an epoch ends before the next begins).

So a window reads few long runs, and batch n still is a function of (seed, n,
sizes) with every example once an epoch.
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from taskmix.keys import stable_hash
from taskmix.mixing import permutation
from taskmix.mixing.sampler import Sampler, Slots

# Records of a chunk. Shards are random samples already, in the order of their keys'
# hashes, so that long chunks cost no randomness; shorter ones cost more seeks.
CHUNK = 256
# Records that lie between two wanted ones and are read and dropped rather than
# skipped by a seek (for a worker that takes a slice of every batch).
_GAP = 64


@dataclasses.dataclass(frozen=True)
class WindowSampler:
  """`Sampler`, for data that is read in order.

  Attributes:
    sampler: counts, sizes, seed, and the slots of a batch.
    steps: of a window.
    chunk: records of a chunk.
  """

  sampler: Sampler
  steps: int
  chunk: int = CHUNK

  def slots(self, first: int, last: int) -> Slots:
    """Steps first .. last - 1, which lie in one window: arrays [last - first, batch]."""
    sampler = self.sampler
    steps = np.arange(first, last)
    kind, place = (column[steps % sampler.block_steps] for column in sampler.layout)
    position = steps[:, None] * np.array(sampler.counts, np.int64)[kind] + place
    row = np.empty_like(position)
    for number, base in enumerate(sampler.bases):
      mine = kind == number
      row[mine] = base + self._records(number, position[mine], first // self.steps)
    return Slots(kind, position, row)

  def batch(self, step: int) -> Slots:
    """What batch `step` holds, arrays [batch]."""
    return Slots(*(column[0] for column in self.slots(step, step + 1)))

  def _records(self, kind: int, position: np.ndarray, window: int) -> np.ndarray:
    """The record, within its kind, at each position of a window; int64 [n]."""
    size, count = self.sampler.sizes[kind], self.sampler.counts[kind]
    epoch, place = np.divmod(position, size)
    start = window * self.steps * count - epoch * size
    low, high = np.maximum(start, 0), np.minimum(start + self.steps * count, size)
    key = self._keys("window", kind, epoch, window)
    place = low + permutation.permute(place - low, high - low, key)
    return (self._chunked(kind, place, epoch) + self._keys("ring", kind, epoch)) % size

  def _chunked(self, kind: int, place: np.ndarray, epoch: np.ndarray) -> np.ndarray:
    """The place that the permuted chunks of an epoch give each place; the rest that is
    shorter than a chunk stays last."""
    whole = self.sampler.sizes[kind] // self.chunk
    if whole < 2:
      return place
    number, within = np.divmod(place, self.chunk)
    inside = number < whole
    key = self._keys("chunk", kind, epoch)
    moved = permutation.permute(np.where(inside, number, 0), whole, key)
    return np.where(inside, moved, number) * self.chunk + within

  def _keys(self, use: str, kind: int, epoch: np.ndarray, window: int = 0) -> np.ndarray:
    """A uint32 key for every epoch, as int64 [n]."""
    low, high = _halves(stable_hash(self.sampler.seed, use, self.sampler.names[kind], window))
    keys = permutation.epoch_key(epoch.astype(np.uint32), np.full_like(epoch, low, np.uint32), high)
    return keys.astype(np.int64)


def _halves(key: int) -> tuple[np.uint32, np.uint32]:
  return np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)


class Runs(NamedTuple):
  """Reads that cover some rows.

  Attributes:
    shard: int64 [runs], number of the file. offset: int64 [runs], of the first
      byte. records: int64 [runs], how many to read.
    index: int32, shaped like the rows: where each is among all records read.
  """

  shard: np.ndarray
  offset: np.ndarray
  records: np.ndarray
  index: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Index:
  """Where every row lies: shard after shard, kind after kind.

  Attributes:
    lengths: of each shard, int64 [records], bytes of each record's data.
    frame: bytes that the format adds to a record.
  """

  lengths: tuple[np.ndarray, ...]
  frame: int = 16

  @functools.cached_property
  def _ends(self) -> np.ndarray:
    """The row after each shard's last."""
    return np.cumsum([len(lengths) for lengths in self.lengths])

  @functools.cached_property
  def _offsets(self) -> np.ndarray:
    """The byte at which each row starts in its shard; 8 bytes a row."""
    starts = [np.cumsum(lengths + self.frame) - lengths - self.frame for lengths in self.lengths]
    return np.concatenate(starts)

  def runs(self, rows: np.ndarray) -> Runs:
    """Few long reads that cover `rows`, int64 of any shape."""
    wanted, back = np.unique(rows, return_inverse=True)
    shard = np.searchsorted(self._ends, wanted, side="right")
    new = np.ones(len(wanted), bool)
    new[1:] = (np.diff(wanted) > _GAP) | (np.diff(shard) > 0)
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(wanted)) - 1
    records = wanted[last] - wanted[first] + 1
    run = np.cumsum(new) - 1
    place = wanted - wanted[first][run] + (np.cumsum(records) - records)[run]
    return Runs(
      shard[first],
      self._offsets[wanted[first]],
      records,
      place[back].reshape(rows.shape).astype(np.int32),
    )
