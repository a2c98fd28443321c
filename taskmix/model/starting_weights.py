"""The weights that a training starts from: loaded, asked for beforehand, known to the cache."""

import hashlib

import keras
import tensorflow as tf

from taskmix.model import pretrained, serving
from taskmix.model.build import build
from taskmix.spec import Net, Training

_CHUNK = 1 << 20


def load(model: keras.Model, training: Training) -> None:
  """Gives the model the weights that the training names; leaves it as it is without any.

  Raises:
    ValueError: as `serving.load_weights` and `pretrained.load`.
  """
  if training.init_weights:
    serving.load_weights(model, training.init_weights)
  else:
    pretrained.load(model, training.pretrained)


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
  load(model, training)


def fingerprint(training: Training) -> str:
  """A hash of the files that the training starts from; "" for none, and for those that are not here.

  A file may change under its name; without this the cache would not notice.
  """
  paths = [path for path in (training.init_weights, training.pretrained) if path and tf.io.gfile.exists(path)]
  if not paths:
    return ""
  digest = hashlib.blake2b(digest_size=8)
  for path in paths:
    with tf.io.gfile.GFile(path, "rb") as file:
      while chunk := file.read(_CHUNK):
        digest.update(chunk)
  return digest.hexdigest()
