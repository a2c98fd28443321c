"""One shard from the sorted runs: a merge in bounded memory."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator

import numpy as np

from taskmix.examples import storage
from taskmix.examples.manifest import ShardReport
from taskmix.examples.planning import PlanFile, ShardTask, read_plan
from taskmix.examples.sharding import BUCKET_BITS, BUCKETS, Deflater, split_folder
from taskmix.examples.spill import Run, order_of, read_index, read_stretch
from taskmix.sources.files import join

# Bytes of examples in memory while a shard is written, whatever its size.
_CHUNK = 8 << 20


@dataclasses.dataclass(frozen=True)
class ShardWriter:
  """Writes shards; picklable.

  Attributes:
    output: unpublished folder of the result.
    reports: folder for a report a shard, `SPLIT.NAME.shard`, in JSON.
    compression: "gzip" or "none".
  """

  output: str
  reports: str
  compression: str

  def __call__(self, task: ShardTask) -> ShardReport:
    """Writes the shard; returns its count and checksum."""
    stretches = _stretches(task, read_plan(task.plan))
    folder = join(self.output, split_folder(task.split))
    storage.make_folder(folder)
    digest, size = hashlib.sha256(usedforsecurity=False), 0
    deflater = Deflater() if self.compression == "gzip" else None
    with storage.create(join(folder, task.name)) as file:
      for chunk in _chunks(stretches):
        data = _merge(chunk)
        data = deflater.compress(data) if deflater else data
        size += file.write(data)
        digest.update(data)
      if deflater:
        data = deflater.flush()
        size += file.write(data)
        digest.update(data)
    examples = sum(len(stretch.index) for stretch in stretches)
    report = ShardReport(task.split, task.name, examples, size, digest.hexdigest())
    path = join(self.reports, f"{task.split}.{task.name}.shard")
    storage.write_bytes(path, json.dumps(dataclasses.asdict(report)).encode())
    return report


def framed_chunks(task: ShardTask) -> Iterator[bytes]:
  """The framed examples that the task asks for, in order, some megabytes at a time."""
  return map(_merge, _chunks(_stretches(task, read_plan(task.plan))))


@dataclasses.dataclass(frozen=True, eq=False)
class _Stretch:
  """The examples of a run that a shard takes.

  Attributes:
    run: the run.
    index: INDEX rows of them, ordered.
    offsets: int64, where each begins in the run's records.
  """

  run: Run
  index: np.ndarray
  offsets: np.ndarray

  def between(self, low: int, high: int) -> "_Stretch":
    """Those whose key is in [low, high); keys as Python ints, up to 2**64."""
    keys = self.index["key"]
    first = np.searchsorted(keys, np.uint64(low))
    last = len(keys) if high >= 1 << 64 else np.searchsorted(keys, np.uint64(high))
    return _Stretch(self.run, self.index[first:last], self.offsets[first:last])


def _stretches(task: ShardTask, plan: PlanFile) -> list[_Stretch]:
  found = []
  for run in plan.runs:
    if run.kind == task.kind:
      index = read_index(run)
      offsets = np.cumsum(index["size"], dtype=np.int64) - index["size"]
      ours = _Stretch(run, index, offsets).between(_key(task.low), _key(task.high))
      kept = plan.phases[ours.index["photo"]] == task.phase
      if kept.any():
        found.append(_Stretch(run, np.array(ours.index[kept]), ours.offsets[kept]))
  return found


def _chunks(stretches: list[_Stretch]):
  """The shard's stretches of keys in order, each of about _CHUNK bytes."""
  if not stretches:
    return
  keys = np.concatenate([stretch.index["key"] for stretch in stretches])
  sizes = np.concatenate([stretch.index["size"] for stretch in stretches])
  order = np.argsort(keys, kind="stable")
  number = (np.cumsum(sizes[order], dtype=np.int64) - 1) // _CHUNK
  # Equal keys never part: edges are keys, and one edge takes all that equal it.
  edges = keys[order][np.flatnonzero(np.diff(number)) + 1].tolist()
  for low, high in zip([0, *edges], [*edges, 1 << 64], strict=True):
    yield [part for stretch in stretches if len((part := stretch.between(low, high)).index)]


def _merge(stretches: list[_Stretch]) -> bytes:
  """The framed examples of all stretches, in the split's order."""
  records: list[bytes] = []
  for stretch in stretches:
    start = int(stretch.offsets[0])
    end = int(stretch.offsets[-1] + stretch.index["size"][-1])
    data = memoryview(read_stretch(stretch.run, start, end - start))
    begins = (stretch.offsets - start).tolist()
    ends = (stretch.offsets - start + stretch.index["size"]).tolist()
    # Only what belongs to the shard is kept: the rest is another phase's.
    records += [bytes(data[a:b]) for a, b in zip(begins, ends, strict=True)]
  index = np.concatenate([stretch.index for stretch in stretches])
  return b"".join([records[i] for i in order_of(index).tolist()])


def _key(bucket: int) -> int:
  """The lowest key of a bucket; 2**64 for the end."""
  return 1 << 64 if bucket == BUCKETS else bucket << (64 - BUCKET_BITS)
