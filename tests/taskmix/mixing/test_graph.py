import numpy as np
import pytest
import tensorflow as tf

from taskmix.mixing.graph import block_rows
from taskmix.mixing.sampler import Sampler


@pytest.mark.parametrize(
  "sizes",
  [{"neg": 1, "pos": 1}, {"neg": 3, "pos": 2}, {"neg": 100, "pos": 13}, {"neg": 70_001, "pos": 65_536}],
)
def test_tensorflow_draws_what_numpy_draws(sizes):
  sampler = Sampler.of({"neg": 5, "pos": 3}, sizes, seed=11)
  rows = tf.function(block_rows(sampler))
  for number in (0, 1, 2, 50_000, 10**12):
    np.testing.assert_array_equal(rows(tf.constant(number, tf.int64)), sampler.block(number).row)


def test_large_batches_take_smaller_blocks():
  sampler = Sampler.of({"a": 40_000}, {"a": 100_000}, seed=0)
  assert sampler.block_steps == 1
  rows = block_rows(sampler, dtype=tf.int64)(tf.constant(4, tf.int64))
  np.testing.assert_array_equal(rows[0], sampler.batch(4).row)
