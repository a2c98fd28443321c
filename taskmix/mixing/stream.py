"""The stream engine: records read from the shards window by window, parsed a batch at a time."""

import gzip
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

from taskmix.mixing import parse
from taskmix.mixing.rows import Span, Tap
from taskmix.mixing.sampler import Sampler, Worker
from taskmix.mixing.shards import RECORD_FRAME, Shard
from taskmix.mixing.windows import Index, WindowSampler
from taskmix.spec import Column

# Files read at a time, and windows ready before they are needed.
_READERS = 2
_WINDOWS_AHEAD = 1
_READ_BYTES = 1 << 18
# A window of this many examples shuffles well; more would only cost memory.
_WINDOW_EXAMPLES = 1 << 16

_logger = logging.getLogger(__name__)


def window_steps(columns: Sequence[Column], batch_size: int, window_mib: float) -> int:
  """Steps of a window of about `window_mib` MiB of examples."""
  fits = int(window_mib * 2**20) // parse.example_bytes(columns)
  return max(1, min(fits, _WINDOW_EXAMPLES) // batch_size)


def records(
  shards: Mapping[str, Sequence[Shard]],
  sampler: Sampler,
  over: Span,
  *,
  steps: int,
  worker: Worker,
  tap: Tap | None = None,
  scratch: str | None = None,
) -> tf.data.Dataset:
  """The steps of `over` and the worker's records of each: (int64 scalar, string [slots]).

  Args:
    shards: kind -> its files, as `shards.preflight` found them.
    sampler: of the whole batch.
    over: the steps.
    steps: of a window.
    worker: whose slots.
    tap: called with each window's first step and the rows of all its slots.
    scratch: folder in which gzip shards are unpacked, once.
  """
  files = [shard for kept in shards.values() for shard in kept if shard.records]
  paths = tf.constant([plain_path(shard, scratch) for shard in files])
  plan = _planner(WindowSampler(sampler, steps), Index(tuple(s.lengths for s in files), RECORD_FRAME), over)
  slots = worker.slice(sampler.batch_size)

  def planned(window: tf.Tensor) -> tuple[tf.Tensor, ...]:
    kinds = [tf.int64, tf.int64, tf.int64, tf.int64, tf.int32]
    found = tf.numpy_function(lambda window: plan(int(window), slots, tap), [window], kinds)
    for value, rank in zip(found, (1, 1, 1, 1, 2), strict=True):
      value.set_shape([None] * rank)
    return tuple(found)

  def read(number, shard, offset, count, index):
    return number, _read_all(tf.gather(paths, shard), offset, count), index

  def batches(number: Any, serialized: Any, index: Any) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((number, index)).map(
      lambda step, chosen: (step, serialized, tf.ensure_shape(chosen, [slots.stop - slots.start]))
    )

  first, last = over.start // steps, 2**62 // steps if over.stop is None else -(-over.stop // steps)
  windows = (
    tf.data.Dataset.range(first if over.steps != 0 else last, last).map(planned).prefetch(_WINDOWS_AHEAD)
  )
  read_ahead: Any = windows.map(read).prefetch(_WINDOWS_AHEAD)
  return read_ahead.flat_map(batches)


def _planner(sampler: WindowSampler, index: Index, over: Span) -> Callable[..., tuple]:
  """A function from a window's number to its steps, its reads, and the place of every slot in them."""

  def plan(window: int, slots: slice, tap: Tap | None) -> tuple[np.ndarray, ...]:
    first = max(window * sampler.steps, over.start)
    last = (window + 1) * sampler.steps if over.stop is None else min((window + 1) * sampler.steps, over.stop)
    rows = sampler.slots(first, last).row
    if tap is not None:
      tap(first, rows)
    runs = index.runs(rows[:, slots])
    return np.arange(first, last), runs.shard, runs.offset, runs.records, runs.index

  return plan


def _read_all(paths: tf.Tensor, offsets: tf.Tensor, counts: tf.Tensor) -> Any:
  """The records of all runs, in order, several files at a time: string [sum of counts]."""

  def read_run(path: tf.Tensor, offset: tf.Tensor, count: tf.Tensor) -> Any:
    return _RecordsFrom(path, offset).take(count).batch(count).get_single_element()

  runs = tf.data.Dataset.from_tensor_slices((paths, offsets, counts))
  read = runs.map(read_run, num_parallel_calls=_READERS, deterministic=True)
  return read.rebatch(tf.reduce_sum(counts)).get_single_element()


class _RecordsFrom(dataset_ops.DatasetSource):
  """The records of a TFRecord file from a byte on; `tf.data.TFRecordDataset` starts at 0 only."""

  def __init__(self, path: tf.Tensor, offset: tf.Tensor):
    super().__init__(
      tf.raw_ops.TFRecordDatasetV2(
        filenames=path, compression_type="", buffer_size=_READ_BYTES, byte_offsets=offset, metadata=""
      )
    )

  @property
  def element_spec(self) -> Any:
    return tf.TensorSpec((), tf.string)


def plain_path(shard: Shard, scratch: str | None = None) -> str:
  """The shard, or an unpacked copy: one can't start in the middle of a gzip file.

  The copy's name hangs on the shard's path, size and time, so that a later run
  finds it; it is put there in one move, so that it is whole or absent.

  Args:
    shard: found by `shards.scan`.
    scratch: folder of the copies; None is a folder of this user's in the system's
      temporary one.
  """
  if not shard.compression:
    return shard.path
  folder = scratch or os.path.join(tempfile.gettempdir(), f"taskmix-unpacked-{os.getuid()}")
  os.makedirs(folder, mode=0o700, exist_ok=True)
  stat = tf.io.gfile.stat(shard.path)
  name = hashlib.sha256(f"{shard.path}\0{stat.length}\0{stat.mtime_nsec}".encode()).hexdigest()[:32]
  path = os.path.join(folder, f"{name}.tfrecord")
  if not os.path.exists(path):
    _logger.info("unpacking %s to %s: the stream engine reads from the middle of shards", shard.path, path)
    _unpack(shard.path, path)
  return path


def _unpack(path: str, to: str) -> None:
  partial = f"{to}.{os.getpid()}"
  with (
    tf.io.gfile.GFile(path, "rb") as packed,
    gzip.GzipFile(fileobj=packed) as unpacked,
    open(partial, "wb") as plain,
  ):
    shutil.copyfileobj(unpacked, plain, 1 << 20)
  os.replace(partial, to)
