"""The sampler's arithmetic as TensorFlow operations."""

import types
from collections.abc import Callable

import tensorflow as tf

from taskmix.mixing import permutation
from taskmix.mixing.sampler import BlockRows, Sampler

# The names that `permutation` needs of an array module.
TF = types.SimpleNamespace(
  bitwise_xor=tf.bitwise.bitwise_xor,
  right_shift=tf.bitwise.right_shift,
  take=tf.gather,
  uint32=lambda value: tf.constant(value, tf.uint32),
  where=tf.where,
)


def block_rows(sampler: Sampler, *, dtype: tf.DType = tf.int32) -> Callable[[tf.Tensor], tf.Tensor]:
  """A function from a block's number, int64 scalar, to its rows.

  Returns:
    block number -> `dtype` [block_steps, batch_size], equal to `Sampler.block(n).row`.
  """
  tables = BlockRows(sampler, tf.constant)
  base = tf.cast(tables.base, dtype)
  shape = (sampler.block_steps, sampler.batch_size)

  def rows(number: tf.Tensor) -> tf.Tensor:
    start = number * tables.stride
    epoch = start // tables.sizes
    place = tf.cast(start - epoch * tables.sizes, tf.uint32)
    slots, key = tables.place(tf.cast(epoch, tf.uint32), place, xp=TF)
    return tf.reshape(base + tf.cast(_walk(slots, key, tables), dtype), shape)

  return rows


def _walk(place: tf.Tensor, key: tf.Tensor, tables: BlockRows) -> tf.Tensor:
  """Sends the few places outside of their size through the network until they are inside."""

  def outside(place: tf.Tensor) -> tf.Tensor:
    return tf.where(place >= tables.size)

  def again(place: tf.Tensor, at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    columns = (place, tables.first, tables.second, key)
    moved = permutation.encrypt(*(tf.gather_nd(column, at) for column in columns), xp=TF)
    place = tf.tensor_scatter_nd_update(place, at, moved)
    return place, tf.boolean_mask(at, moved >= tf.gather_nd(tables.size, at))

  place, _ = tf.while_loop(
    lambda place, at: tf.size(at) > 0,
    again,
    (place, outside(place)),
    shape_invariants=(place.shape, tf.TensorShape([None, 1])),
    parallel_iterations=1,
  )
  return place
