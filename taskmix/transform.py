"""TFX Transform's `preprocessing_fn`, derived from a Net.

    image, kind, image_id, targets, context
        │
        ├── kind ────────► <task>_mask: 1.0 where the sample labels the task
        ├── targets ─────► standardized over the samples that label the task
        └── all others ──► as they are (the image stays raw uint8 bytes)

The masks are computed here and nowhere else: Trainer and Evaluator read the
same ones. `standardization` reads back what the data taught, so that training
and serving can undo it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from taskmix.spec import KIND, Column, Net, Task

# Far enough from zero that the slope is read to float32's precision, whatever
# the mean: (x - mean) / std is rounded relative to x.
_PROBE = 2.0**20


@dataclasses.dataclass(frozen=True)
class Affine:
  """What standardization learnt of one target: value = standardized * std + mean.

  Attributes:
    mean, std: in the target's unit, one number a value in C order; std is never 0.
  """

  mean: tuple[float, ...]
  std: tuple[float, ...]


def preprocessing_fn(inputs: Mapping[str, Any], custom_config: Mapping[str, Any]) -> dict[str, Any]:
  """Transforms a batch of raw examples; the dotted path that TFX Transform is given.

  Args:
    inputs: the raw columns of the net, each [batch, *shape].
    custom_config: "net", the JSON of the Net.

  Returns:
    `transformed_columns` of the net, by name; the image as one string of raw
    uint8 bytes. A standardized target is 0 where the sample does not label it.

  Raises:
    ValueError: if a column of the net is not among the inputs.
  """
  net = Net.from_json(custom_config["net"])
  missing = [column.name for column in net.columns if column.name not in inputs]
  if missing:
    raise ValueError(
      f"net {net.name!r} needs the columns {', '.join(missing)}; the schema gives {', '.join(sorted(inputs))}"
    )
  outputs = dict(inputs)
  for task in net.tasks:
    mask = _mask(inputs[KIND], task)
    outputs[task.mask] = tf.cast(mask, tf.float32)
    if task.standardize:
      outputs[task.target.name] = _standardize(inputs[task.target.name], mask)
  wanted = [column.name for column in transformed_columns(net)]
  return {name: outputs[name] for name in wanted}


def transformed_columns(net: Net) -> tuple[Column, ...]:
  """Every column of an example after Transform, in a fixed order."""
  targets = {task.target.name: task for task in net.tasks}
  kept = tuple(
    dataclasses.replace(column, low=None, high=None)
    if column.name in targets and targets[column.name].standardize
    else column
    for column in net.columns
  )
  return (*kept, *(Column(task.mask, "float32", low=0.0, high=1.0) for task in net.tasks))


def standardization(transform_layer: Any, net: Net) -> dict[str, Affine]:
  """What Transform learnt, by task; tasks without `standardize` are absent.

  The transform graph is the only place where it is stored, so it is asked: the
  standardized values of three known ones give the slope and the origin.

  Args:
    transform_layer: `tft.TFTransformOutput(uri).transform_features_layer()`.
    net: the net that the graph was made with.
  """
  learnt = {}
  for task in net.tasks:
    if task.standardize:
      low, zero, high = _ask(transform_layer, net, task)
      std = 2.0 * _PROBE / (high - low)
      learnt[task.name] = Affine(tuple((-zero * std).tolist()), tuple(std.tolist()))
  return learnt


def _mask(kind: Any, task: Task) -> Any:
  """bool [batch]: whether the sample's kind labels the task."""
  kind = tf.reshape(kind, [-1])
  return tf.reduce_any(tf.equal(kind[:, tf.newaxis], tf.constant(task.kinds)), axis=1)


def _standardize(values: Any, mask: Any) -> Any:
  """Zero mean and unit deviation over the masked samples of the analyzed splits.

  Sums are float64: a single pass over them loses nothing that float32 targets hold.
  """
  import tensorflow_transform as tft

  rows = tf.reshape(mask, tf.concat([tf.shape(mask), tf.ones(values.shape.rank - 1, tf.int32)], 0))
  wide = tf.where(rows, tf.cast(values, tf.float64), 0.0)
  count = tf.maximum(tft.sum(tf.cast(mask, tf.float64)), 1.0)
  mean = tft.sum(wide, reduce_instance_dims=False) / count
  variance = tft.sum(tf.square(wide), reduce_instance_dims=False) / count - tf.square(mean)
  # A value that never changes (or a task that nothing labels) has nothing to
  # scale; what float64 leaves of its variance is rounding.
  constant = variance <= 1e-12 * tf.maximum(tf.square(mean), 1e-12)
  std = tf.sqrt(tf.where(constant, tf.ones_like(variance), variance))
  scaled = (values - tf.cast(mean, tf.float32)) / tf.cast(std, tf.float32)
  return tf.where(rows, scaled, 0.0)


def _ask(transform_layer: Any, net: Net, task: Task) -> np.ndarray:
  """float64 [3, size]: the standardized values of -PROBE, 0 and PROBE."""
  probes = np.array([-_PROBE, 0.0, _PROBE])
  batch = {column.name: _blank(column, len(probes)) for column in net.columns}
  batch[KIND] = tf.constant([task.kinds[0]] * len(probes))
  size = task.target.shape
  batch[task.target.name] = tf.constant(
    np.broadcast_to(probes.reshape(-1, *(1,) * len(size)), (len(probes), *size)), tf.float32
  )
  return transform_layer(batch)[task.target.name].numpy().reshape(len(probes), -1).astype(np.float64)


def _blank(column: Column, rows: int) -> Any:
  """`rows` zeros of the column, in the form in which Transform reads it."""
  if column.dtype == "uint8":
    return tf.constant([bytes(column.size)] * rows)
  if column.dtype == "string":
    return tf.fill([rows, *column.shape], "")
  return tf.zeros([rows, *column.shape], getattr(tf, column.dtype))
