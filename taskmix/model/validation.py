"""Losses over the whole eval data: every example once."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from taskmix.mixing import parse, shards
from taskmix.model.history import TOTAL, Record
from taskmix.model.losses import per_sample, zero_where_masked
from taskmix.spec import IMAGE, Column, Net, Task


class Validation:
  """Evaluates a model, over and over, on the same files.

  Hard-example selection has no part in it: these are the losses of all samples.
  """

  def __init__(
    self,
    net: Net,
    model: keras.Model,
    *,
    files: Mapping[str, Sequence[str]],
    columns: Sequence[Column],
    batch_size: int,
  ):
    """
    Args:
      net, model: what is evaluated.
      files: kind -> names or patterns of transformed TFRecords; a kind may have none.
      columns: those to read.
      batch_size: examples at a time.
    """
    self._net, self._model = net, model
    self._dataset = _examples(files, columns, batch_size)
    self._sums = tf.function(self._batch_sums, reduce_retracing=True, autograph=False)

  def record(self, step: int) -> Record:
    """Every task's mean loss, and the accuracy of those with classes, as they are now."""
    sums = np.zeros((len(self._net.tasks), 3))
    for batch in self._dataset:
      sums += self._sums(batch).numpy()
    losses, metrics = {}, {}
    for task, (loss, right, count) in zip(self._net.tasks, sums.tolist(), strict=True):
      losses[task.name] = loss / count if count else math.nan
      if task.target.classes:
        metrics[f"{task.name}_accuracy"] = right / count if count else math.nan
    weighted = [task.loss_weight * losses[task.name] for task in self._net.tasks]
    losses[TOTAL] = sum(value for value in weighted if not math.isnan(value))
    return Record(step, "eval", losses, metrics)

  def _batch_sums(self, batch: Mapping[str, Any]) -> tf.Tensor:
    """float32 [tasks, 3]: summed losses, right answers, samples that label the task."""
    outputs = self._model(batch[IMAGE], training=False)
    return tf.stack([_task_sums(task, batch, outputs[task.name]) for task in self._net.tasks])


def _task_sums(task: Task, batch: Mapping[str, Any], output: Any) -> tf.Tensor:
  mask = batch[task.mask] > 0
  targets = zero_where_masked(batch[task.target.name], mask)
  losses = tf.cast(per_sample(task.loss)(targets, output), tf.float32)
  right = tf.zeros_like(losses)
  if task.target.classes:
    right = tf.cast(tf.argmax(output, axis=-1) == targets, tf.float32)
  values = tf.stack([losses, right, tf.ones_like(losses)], axis=1)
  return tf.reduce_sum(tf.where(mask[:, tf.newaxis], values, 0.0), axis=0)


def _examples(
  files: Mapping[str, Sequence[str]], columns: Sequence[Column], batch_size: int
) -> tf.data.Dataset:
  """Batches of all files' examples, one after the other; the last may be smaller."""
  patterns = [pattern for kind in files.values() for pattern in kind]
  serialized = tf.data.Dataset.from_tensor_slices(tf.constant([], tf.string))
  for path in sorted({path for pattern in patterns for path in tf.io.gfile.glob(pattern)}):
    compression = cast(Any, shards.compression_of(path))
    serialized = serialized.concatenate(tf.data.TFRecordDataset(path, compression))
  return serialized.batch(batch_size).map(lambda batch: parse.parse(batch, columns)).prefetch(1)
