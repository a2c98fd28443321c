"""Encoded examples on their way to a shard: sorted runs in files.

Whoever cuts crops keeps some megabytes of them, sorts them by key, and writes a
run; whoever writes a shard takes from every run the stretch of keys that is its
own. So payloads never pass through a runner's shuffle, and memory stays the same
however many photos there are.

A run is a file: an INDEX row for every example, then the TFRecord-framed examples
in the same order, both a kind after the other and by key within one.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from taskmix.examples import storage
from taskmix.examples.sharding import FRAME_BYTES, framed
from taskmix.sources.files import is_remote, join, read_bytes

# key: 64-bit place in the split's order; photo: its place in the sources' list;
# number: of the crop in its photo and kind, to order equal keys; size: framed bytes.
INDEX = np.dtype([("key", "<u8"), ("photo", "<u4"), ("number", "<u4"), ("size", "<u4")])


@dataclasses.dataclass(frozen=True)
class Run:
  """One kind's part of a run.

  Attributes:
    path: of the run.
    kind: the kind.
    examples: how many.
    index, records: offsets in bytes of its rows and of its examples.
  """

  path: str
  kind: str
  examples: int
  index: int
  records: int


class RunWriter:
  """Collects examples and spills them whenever they pass `limit` bytes.

  Args:
    folder: where runs go.
    name: of this writer; runs are NAME-0, NAME-1, ...
    limit: bytes kept before a run is written.
  """

  def __init__(self, folder: str, name: str, *, limit: int = 16 << 20):
    self.runs: list[Run] = []
    self._folder, self._name, self._limit = folder, name, limit
    self._number = 0
    self._clear()

  def _clear(self) -> None:
    self._records: list[bytes] = []
    self._index: list[np.ndarray] = []
    self._kinds: list[str] = []
    self._held = 0

  def add(
    self,
    kind: str,
    records: Sequence[bytes],
    *,
    photos: np.ndarray | int,
    numbers: np.ndarray,
    keys: np.ndarray,
  ) -> None:
    """Takes examples of one kind.

    Args:
      kind: theirs.
      records: n serialized examples.
      photos: each one's photo, its place in the sources' list.
      numbers: [n], each one's number in its photo and kind.
      keys: uint64 [n].
    """
    index = np.empty(len(records), INDEX)
    index["key"], index["photo"], index["number"] = keys, photos, numbers
    index["size"] = np.fromiter(map(len, records), np.uint32, len(records)) + FRAME_BYTES
    self._records += records
    self._index.append(index)
    self._kinds.append(kind)
    self._held += int(index["size"].sum())
    if self._held >= self._limit:
      self.flush()

  def flush(self) -> None:
    """Writes what is held as a run."""
    if self._records:
      path = join(self._folder, f"{self._name}-{self._number}.run")
      names, codes = np.unique(self._kinds, return_inverse=True)
      kinds = np.repeat(codes, list(map(len, self._index)))
      index = np.concatenate(self._index)
      order = np.lexsort((index["number"], index["photo"], index["key"], kinds))
      index, records = index[order], [self._records[i] for i in order.tolist()]
      with storage.create(path) as file:
        file.write(index.tobytes())
        file.write(framed(records))
      self.runs += _runs(path, names.tolist(), kinds[order], index["size"])
      self._number += 1
    self._clear()


def _runs(path: str, names: Sequence[str], kinds: np.ndarray, sizes: np.ndarray) -> list[Run]:
  """Where each kind lies in a run whose rows have these kinds (ascending) and sizes."""
  edges = np.searchsorted(kinds, np.arange(len(names) + 1))
  starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
  head = len(kinds) * INDEX.itemsize
  return [
    Run(path, name, int(high - low), int(low) * INDEX.itemsize, head + int(starts[low]))
    for name, low, high in zip(names, edges[:-1], edges[1:], strict=True)
    if high > low
  ]


def order_of(index: np.ndarray) -> np.ndarray:
  """The order of a split: by key, then by photo and crop, so that nothing is left to chance."""
  return np.lexsort((index["number"], index["photo"], index["key"]))


def read_index(run: Run) -> np.ndarray:
  """INDEX [examples], ordered by key; a local one is mapped, not read."""
  if not is_remote(run.path):
    return np.memmap(run.path, INDEX, "r", run.index, (run.examples,))
  return np.frombuffer(read_bytes(run.path, (run.index, run.examples * INDEX.itemsize)), INDEX)


def read_stretch(run: Run, offset: int, size: int) -> bytes:
  """`size` bytes of the run's examples from `offset` on."""
  return read_bytes(run.path, (run.records + offset, size))
