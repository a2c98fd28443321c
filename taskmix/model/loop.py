"""The compiled training loop: several steps a call, one call a chunk.

Keras' `fit` reads its data, its metrics and its callbacks through Python once an
execution and cannot be entered at step n; a net of 7,000 parameters spends much
of its time there. So the loop is a tf.function over an iterator:

    advance(iterator, n):  n times { next batch -> forward, losses, gradients, update }

With `frozen`, a pretrained part of the net is left as it is.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from taskmix.model import pretrained
from taskmix.model.build import build
from taskmix.model.devices import Compute
from taskmix.model.history import TOTAL
from taskmix.model.losses import net_losses
from taskmix.spec import IMAGE, Net, Training


class Loop:
  """A model and its optimizer, and the function that moves them by steps.

  Attributes:
    names: of the losses that `advance` returns: every task's, and their weighted sum.
    variables: all that a checkpoint must hold, as tf.Variables.
    expand: `taskmix.mixing.Feed.expand`, run inside the compiled step; set it
      before the first.
  """

  def __init__(
    self,
    net: Net,
    training: Training,
    *,
    compute: Compute,
  ):
    """
    Args:
      net: what is trained.
      training: seed, schedule and decay.
      compute: where and how.
    """
    self.net = net
    self.names = (*(task.name for task in net.tasks), TOTAL)
    self.expand: Callable[[Any], Any] = lambda batch: batch
    self._compute, self._batch_size = compute, training.batch_size
    keras.utils.set_random_seed(training.seed)
    with compute.strategy.scope():
      self.model = build(net, precision=compute.precision)
      self.optimizer = optimizer_of(training, precision=compute.precision)
      self.optimizer.build(self.model.trainable_variables)
    # The loop over steps is AutoGraph's to write; a step branches on no tensor, and is left as it stands.
    self._step = (
      tf.function(self._one_step, jit_compile=True, autograph=False)
      if compute.jit_compile
      else tf.autograph.experimental.do_not_convert(self._one_step)
    )
    self.advance = tf.function(self._advance, reduce_retracing=True)

  @property
  def variables(self) -> list[tf.Variable]:
    return [variable.value for variable in (*self.model.variables, *self.optimizer.variables)]

  @property
  def learning_rate(self) -> float:
    return float(self.optimizer.learning_rate)

  def iterate(self, dataset: tf.data.Dataset) -> Any:
    """An iterator over it, its batches sliced over this process's replicas."""
    compute = self._compute
    if compute.worker.count > 1:
      # The batches are this worker's slices already: TensorFlow is to shard nothing.
      here = compute.replicas // compute.worker.count
      pieces = dataset if here == 1 else dataset.rebatch(self._batch_size // compute.replicas)
      dataset = compute.strategy.distribute_datasets_from_function(lambda _: pieces)
    elif compute.strategy is not tf.distribute.get_strategy():
      dataset = compute.strategy.experimental_distribute_dataset(dataset)
    return iter(dataset)

  def _advance(self, iterator: Any, steps: tf.Tensor, frozen: bool = False) -> tf.Tensor:
    """Takes `steps` batches (int64 scalar); float32 [names], the losses added up over them."""
    strategy = self._compute.strategy
    summed = tf.zeros(len(self.names))
    for _ in tf.range(steps):
      losses = strategy.run(self._step, (next(iterator), frozen))
      summed += strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)
    return summed

  def _one_step(self, element: Any, frozen: bool = False) -> tf.Tensor:
    batch = self.expand(element)
    variables = pretrained.head_variables(self.model) if frozen else self.model.trainable_variables
    with tf.GradientTape() as tape:
      outputs = self.model(batch[IMAGE], training=True)
      losses = net_losses(self.net, batch, outputs)
      total = tf.add_n([task.loss_weight * losses[task.name] for task in self.net.tasks])
      if self.model.losses:
        # Regularizers are the same on every replica, and gradients are added over them.
        total += tf.add_n(self.model.losses) / self._compute.replicas
      scaled = self.optimizer.scale_loss(total)
    self.optimizer.apply(tape.gradient(scaled, variables), variables)
    return tf.stack([*(losses[task.name] for task in self.net.tasks), total])


class _FineTuning(keras.optimizers.schedules.LearningRateSchedule):
  """Another schedule, times `factor` from step `since` on."""

  def __init__(self, schedule: Any, *, since: int, factor: float):
    super().__init__()
    self._schedule, self._since, self._factor = schedule, since, factor

  def __call__(self, step: Any) -> Any:
    return self._schedule(step) * tf.where(tf.cast(step, tf.int64) < self._since, 1.0, self._factor)

  def get_config(self) -> dict[str, Any]:
    return {"schedule": self._schedule, "since": self._since, "factor": self._factor}


def optimizer_of(training: Training, *, precision: str = "float32") -> keras.optimizers.Optimizer:
  """Adam, or AdamW with weight decay, on a cosine from the peak to 0 after a linear warm-up.

  The warm-up takes at most half of the steps. Where weights came from a file, the rate
  falls by `fine_tuning_rate` as they begin to learn: at the heads' own rate MobileNetV2
  fell from a loss of 0.02 back to chance within 30 steps. mixed_float16 scales its losses.
  """
  warmup = min(training.warmup_steps, training.steps // 2)
  # Any: the optimizers are typed for plain numbers.
  schedule: Any = keras.optimizers.schedules.CosineDecay(
    # The first of n warm-up steps is a n-th of the peak, not 0, which would waste it.
    initial_learning_rate=training.learning_rate / (warmup or 1),
    decay_steps=training.steps - warmup,
    warmup_target=training.learning_rate if warmup else None,
    warmup_steps=warmup,
  )
  if training.pretrained not in ("", pretrained.RANDOM):
    schedule = _FineTuning(schedule, since=training.frozen_steps, factor=training.fine_tuning_rate)
  if training.weight_decay:
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=training.weight_decay)
  else:
    optimizer = keras.optimizers.Adam(schedule)
  return keras.optimizers.LossScaleOptimizer(optimizer) if precision == "mixed_float16" else optimizer
