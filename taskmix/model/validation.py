"""Losses and accuracies over the whole eval data: every example once."""

import math
from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from taskmix.mixing import parse, shards
from taskmix.model.history import TOTAL
from taskmix.model.losses import per_sample, zero_where_masked
from taskmix.spec import IMAGE, Column, Net, Task


class Validation:
  """Evaluates a model, over and over, on the same files."""

  def __init__(
    self,
    net: Net,
    model: keras.Model,
    files: Mapping[str, Sequence[str]],
    *,
    columns: Sequence[Column],
    batch_size: int,
  ):
    """
    Args:
      net, model: what is evaluated.
      files: kind -> patterns of transformed TFRecords; a kind may have none.
      columns: those to read.
      batch_size: examples at a time.
    """
    self._net, self._model = net, model
    paths = [
      path for patterns in files.values() for pattern in patterns for path in tf.io.gfile.glob(pattern)
    ]
    self._batches = [
      tf.data.TFRecordDataset(path, shards.compression_of(path))
      .batch(batch_size)
      .map(lambda batch: parse.parse(batch, columns))
      for path in sorted(paths)
    ]
    self._sums = tf.function(self._batch_sums, reduce_retracing=True)

  def __call__(self) -> tuple[dict[str, float], dict[str, float]]:
    """(losses, metrics) as of `taskmix.model.history.Record`.

    A loss is the mean over every labelled sample, also the easy ones that
    hard-example selection leaves out in training.
    """
    sums = {task.name: tf.zeros(3) for task in self._net.tasks}
    for dataset in self._batches:
      for batch in dataset:
        sums = {name: sums[name] + more for name, more in self._sums(batch).items()}
    losses, metrics = {}, {}
    for task in self._net.tasks:
      loss, right, count = (float(value) for value in sums[task.name])
      losses[task.name] = loss / count if count else math.nan
      if task.target.classes:
        metrics[f"{task.name}_accuracy"] = right / count if count else math.nan
    weighted = [task.loss_weight * losses[task.name] for task in self._net.tasks]
    losses[TOTAL] = sum(value for value in weighted if not math.isnan(value))
    return losses, metrics

  def _batch_sums(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """task -> float32 [3]: its losses added up, right answers, labelled samples."""
    outputs = self._model(batch[IMAGE], training=False)
    return {task.name: self._task_sums(task, batch, outputs[task.name]) for task in self._net.tasks}

  def _task_sums(self, task: Task, batch: Mapping[str, tf.Tensor], output: tf.Tensor) -> tf.Tensor:
    mask = batch[task.mask] > 0
    targets = zero_where_masked(batch[task.target.name], mask)
    losses = tf.cast(per_sample(task.loss)(targets, output), tf.float32)
    right = tf.zeros_like(mask)
    if task.target.classes:
      right = tf.argmax(output, axis=-1, output_type=targets.dtype) == targets
    values = tf.stack([losses, tf.cast(right, tf.float32), tf.ones_like(losses)], axis=1)
    return tf.reduce_sum(tf.where(mask[:, tf.newaxis], values, 0.0), axis=0)
