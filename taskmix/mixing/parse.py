"""Serialized tf.Examples to dense tensors, many at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from taskmix.spec import Column

_STORED = {"uint8": tf.string, "int64": tf.int64, "float32": tf.float32, "string": tf.string}


def feature_spec(columns: Sequence[Column]) -> dict[str, tf.io.FixedLenFeature]:
  """For tf.io.parse_example: a uint8 column is one string of raw bytes, others are lists."""
  return {
    column.name: tf.io.FixedLenFeature(() if column.dtype == "uint8" else column.shape, _STORED[column.dtype])
    for column in columns
  }


def parse(serialized: tf.Tensor, columns: Sequence[Column]) -> dict[str, tf.Tensor]:
  """One parse for all of `serialized`, string [n].

  Returns:
    name -> tensor [n, *shape] of the column's dtype.

  Raises:
    tf.errors.InvalidArgumentError: where a column is absent or of another size.
  """
  parsed = tf.io.parse_example(serialized, feature_spec(columns))
  return {column.name: _decode(parsed[column.name], column) for column in columns}


def _decode(value: Any, column: Column) -> tf.Tensor:
  if column.dtype != "uint8":
    return value
  # Without `fixed_length`, which would pad or cut in silence.
  pixels = tf.io.decode_raw(value, tf.uint8)
  return tf.reshape(pixels, tf.concat([tf.shape(value), column.shape], 0))


def example_bytes(columns: Sequence[Column]) -> int:
  """Bytes that one example takes as dense tensors; 64 for each string."""
  width = {"uint8": 1, "int64": 8, "float32": 4, "string": 64}
  return sum(column.size * width[column.dtype] for column in columns)


def signature(columns: Sequence[Column], batch: int | None) -> dict[str, tf.TensorSpec]:
  """What a batch of these columns looks like."""
  return {column.name: tf.TensorSpec((batch, *column.shape), tf.as_dtype(column.dtype)) for column in columns}


def empty(columns: Sequence[Column], rows: int) -> dict[str, np.ndarray]:
  """Uninitialised arrays for `rows` examples."""
  types = {"string": object}
  return {
    column.name: np.empty((rows, *column.shape), types.get(column.dtype, column.dtype)) for column in columns
  }
