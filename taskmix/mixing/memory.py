"""The memory engine: examples held as dense tensors, batches gathered by row."""

import copy
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from taskmix.mixing import parse, shards
from taskmix.spec import Column

# Tensors that start at a multiple of this are taken over by TensorFlow as they are.
_ALIGNMENT = 64
_WORDS = {"int64": 2, "float32": 1}


class Store:
  """All examples of all kinds, kind after kind, as tensors on one device.

  Pixels have a tensor each. Numbers share one int32 tensor, a row an example, so
  that a batch costs one gather and one cache miss an example for all of them.

  Attributes:
    columns: in the order of a batch.
    sizes: kind -> number of examples.
  """

  def __init__(self, arrays: Mapping[str, np.ndarray], columns: Sequence[Column], sizes: Mapping[str, int]):
    """`arrays`: column -> [n, *shape], kinds in the order of `sizes`; not to be changed any more."""
    self.columns = tuple(columns)
    self.sizes = dict(sizes)
    self._numbers = [column for column in columns if column.dtype in _WORDS]
    self._whole = {
      column.name: _tensor(arrays[column.name]) for column in columns if column.dtype not in _WORDS
    }
    self._words = _tensor(_pack(arrays, self._numbers, sum(self.sizes.values())))

  def gather(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
    """The examples of `rows`, int [n], as name -> [n, *shape]."""
    batch = {name: tf.gather(values, rows) for name, values in self._whole.items()}
    if self._numbers:
      batch.update(_unpack(tf.gather(self._words, rows), self._numbers))
    return {column.name: batch[column.name] for column in self.columns}

  def on(self, device: str) -> "Store":
    """This store without its strings, which no accelerator holds, copied to `device`."""
    there = copy.copy(self)
    there.columns = tuple(column for column in self.columns if column.dtype != "string")
    kept = {name: values for name, values in self._whole.items() if values.dtype != tf.string}
    with tf.device(device):
      there._whole = {name: tf.identity(values) for name, values in kept.items()}
      there._words = tf.identity(self._words)
    return there

  def strings(self) -> "Store":
    """This store's strings alone."""
    here = copy.copy(self)
    here.columns = tuple(column for column in self.columns if column.dtype == "string")
    here._numbers = []
    here._whole = {column.name: self._whole[column.name] for column in here.columns}
    return here


def _tensor(array: np.ndarray) -> tf.Tensor:
  """The array as a tensor on the host, the same memory where it is aligned."""
  if array.dtype == object or array.size == 0:
    return tf.convert_to_tensor(array)
  return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def _pack(arrays: Mapping[str, np.ndarray], columns: Sequence[Column], rows: int) -> np.ndarray:
  """int32 [rows, words]: the columns' bytes side by side."""
  packed = _aligned((rows, _width(columns)), np.int32)
  start = 0
  for column in columns:
    stop = start + column.size * _WORDS[column.dtype]
    values = np.ascontiguousarray(arrays[column.name], column.dtype).reshape(rows, column.size)
    packed[:, start:stop] = values.view(np.int32)
    start = stop
  return packed


def _unpack(words: tf.Tensor, columns: Sequence[Column]) -> dict[str, tf.Tensor]:
  batch, start = {}, 0
  for column in columns:
    stop = start + column.size * _WORDS[column.dtype]
    batch[column.name] = _as_column(words[:, start:stop], column)
    start = stop
  return batch


def _as_column(words: tf.Tensor, column: Column) -> tf.Tensor:
  """int32 [n, words] as the column's dtype and shape."""
  rows = words.shape[0] if words.shape[0] is not None else tf.shape(words)[0]
  if column.dtype == "int64":
    words = tf.reshape(words, (rows, column.size, 2))
  return tf.reshape(tf.bitcast(words, tf.as_dtype(column.dtype)), (rows, *column.shape))


def _width(columns: Sequence[Column]) -> int:
  return sum(column.size * _WORDS[column.dtype] for column in columns)


def _aligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
  """An uninitialised array that TensorFlow takes over without a copy."""
  size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
  raw = np.empty(size + _ALIGNMENT, np.uint8)
  start = -raw.ctypes.data % _ALIGNMENT
  return raw[start : start + size].view(dtype).reshape(shape)


def load(found: Mapping[str, Sequence[shards.Shard]], columns: Sequence[Column]) -> Store:
  """Reads every shard into memory.

  Args:
    found: kind -> its files, as `shards.preflight` found them.
    columns: those to hold; others in the records are passed over.

  Raises:
    shards.ShardError: naming the shard whose records lack a column.
  """
  sizes = {kind: sum(shard.records for shard in kept) for kind, kept in found.items()}
  total = sum(sizes.values())
  arrays = {column.name: _array(column, total) for column in columns}
  reader = tf.function(lambda serialized: parse.parse(serialized, columns), autograph=False)
  start = 0
  for kept in found.values():
    for shard in kept:
      start = _fill(arrays, start, shard, reader)
  return Store(arrays, columns, sizes)


def _array(column: Column, rows: int) -> np.ndarray:
  if column.dtype == "string":
    return np.empty((rows, *column.shape), object)
  return _aligned((rows, *column.shape), np.dtype(column.dtype).type)


def _fill(arrays: Mapping[str, np.ndarray], start: int, shard: shards.Shard, reader: Callable) -> int:
  """Writes the shard's examples from row `start` on; returns the row after the last."""
  for serialized in shards.records(shard.path, shard.compression):
    try:
      batch = reader(serialized)
    except tf.errors.InvalidArgumentError as error:
      raise shards.ShardError(f"{shard.path}: {shards.reason(error)}; is it the net's own data?") from error
    stop = start + len(serialized)
    for name, values in batch.items():
      arrays[name][start:stop] = values.numpy()
    start = stop
  return start
