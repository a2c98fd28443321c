"""A trained net as the detector runs it: the same numbers, fewer passes over memory.

A Keras model computes one layer after the other, and on a CPU most of P-Net's
time goes into reading and writing feature maps, not into multiplying. A `Stage`
takes the model's weights and folds what can be folded:

- the image's scaling into the first convolution;
- PReLU into `max(x, slope * x)` where no slope is above 1;
- first convolution, PReLU and a 2/2 pooling into one strided convolution that
  gives every value under a pool as channels, and one maximum over them;
- all heads into one;
- a task's learnt standardization into its head.

A model with a layer that it does not know runs as Keras has it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from taskmix.spec import Net

Step = Callable[[tf.Tensor], tf.Tensor]


class Unfoldable(ValueError):
  """A model's layers are not those that `Stage` folds."""


class Stage(tf.Module):
  """One net of a cascade, from pixels to what its heads say.

  Attributes:
    net: what it is.
    side: of its input in pixels.
    folded: whether its layers were folded.
  """

  def __init__(
    self,
    net: Net,
    model: Any,
    *,
    standardization: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    fold: bool = True,
  ):
    """
    Args:
      net: the net that `model` was built from, "face" and "box" among its tasks.
      model: of `taskmix.model.build`, trained; any_size where it is a cascade's
        first net.
      standardization: task -> (mean, deviation) of its target's values, where the
        task was trained on standardized ones.
      fold: False runs the Keras model itself.

    Raises:
      ValueError: if a task that the cascade needs is not there.
    """
    super().__init__(name=net.name)
    missing = {"face", "box"} - {task.name for task in net.tasks}
    if missing:
      raise ValueError(
        f"net {net.name!r} has no task {', '.join(sorted(missing))}: a cascade's nets need face and box"
      )
    self.net, self.side = net, net.input_size[0]
    self._standardization = dict(standardization or {})
    try:
      if not fold:
        raise Unfoldable
      self._steps, self._heads = _fold(model)
      self.folded = True
    except Unfoldable:
      self.folded = False
      self._model = model
      # Keras 3's variables are no tf.Variables; a SavedModel needs those.
      self._values = [variable.value for variable in model.variables]

  @property
  def tasks(self) -> tuple[str, ...]:
    return tuple(task.name for task in self.net.tasks)

  def __call__(self, pixels: tf.Tensor, tasks: Sequence[str]) -> dict[str, tf.Tensor]:
    """What the named heads say.

    Args:
      pixels: float32 [n, h, w, 3], RGB from 0 to 255.
      tasks: names of heads.

    Returns:
      task -> float32 [n, values], or [n, h', w', values] of a net that slides
      over a larger image; logits of a class task, un-standardized numbers of
      others. Of a folded net that slides, a last row or column of cells that
      hangs over an odd-sized image is left out.
    """
    if not self.folded:
      outputs = self._model(pixels, training=False)
      return {task: self._restored(task, _flat(outputs[task], pixels)) for task in tasks}
    for step in self._steps:
      pixels = step(pixels)
    kernels, biases = zip(*(self._head(task) for task in tasks), strict=True)
    joint = _linear(pixels, np.concatenate(kernels, axis=-1), np.concatenate(biases))
    widths = [len(bias) for bias in biases]
    return dict(zip(tasks, tf.split(joint, widths, axis=-1), strict=True))

  def _head(self, task: str) -> tuple[np.ndarray, np.ndarray]:
    kernel, bias = self._heads[task]
    mean, deviation = self._standardization.get(task, (0.0, 1.0))
    # Flat: a target of shape (5, 2) is learnt as 10 values.
    mean, deviation = np.asarray(mean, np.float32).ravel(), np.asarray(deviation, np.float32).ravel()
    return kernel * deviation, bias * deviation + mean

  def _restored(self, task: str, values: tf.Tensor) -> tf.Tensor:
    if task not in self._standardization:
      return values
    mean, deviation = (np.asarray(each, np.float32).ravel() for each in self._standardization[task])
    return values * deviation + mean


def _flat(values: tf.Tensor, pixels: tf.Tensor) -> tf.Tensor:
  """[n, ...] as [n, values]; maps of cells stay maps."""
  if values.shape.rank == 4:
    return values
  return tf.reshape(values, [tf.shape(pixels)[0], values.shape[1:].num_elements()])


def _fold(model: Any) -> tuple[list[Step], dict[str, tuple[np.ndarray, np.ndarray]]]:
  """Steps from pixels to features, and task -> (kernel, bias) of the head on them."""
  trunk, heads = _trunk_and_heads(model)
  layers = [(type(layer).__name__, layer) for layer in trunk]
  steps: list[Step] = []
  scale, offset = 1.0, 0.0
  # The order of the channels, where the next convolution reads another than the model's.
  order: np.ndarray | None = None
  while layers:
    (kind, layer), rest = layers[0], layers[1:]
    if kind == "Rescaling":
      scale, offset = float(layer.scale), float(layer.offset)
    elif kind == "Conv2D":
      kernel, bias = _weights(layer)
      if steps and offset:
        raise Unfoldable(f"{layer.name}: scaling in the middle of the net")
      kernel, bias = kernel * scale, bias + offset * kernel.sum(axis=(0, 1, 2))
      scale, offset = 1.0, 0.0
      if order is not None:
        kernel, order = kernel[..., order, :], None
      # Behind it the channels stand in another order, which a convolution can follow.
      folds = [name for name, _ in layers[:4]] == ["Conv2D", "PReLU", "MaxPooling2D", "Conv2D"]
      if folds and _pools_thin_pairs(layers, kernel):
        step, order = _pooled_convolution(kernel, bias, _slopes(rest[0][1]))
        steps.append(step)
        rest = rest[2:]
      else:
        steps.append(_convolution(kernel, bias))
    elif kind == "Dense":
      steps.append(_dense(*_weights(layer)))
    elif kind == "PReLU" and rest and rest[0][0] == "MaxPooling2D":
      steps += _pooled_prelu(_slopes(layer), rest[0][1])
      rest = rest[1:]
    elif kind == "PReLU":
      steps.append(_prelu(_slopes(layer)))
    elif kind == "MaxPooling2D":
      steps.append(_pooling(layer))
    elif kind == "Flatten":
      steps.append(_flatten)
    else:
      raise Unfoldable(f"{layer.name}: {kind}")
    layers = rest
  if scale != 1.0 or offset:
    raise Unfoldable("a scaling that no convolution follows")
  return steps, {task: _weights(layer) for task, layer in heads.items()}


def _trunk_and_heads(model: Any) -> tuple[list[Any], dict[str, Any]]:
  """Layers in a chain from the input to the features, and task -> head on them."""
  following: dict[Any, list[Any]] = {}
  for layer in model.layers:
    parents = [
      parent for node in layer._inbound_nodes for parent in (op.operation for op in node.parent_nodes)
    ]
    if len(set(map(id, parents))) > 1:
      raise Unfoldable(f"{layer.name} reads several layers")
    for parent in parents:
      following.setdefault(id(parent), []).append(layer)
  inputs = [layer for layer in model.layers if type(layer).__name__ == "InputLayer"]
  if len(inputs) != 1:
    raise Unfoldable(f"{len(inputs)} inputs")
  trunk, at = [], inputs[0]
  while len(following.get(id(at), [])) == 1:
    (at,) = following[id(at)]
    trunk.append(at)
  heads = {}
  for head in following.get(id(at), []):
    after = following.get(id(head), [])
    reshaped = len(after) == 1 and type(after[0]).__name__ == "Reshape" and not following.get(id(after[0]))
    if after and not reshaped:
      raise Unfoldable(f"{head.name}: a head of several layers")
    heads[head.name] = head
  if set(heads) != set(model.output_names if hasattr(model, "output_names") else ()) and set(heads) != set(
    model.output if isinstance(model.output, dict) else ()
  ):
    raise Unfoldable(f"heads {sorted(heads)} are not the model's outputs")
  return trunk, heads


def _weights(layer: Any) -> tuple[np.ndarray, np.ndarray]:
  """float32 kernel and bias of a plain convolution or dense layer; 1x1 kernels as [in, out]."""
  kind = type(layer).__name__
  if (
    kind not in ("Conv2D", "Dense")
    or getattr(layer.activation, "__name__", "") != "linear"
    or not layer.use_bias
  ):
    raise Unfoldable(f"{layer.name}: {kind} with an activation or without a bias")
  kernel, bias = (np.asarray(weight, np.float32) for weight in layer.get_weights())
  if kind == "Conv2D":
    plain = layer.strides == (1, 1) and layer.dilation_rate == (1, 1) and layer.groups == 1
    if not plain or layer.padding != "valid" or layer.data_format != "channels_last":
      raise Unfoldable(f"{layer.name}: a strided, dilated, grouped or padded convolution")
    if layer.kernel_size == (1, 1):
      kernel = kernel[0, 0]
  return kernel, bias


def _slopes(layer: Any) -> np.ndarray:
  """float32 [channels], of a PReLU that has one slope a channel."""
  (slopes,) = layer.get_weights()
  if slopes.size != slopes.shape[-1]:
    raise Unfoldable(f"{layer.name}: a slope for every place")
  return np.asarray(slopes, np.float32).ravel()


def _pools_thin_pairs(layers: list[tuple[str, Any]], kernel: np.ndarray) -> bool:
  """Whether conv, PReLU and pool fold into one: a 2/2 pool over few input channels.

  With more of them the strided kernel, which multiplies some zeros, costs more
  than the passes that it saves.
  """
  pool = layers[2][1]
  return kernel.ndim == 4 and kernel.shape[2] <= 4 and tuple(pool.pool_size) == tuple(pool.strides) == (2, 2)


def _linear(x: tf.Tensor, kernel: np.ndarray, bias: np.ndarray) -> tf.Tensor:
  """x @ kernel + bias over the last axis of [n, c] or [n, h, w, c]."""
  if x.shape.rank == 4:
    return tf.nn.bias_add(tf.nn.conv2d(x, kernel[None, None], 1, "VALID"), tf.constant(bias))
  return tf.nn.bias_add(tf.matmul(x, kernel), tf.constant(bias))


def _dense(kernel: np.ndarray, bias: np.ndarray) -> Step:
  return lambda x: _linear(x, kernel, bias)


def _convolution(kernel: np.ndarray, bias: np.ndarray) -> Step:
  if kernel.ndim == 2:
    return _dense(kernel, bias)
  return lambda x: tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "VALID"), tf.constant(bias))


def _prelu(slopes: np.ndarray) -> Step:
  if slopes.max(initial=0) <= 1:
    return lambda x: tf.maximum(x, x * slopes)
  if slopes.min() >= 1:
    return lambda x: tf.minimum(x, x * slopes)
  return lambda x: tf.where(x > 0, x, x * slopes)


def _pooled_prelu(slopes: np.ndarray, pool: Any) -> list[Step]:
  """PReLU and the pooling behind it.

  A slope above 1 cannot be folded into a maximum. But such a PReLU only rises, so
  its channel is pooled as it is and bent afterwards, where there is less of it.
  """
  steps = [_prelu(np.minimum(slopes, 1)), _pooling(pool)]
  return steps if slopes.max() <= 1 else [*steps, _prelu(np.maximum(slopes, 1))]


def _pooling(layer: Any) -> Step:
  padding = layer.padding.upper()
  return lambda x: tf.nn.max_pool2d(x, layer.pool_size, layer.strides, padding)


def _flatten(x: tf.Tensor) -> tf.Tensor:
  return tf.reshape(x, [-1, x.shape[1:].num_elements()])


def _pooled_convolution(kernel: np.ndarray, bias: np.ndarray, slopes: np.ndarray) -> tuple[Step, np.ndarray]:
  """Convolution, PReLU, 2/2 pooling: one strided convolution, one maximum.

  A convolution of stride 2 with a kernel one larger gives the four values under a
  pool as channels. A PReLU with a slope of 0 or more only rises: its channels are
  pooled first and bent afterwards. One with a slope below 0 is
  max(x, slope * x), so its pool is a maximum over eight values: the four, and the
  four times the slope, which the convolution gives too.

  Args:
    kernel: float32 [h, w, depth, filters].
    bias, slopes: float32 [filters].

  Returns:
    The step, and the order in which its channels stand: those with slopes below 0
    come first.
  """
  order = np.argsort(slopes >= 0, kind="stable")
  falling, filters = int((slopes < 0).sum()), len(slopes)
  kernel, bias, slopes = kernel[..., order], bias[order], slopes[order]
  kernel = np.concatenate([kernel, kernel[..., :falling] * slopes[:falling]], axis=-1)
  bias = np.concatenate([bias, bias[:falling] * slopes[:falling]])
  high, wide, depth, values = kernel.shape
  under = np.zeros((high + 1, wide + 1, depth, 2, 2, values), np.float32)
  for row in range(2):
    for column in range(2):
      under[row : row + high, column : column + wide, :, row, column] = kernel
  joint_kernel, joint_bias = under.reshape(high + 1, wide + 1, depth, 4 * values), np.tile(bias, 4)
  bend = _prelu(slopes[falling:])

  def step(x: tf.Tensor) -> tf.Tensor:
    each = tf.nn.bias_add(tf.nn.conv2d(x, joint_kernel, 2, "VALID"), tf.constant(joint_bias))
    pooled = tf.reduce_max(tf.reshape(each, tf.concat([tf.shape(each)[:3], [4, values]], 0)), axis=3)
    falls, rises, bent = tf.split(pooled, [falling, filters - falling, falling], axis=3)
    return tf.concat([tf.maximum(falls, bent), bend(rises)], axis=3)

  return step, order
