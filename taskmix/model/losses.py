"""Losses of samples that only some of the tasks label.

A loss is a function (targets, outputs) -> float32 [b], one number a sample. All
that concerns masks is done here around it, once:

    targets ─► zeros where masked ─► per-sample loss ─► hardest of the labelled ─► mean over them

Unlabelled samples add nothing: no value, no gradient, not even if their target
is NaN. A batch that labels no sample of a task has the loss 0.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from taskmix.model.build import import_path
from taskmix.spec import Loss, Net, Task

PerSample = Callable[[Any, Any], Any]

# keep_hardest as an exact number of parts: ceil(0.7 * 10) must be 7, whatever
# float32 makes of 0.7.
_PARTS = 1_000_000


def softmax_cross_entropy(targets: Any, outputs: Any) -> Any:
  """-log softmax(outputs)[target], from logits, so never the log of 0.

  Args:
    targets: int64 [b].
    outputs: float32 [b, n_classes], logits.
  """
  return tf.nn.sparse_softmax_cross_entropy_with_logits(targets, outputs)


def focal_cross_entropy(targets: Any, outputs: Any) -> Any:
  """Cross entropy times (1 - p)^2: less of what is already right (Lin et al. 2017, gamma 2)."""
  entropy = softmax_cross_entropy(targets, outputs)
  return tf.square(-tf.math.expm1(-entropy)) * entropy


def mean_squared_error(targets: Any, outputs: Any) -> Any:
  """The mean over a target's values of their squared error; float32 [b, *shape] both."""
  return _mean(tf.square(outputs - targets))


def mean_absolute_error(targets: Any, outputs: Any) -> Any:
  """The mean over a target's values of their absolute error; float32 [b, *shape] both."""
  return _mean(tf.abs(outputs - targets))


def huber(targets: Any, outputs: Any) -> Any:
  """Squared error halved up to an error of 1, linear beyond, so that outliers pull less."""
  error = tf.abs(outputs - targets)
  return _mean(tf.where(error <= 1.0, 0.5 * tf.square(error), error - 0.5))


LOSSES: Mapping[str, PerSample] = {
  "softmax_cross_entropy": softmax_cross_entropy,
  "focal_cross_entropy": focal_cross_entropy,
  "mean_squared_error": mean_squared_error,
  "mean_absolute_error": mean_absolute_error,
  "huber": huber,
}


def per_sample(loss: Loss) -> PerSample:
  """The function of a loss's name: one of LOSSES, or any "package.module:function".

  Raises:
    ValueError: if there is none of that name; lists the known ones.
  """
  if ":" in loss.name:
    return import_path(loss.name, what=f"loss {loss.name!r}")
  if loss.name not in LOSSES:
    raise ValueError(f"no loss {loss.name!r}; there is {', '.join(LOSSES)}, or 'package.module:function'")
  return LOSSES[loss.name]


def task_loss(task: Task, batch: Mapping[str, Any], output: Any) -> Any:
  """The task's loss of a batch, before its weight; a float32 scalar.

  Args:
    task: what is learnt.
    batch: holds the task's target and mask, [b, *shape] and [b].
    output: of the task's head.

  Inside a distribution strategy the result is this replica's part: the parts of
  all replicas add up to the loss of the global batch, whose labelled samples are
  counted, and whose hardest are chosen, over all replicas.
  """
  mask = batch[task.mask] > 0
  targets = zero_where_masked(batch[task.target.name], mask)
  losses = tf.where(mask, tf.cast(per_sample(task.loss)(targets, output), tf.float32), 0.0)
  chosen = _chosen(tf.stop_gradient(losses), mask, task.loss.keep_hardest)
  count = _over_replicas(tf.reduce_sum(chosen))
  return tf.reduce_sum(losses * chosen) / tf.maximum(count, 1.0)


def net_losses(net: Net, batch: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
  """Every task's loss, before its weight, by the task's name."""
  return {task.name: task_loss(task, batch, outputs[task.name]) for task in net.tasks}


def hardest(losses: Any, mask: Any, keep: float) -> Any:
  """1.0 at the hardest of the labelled samples, else 0.0; exactly ceil(keep * labelled) of them.

  Args:
    losses: float32 [b].
    mask: bool [b], labelled.
    keep: the fraction to keep, in (0, 1].

  Of equal losses the earlier sample is taken, so that the count is exact.
  """
  labelled = tf.reduce_sum(tf.cast(mask, tf.int64))
  kept = (labelled * round(keep * _PARTS) + _PARTS - 1) // _PARTS
  ranked = tf.where(mask, losses, losses.dtype.min)
  size = tf.size(losses)
  order = tf.math.top_k(ranked, k=size).indices
  chosen = tf.cast(tf.range(size, dtype=tf.int64) < kept, tf.float32)
  return tf.scatter_nd(order[:, tf.newaxis], chosen, [size])


def zero_where_masked(targets: Any, mask: Any) -> Any:
  """`targets` [b, *shape] with zeros where `mask` [b] is False: no NaN and no bad class gets on."""
  rows = tf.reshape(mask, tf.concat([tf.shape(mask), tf.ones(targets.shape.rank - 1, tf.int32)], 0))
  return tf.where(rows, targets, tf.zeros_like(targets))


def _chosen(losses: Any, mask: Any, keep: float) -> Any:
  if keep == 1.0:
    return tf.cast(mask, tf.float32)
  context = _replicas()
  if context is None:
    return hardest(losses, mask, keep)
  size = tf.shape(losses)[0]
  every = context.all_gather(tf.stack([losses, tf.cast(mask, tf.float32)], 1), axis=0)
  chosen = hardest(every[:, 0], every[:, 1] > 0, keep)
  return chosen[context.replica_id_in_sync_group * size :][:size]


def _over_replicas(value: Any) -> Any:
  context = _replicas()
  return value if context is None else context.all_reduce(tf.distribute.ReduceOp.SUM, value)


def _replicas() -> Any:
  """The replica context where there is more than one replica, else None."""
  context = tf.distribute.get_replica_context()
  return context if context is not None and context.num_replicas_in_sync > 1 else None


def _mean(values: Any) -> Any:
  return tf.reduce_mean(values, axis=range(1, values.shape.rank)) if values.shape.rank > 1 else values
