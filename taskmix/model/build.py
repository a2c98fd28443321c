"""From a Net to its Keras model."""

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import keras

from taskmix.spec import Net, Task


def build(net: Net, *, precision: str = "float32", any_size: bool = False) -> keras.Model:
  """The net's model: its backbone, and a head a task.

  Args:
    net: what to build.
    precision: a Keras dtype policy; weights and outputs are float32 in all.
    any_size: leave height and width open, so that the net slides over images of
      any size from its input size on; needs a backbone with rank-4 features. The
      weights are those of the net of fixed size, in the same order.

  Returns:
    [b, h, w, c], uint8 or float from 0 to 255 -> {task: output}. A task with
    classes gives logits [b, n_classes], another [b, *shape]; with `any_size`
    [b, h', w', values], values in C order.

  Raises:
    ValueError: if the backbone is not to be found, or its features fit no head.
  """
  height, width, channels = net.input_size
  shape = (None, None, channels) if any_size else (height, width, channels)
  with dtype_policy(precision):
    # float32 takes uint8 and float images alike.
    image = keras.Input(shape, dtype="float32", name="image")
    features = import_path(net.backbone, what=f"backbone of net {net.name!r}")(image)
    outputs = {task.name: _head(task, features, any_size=any_size) for task in net.tasks}
    return keras.Model(image, outputs, name=net.name)


def output_shape(task: Task) -> tuple[int, ...]:
  """Of one sample's output: (n_classes,), or the target's shape."""
  return (len(task.target.classes),) if task.target.classes else task.target.shape


def import_path(path: str, *, what: str) -> Callable[..., Any]:
  """The function at "package.module:function".

  Raises:
    ValueError: if there is none, or it is one of Python's own, such as os:system;
      says `what` was looked for.
  """
  module, _, name = path.partition(":")
  # A Net also comes from JSON that lies in a model; such a file must not choose
  # among all that this machine can do.
  if module.partition(".")[0] in sys.stdlib_module_names:
    raise ValueError(f"{what}: {path!r} belongs to Python itself; name a function of a package of yours")
  try:
    return getattr(importlib.import_module(module), name)
  except (ImportError, AttributeError, ValueError) as error:
    raise ValueError(f"{what}: cannot import {path!r} ({error}); write 'package.module:function'") from error


@contextlib.contextmanager
def dtype_policy(name: str) -> Iterator[None]:
  """Layers made inside compute by this Keras dtype policy."""
  before = keras.config.dtype_policy()
  keras.config.set_dtype_policy(name)
  try:
    yield
  finally:
    keras.config.set_dtype_policy(before)


def _head(task: Task, features: Any, *, any_size: bool) -> Any:
  shape = output_shape(task)
  size = 1
  for side in shape:
    size *= side
  # float32: losses of half-precision outputs would overflow.
  if len(features.shape) == 4:
    out = keras.layers.Conv2D(size, 1, dtype="float32", name=task.name)(features)
    if any_size:
      return out
    if out.shape[1:3] != (1, 1):
      raise ValueError(
        f"task {task.name!r}: the backbone's features are {out.shape[1]}x{out.shape[2]} "
        "at the net's input size; flatten or pool them to [b, n], or make them 1x1"
      )
  elif len(features.shape) == 2 and not any_size:
    out = keras.layers.Dense(size, dtype="float32", name=task.name)(features)
  else:
    wanted = "[b, h, w, c]" if any_size else "[b, n] or [b, 1, 1, n]"
    raise ValueError(
      f"task {task.name!r}: a head reads features {wanted}, the backbone gives {features.shape}"
    )
  return keras.layers.Reshape(shape, dtype="float32", name=f"{task.name}_output")(out)
