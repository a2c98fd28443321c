"""Step and rows of every batch, as a dataset: what the memory and device engines gather by."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from taskmix.mixing import graph
from taskmix.mixing.sampler import Sampler, Worker
from taskmix.spec import Mixture

# Blocks of steps computed ahead of the gather.
_BLOCKS_AHEAD = 2

# Seen with the numbers of a block: first step, rows [block_steps, batch_size].
Tap = Callable[[int, np.ndarray], None]


@dataclasses.dataclass(frozen=True)
class Span:
  """Which steps a dataset gives: start, start + 1, .. stop - 1; then perhaps an error.

  Attributes:
    start: the first step.
    stop: the step after the last; None is endless.
    error: raised in place of step `stop`; "" ends the data.
  """

  start: int
  stop: int | None = None
  error: str = ""

  @property
  def steps(self) -> int | None:
    return None if self.stop is None else self.stop - self.start


def span(mixture: Mixture, sampler: Sampler, *, start_step: int, steps: int | None) -> Span:
  """The steps to give, as far as the kinds that do not repeat reach.

  A batch is always whole: a kind that stops ends the data before the first batch
  that it could not fill.

  Raises:
    ValueError: if `steps` are more than a kind with when_short="error" can fill.
  """
  if start_step < 0 or (steps is not None and steps < 0):
    raise ValueError(f"start_step {start_step} and steps {steps} must not be negative")
  stop, error = None if steps is None else start_step + steps, ""
  for full in _full_steps(mixture, sampler, "stop").values():
    stop = full if stop is None else min(stop, full)
  for name, full in _full_steps(mixture, sampler, "error").items():
    if stop is not None and stop <= full:
      continue
    size = sampler.sizes[sampler.names.index(name)]
    message = (  # no quotes: they come out escaped where the graph raises it
      f"kind {name} is used up after {full} steps of {_count(sampler, name)} examples (it has {size}) and "
      "its when_short is error; ask for fewer steps, give more examples, or let it repeat or stop"
    )
    if steps is not None:
      raise ValueError(message)
    stop, error = full, message
  return Span(start_step, None if stop is None else max(stop, start_step), error)


def _full_steps(mixture: Mixture, sampler: Sampler, when_short: str) -> Mapping[str, int]:
  """Kinds of this policy, and the batches that one epoch of each fills."""
  sizes = dict(zip(sampler.names, sampler.sizes, strict=True))
  return {
    kind.name: sizes[kind.name] // _count(sampler, kind.name)
    for kind in mixture.kinds
    if kind.when_short == when_short
  }


def _count(sampler: Sampler, name: str) -> int:
  return sampler.counts[sampler.names.index(name)]


def rows(sampler: Sampler, over: Span, *, worker: Worker, tap: Tap | None = None) -> tf.data.Dataset:
  """The steps of `over` and the worker's rows of each: (int64 scalar, int32 or int64 [slots]).

  Args:
    sampler: of the whole batch.
    over: the steps.
    worker: whose slots.
    tap: called with each block's first step and the rows of all its slots.
  """
  size, slots = sampler.block_steps, worker.slice(sampler.batch_size)
  dtype = tf.int32 if sum(sampler.sizes) < 2**31 else tf.int64
  block_rows = graph.block_rows(sampler, dtype=dtype)

  @tf.autograph.experimental.do_not_convert
  def block(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    drawn = block_rows(number)
    if tap is not None:
      drawn = _tapped(tap, number * size, drawn)
    return number * size + tf.range(size, dtype=tf.int64), drawn[:, slots]

  last = 2**62 // size if over.stop is None else -(-over.stop // size)
  blocks = tf.data.Dataset.range(over.start // size, last).map(block).prefetch(_BLOCKS_AHEAD)
  steps = blocks.unbatch().skip(over.start % size)
  return steps if over.steps is None else steps.take(over.steps)


def _tapped(tap: Tap, first_step: tf.Tensor, drawn: tf.Tensor) -> tf.Tensor:
  def see(first_step: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    tap(int(first_step), drawn)
    return drawn

  seen = tf.numpy_function(see, (first_step, drawn), drawn.dtype)
  seen.set_shape(drawn.shape)
  return seen


def ending(dataset: tf.data.Dataset, over: Span) -> tf.data.Dataset:
  """The dataset with the span's error, if it has one, after its last element."""
  if not over.error:
    return dataset

  def fail(_):
    with tf.control_dependencies([tf.debugging.Assert(False, [over.error])]):
      return tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), dataset.element_spec)

  return dataset.concatenate(tf.data.Dataset.range(1).map(fail))
