"""Backbones of keras.applications that start from weights in a local file.

    image 0..255 ─► the application's own preprocessing ─► "pretrained" ─► pooled features

The preprocessing is part of the net, hence of the served graph. The application runs
as in inference also while it is trained: the statistics of small batches would undo
what its normalization layers have learnt (keras.io/guides/transfer_learning).

`Training.pretrained` names the file; `Training.frozen_steps` trains the heads alone
first. Nothing is ever downloaded: a run may have no network.
"""

import os
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

# The layer of a model that holds the application.
LAYER = "pretrained"

# In place of a file: start from random weights, knowingly.
RANDOM = "random"


def mobilenet_v2(image: Any) -> Any:
  """[b, h, w, 3], sides from 32 on, to [b, 1280]; 2.3 million parameters."""
  return features(image, keras.applications.MobileNetV2, keras.applications.mobilenet_v2.preprocess_input)


def efficientnet_b0(image: Any) -> Any:
  """[b, h, w, 3], sides from 32 on, to [b, 1280]; 4 million parameters."""
  return features(image, keras.applications.EfficientNetB0, keras.applications.efficientnet.preprocess_input)


def resnet50(image: Any) -> Any:
  """[b, h, w, 3], sides from 32 on, to [b, 2048]; 24 million parameters."""
  return features(image, keras.applications.ResNet50, keras.applications.resnet50.preprocess_input)


def features(image: Any, application: Callable[..., Any], preprocess: Callable[[Any], Any]) -> Any:
  """What an application makes of its preprocessed image: the body of a backbone.

  Args:
    image: Keras tensor [b, h, w, c], 0 to 255.
    application: takes include_top, weights, input_shape and pooling, as those of
      keras.applications do; gives a model with features [b, n].
    preprocess: of the application.
  """
  part = application(include_top=False, weights=None, input_shape=tuple(image.shape[1:]), pooling="avg")
  return _AsInInference(part, name=LAYER)(preprocess(image))


class _AsInInference(keras.layers.Layer):
  """The application without its training mode.

  Not `part(image, training=False)`, which Keras 3 overrules when the model that
  holds it is called with training=True.
  """

  def __init__(self, part: keras.Model, *, name: str):
    super().__init__(name=name)
    self.part = part

  def call(self, image: Any) -> Any:
    return self.part(image, training=False)


def part_of(model: keras.Model) -> keras.Model | None:
  """The model's application; None for a net that has none."""
  return next((layer.part for layer in model.layers if isinstance(layer, _AsInInference)), None)


def head_variables(model: keras.Model) -> list[Any]:
  """The trainable variables outside of the application: what learns while that is frozen."""
  part = part_of(model)
  inside = {id(variable) for variable in part.trainable_variables} if part else set()
  return [variable for variable in model.trainable_variables if id(variable) not in inside]


def load(model: keras.Model, path: str) -> None:
  """Loads the application's weights; does nothing for a net without one.

  Args:
    model: of `taskmix.model.build`.
    path: a .weights.h5 of Keras 3, one of the older *_no_top.h5 that Keras offers for
      download, or "random".

  Raises:
    ValueError: if there is no path or no such file, saying how to get one; or if it
      does not fit.
  """
  part = part_of(model)
  if part is None:
    if path:
      raise ValueError(f"net {model.name!r} has no pretrained part; leave Training.pretrained empty")
    return
  if path == RANDOM:
    return
  if not path or not tf.io.gfile.exists(path):
    found = f"there is no file {path}" if path else "Training.pretrained names no file"
    raise ValueError(f"net {model.name!r} starts from pretrained weights, but {found}. {_remedy(part)}")
  with tempfile.TemporaryDirectory() as folder:
    # Keras tells its two formats apart by the name's end; it reads local files alone.
    local = os.path.join(folder, os.path.basename(path))
    tf.io.gfile.copy(path, local)
    try:
      part.load_weights(local)
    except (OSError, KeyError, ValueError) as error:
      message = f"{path}: not weights of {_application(part)}: {str(error)[:200]}"
      raise ValueError(message) from error


def _application(part: keras.Model) -> str:
  """The name of the function in keras.applications, by its features and size."""
  known = {
    (1280, 2_257_984): "MobileNetV2",
    (1280, 4_049_571): "EfficientNetB0",
    (2048, 23_587_712): "ResNet50",
  }
  return known.get((part.output_shape[-1], part.count_params()), "this application")


def _remedy(part: keras.Model) -> str:
  shape = tuple(part.input_shape[1:])
  return (
    f"Where there is a network, run `import keras; keras.applications.{_application(part)}"
    f"(include_top=False, input_shape={shape}).save_weights('NAME.weights.h5')`, copy the file here and give "
    f"Training(pretrained='NAME.weights.h5'); or start from nothing with pretrained='{RANDOM}'"
  )
