"""A trained net as a SavedModel that needs neither taskmix nor Keras to answer.

    serving_default    image uint8 [n, h, w, c]           -> {task: output}
    serve_examples     serialized tf.Examples, string [n] -> {task: output}
    transform_features serialized tf.Examples, string [n] -> for TFMA: Transform's masks,
                                                             and the name of each column's slice

A task with classes answers their probabilities, [n, n_classes]; another its
value in the target's own unit, [n, *shape]: what Transform standardized is
undone in the graph. Beside the graph lie, in assets.extra, the Net and the
weights, from which `load` makes the Keras model again.
"""

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from taskmix.mixing.parse import feature_spec
from taskmix.model.build import build
from taskmix.spec import IMAGE, Column, Net
from taskmix.transform import Affine, standardization

SERVE_IMAGES = "serving_default"
SERVE_EXAMPLES = "serve_examples"
TRANSFORM_FEATURES = "transform_features"

# TF Serving ignores this folder, but for warm-up requests.
_EXTRA = "assets.extra"
_NET = "net.json"
_WEIGHTS = "net.weights.h5"


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
  """A net, its weights, and how its regressions are turned back into the target's unit.

  Attributes:
    model: float32, as `build` makes it: logits, and standardized regressions.
    standardization: task -> what Transform learnt; absent where nothing was scaled.
  """

  net: Net
  model: keras.Model
  standardization: Mapping[str, Affine]

  def served(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The model's outputs as they are served: probabilities, and values in the target's unit."""
    return {task.name: self._served(task, outputs[task.name]) for task in self.net.tasks}

  def _served(self, task: Any, output: Any) -> Any:
    if task.target.classes:
      return tf.nn.softmax(output)
    if task.name not in self.standardization:
      return output
    affine, shape = self.standardization[task.name], task.target.shape
    std, mean = (np.array(values, np.float32).reshape(shape) for values in (affine.std, affine.mean))
    return output * std + mean


class _Served(tf.Module):
  """What a SavedModel holds: the variables, and the Transform graph.

  A tf.Module since Keras 3's own `save` writes no SavedModel, and its `export`
  takes no Transform graph.
  """

  def __init__(self, trained: Trained, transform: Any):
    super().__init__()
    self._trained = trained
    self._height_width_channels = trained.net.input_size
    # Tracked by TensorFlow as tf.Variables; Keras' own wrappers are not.
    self.model_variables = [variable.value for variable in trained.model.variables]
    # A function, since TensorFlow would save the layer itself too, in every way that Keras can call it.
    self._transform = None if transform is None else _transform_of(transform)
    self._raw_spec = feature_spec(trained.net.columns)

  def signatures(self) -> dict[str, Any]:
    shape = (None, *self._height_width_channels)
    examples = tf.TensorSpec([None], tf.string, name="examples")
    made = {
      SERVE_IMAGES: self._function(self.serve_images, tf.TensorSpec(shape, tf.uint8, name="image")),
      SERVE_EXAMPLES: self._function(self.serve_examples, examples),
    }
    if self._transform is not None:
      made[TRANSFORM_FEATURES] = self._function(self.transform_features, examples)
    return made

  def _function(self, method: Any, spec: tf.TensorSpec) -> Any:
    # Kept as an attribute too, so that what it captures is saved.
    function = tf.function(method, input_signature=[spec], autograph=False)
    setattr(self, f"{method.__name__}_function", function)
    return function

  def serve_images(self, image: Any) -> dict[str, Any]:
    # oneDNN's kernels refuse an empty batch, so one of a black image is asked instead.
    rows = tf.shape(image)[0]
    black = tf.zeros((tf.maximum(1 - rows, 0), *self._height_width_channels), image.dtype)
    some = tf.concat([image, black], 0)
    answers = self._trained.served(self._trained.model(some, training=False))
    return {name: values[:rows] for name, values in answers.items()}

  def serve_examples(self, examples: Any) -> dict[str, Any]:
    # Only the image is asked for, so that a client need not invent targets.
    pixels = tf.io.parse_example(examples, {IMAGE: tf.io.FixedLenFeature([], tf.string)})[IMAGE]
    image = tf.io.decode_raw(pixels, tf.uint8)
    # The batch's size is given, so that an image of another size is an error.
    return self.serve_images(tf.reshape(image, [tf.size(examples), *self._height_width_channels]))

  def transform_features(self, examples: Any) -> dict[str, Any]:
    assert self._transform is not None
    raw = tf.io.parse_example(examples, self._raw_spec)
    # No mask reads the pixels, and a broken example must not be answered.
    whole = math.prod(self._height_width_channels)
    sizes = tf.debugging.assert_equal(
      tf.strings.length(raw[IMAGE]), whole, "image: not height*width*channels bytes"
    )
    with tf.control_dependencies([sizes]):
      columns = self._transform({name: tf.identity(value) for name, value in raw.items()})
    # The masks alone: TFMA takes a column of this signature for the raw one of the
    # same name, and a standardized target would be compared with an answer in the
    # target's own unit.
    net = self._trained.net
    masks = {task.mask: columns[task.mask] for task in net.tasks}
    return {
      **masks,
      **{each.slice_column: slice_names(each, raw[each.name]) for each in net.columns if each.slices},
    }


def _transform_of(transform: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
  """Raw columns to transformed ones; the graph holds no table or variable that would have to be saved."""
  layer = transform.transform_features_layer()
  return lambda columns: layer(columns)


def slice_names(column: Column, values: Any) -> Any:
  """The name of the column's slice that each value is in: string [n].

  Args:
    column: with slices.
    values: number [n].
  """
  edges = tf.constant(column.slices, tf.float32)
  # side="right": a value on an edge belongs to the slice above it.
  places = tf.searchsorted(edges, tf.cast(tf.reshape(values, [-1]), tf.float32), side="right")
  return tf.gather(tf.constant(column.slice_names), places)


def export(
  directory: str,
  net: Net,
  *,
  model: keras.Model,
  transform: Any = None,
) -> None:
  """Writes the SavedModel of a trained net.

  Args:
    directory: a new one, or one that holds nothing worth keeping.
    net: that `model` was built of.
    model: of any precision; the SavedModel computes in float32.
    transform: tft.TFTransformOutput; None for weights that no Transform went
      before, such as imported ones: then there is no `transform_features`.
  """
  exact = build(net)
  exact.set_weights(model.get_weights())
  learnt = {} if transform is None else standardization(transform.transform_features_layer(), net)
  trained = Trained(net, exact, learnt)
  module = _Served(trained, transform)
  tf.saved_model.save(module, directory, signatures=module.signatures())
  _write_extra(directory, trained)


def load(directory: str) -> Trained:
  """What `export` wrote, as a Keras model: to slide it over photos, or train it on.

  Raises:
    ValueError: if the folder has no net beside its graph.
  """
  extra = os.path.join(directory, _EXTRA)
  if not tf.io.gfile.exists(os.path.join(extra, _NET)):
    raise ValueError(f"{directory}: no {_EXTRA}/{_NET}; is it a SavedModel that taskmix exported?")
  with tf.io.gfile.GFile(os.path.join(extra, _NET)) as file:
    described = json.load(file)
  net = Net.from_json(json.dumps(described["net"]))
  learnt = {
    task: Affine(tuple(values["mean"]), tuple(values["std"]))
    for task, values in described["standardization"].items()
  }
  model = build(net)
  load_weights(model, os.path.join(extra, _WEIGHTS))
  return Trained(net, model, learnt)


def load_weights(model: keras.Model, path: str) -> None:
  """Loads a .weights.h5 file, also from a remote file system.

  Raises:
    ValueError: if the file is not there or does not fit the model.
  """
  if not tf.io.gfile.exists(path):
    raise ValueError(f"no weights {path}")
  with tempfile.TemporaryDirectory() as folder:
    local = os.path.join(folder, _WEIGHTS)
    tf.io.gfile.copy(path, local)
    try:
      model.load_weights(local)
    except (OSError, KeyError, ValueError) as error:
      # Keras' own message prints whole tensors.
      raise ValueError(f"{path}: not weights of the net {model.name!r}: {str(error)[:200]}") from error


def _write_extra(directory: str, trained: Trained) -> None:
  extra = os.path.join(directory, _EXTRA)
  tf.io.gfile.makedirs(extra)
  described = {
    "net": json.loads(trained.net.to_json()),
    "standardization": {task: dataclasses.asdict(each) for task, each in trained.standardization.items()},
  }
  with tf.io.gfile.GFile(os.path.join(extra, _NET), "w") as file:
    file.write(json.dumps(described, sort_keys=True, indent=1))
  with tempfile.TemporaryDirectory() as folder:
    local = os.path.join(folder, _WEIGHTS)
    trained.model.save_weights(local)
    tf.io.gfile.copy(local, os.path.join(extra, _WEIGHTS), overwrite=True)
