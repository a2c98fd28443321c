"""Serialized tf.Examples to dense tensors, many at a time."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from taskmix.examples.codec import feature_spec
from taskmix.spec import Column

__all__ = ["example_bytes", "feature_spec", "parse"]


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
