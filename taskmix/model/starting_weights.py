"""The weights that a training starts from: loaded, asked for beforehand, known to the cache."""

import hashlib
import os
from collections.abc import Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from taskmix.model import pretrained, serving
from taskmix.model.build import build
from taskmix.spec import Net, Training
from taskmix.transform import Affine

_CHUNK = 1 << 20


def load(model: keras.Model, net: Net, training: Training, scaling: Mapping[str, Affine]) -> None:
  """Gives the model the weights that the training names; leaves it as it is without any.

  A head that was trained on values in another unit than this training's is
  rescaled: the model then answers what it answered there.

  Args:
    model: of `net`.
    net: its tasks name the heads.
    training: names the weights.
    scaling: task -> what Transform learnt of this training's targets.

  Raises:
    ValueError: as `serving.load`, `serving.load_weights` and `pretrained.load`.
  """
  path = training.init_weights
  if not path:
    pretrained.load(model, training.pretrained)
  elif tf.io.gfile.isdir(path):
    trained = serving.load(path)
    try:
      model.set_weights(trained.model.get_weights())
    except ValueError as error:
      raise ValueError(f"{path}: a model of the net {trained.net.name!r}, not of {net.name!r}") from error
    _rescale_heads(model, net, trained.standardization, scaling)
  else:
    serving.load_weights(model, path)
    _rescale_heads(model, net, {}, scaling)


def _rescale_heads(
  model: keras.Model, net: Net, before: Mapping[str, Affine], now: Mapping[str, Affine]
) -> None:
  """From heads whose values v mean v * before.std + before.mean, to such of `now`; neither means v itself.

  A head of zeros knows nothing, and stays one.
  """
  own_unit = Affine((0.0,), (1.0,))
  for task in net.tasks:
    old, new = before.get(task.name, own_unit), now.get(task.name, own_unit)
    if old == new:
      continue
    head = model.get_layer(task.name)
    kernel, bias = head.get_weights()
    if not kernel.any() and not bias.any():
      # Weights made elsewhere may lack the task. Answering zero in the targets' own unit can be many
      # deviations off, and unlearning that would spoil what is before the head: it starts at their mean.
      continue
    value = np.multiply(bias, old.std) + old.mean
    head.set_weights([kernel * np.divide(old.std, new.std), (value - new.mean) / new.std])


def require(net: Net, training: Training) -> None:
  """Does what the Trainer will do first, so that a launcher can say now what would fail an hour later.

  Raises:
    ValueError: if the net's backbone does not build, or its weights are missing or
      no fit, with the way to get them.
  """
  try:
    model = build(net)
  except ValueError:
    raise
  except Exception as error:
    # Whatever a backbone of one's own may raise.
    raise ValueError(f"net {net.name!r}: its backbone {net.backbone} does not build: {error}") from error
  load(model, net, training, {})


def fingerprint(training: Training) -> str:
  """A hash of the files that the training starts from; "" for none, and for those that are not here.

  A file may change under its name; without this the cache would not notice.
  """
  named = filter(None, (training.init_weights, training.pretrained))
  files = [file for path in named for file in _files(path)]
  if not files:
    return ""
  digest = hashlib.blake2b(digest_size=8)
  for name in files:
    with tf.io.gfile.GFile(name, "rb") as file:
      while chunk := file.read(_CHUNK):
        digest.update(chunk)
  return digest.hexdigest()


def _files(path: str) -> Iterator[str]:
  """The file at the path, or all below a folder, in order."""
  if tf.io.gfile.isdir(path):
    for folder, _, names in sorted(tf.io.gfile.walk(path)):
      yield from (os.path.join(folder, name) for name in sorted(names))
  elif tf.io.gfile.exists(path):
    yield path
