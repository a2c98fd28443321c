"""The user's own Python on a worker: any object in, a Sample out."""

import dataclasses
import pickle
from typing import Any

import numpy as np

from taskmix.examples.codec import Sample
from taskmix.examples.photos import BadPhotoError
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.python import load_function
from taskmix.spec import Net


def make_sample(image: AnnotatedImage, *, net: Net) -> tuple[np.ndarray, AnnotatedImage]:
  """What `image.function` makes of `image.item`.

  Returns:
    (picture, uint8 [h, w, channels]; the image with the sample's kind and targets).

  Raises:
    BadPhotoError: if the function raises, or returns no Sample that the net
      takes; the message names the function.
    ValueError: if there is no such function on this worker.
  """
  function = load_function(image.function)
  try:
    sample = function(pickle.loads(image.item), image.image_id)
  except Exception as error:
    raise BadPhotoError(f"{image.function} raised {type(error).__name__}: {error}") from error
  problem = _problem(sample, image, net)
  if problem:
    raise BadPhotoError(f"{image.function} {problem}")
  return sample.image, dataclasses.replace(image, kind=sample.kind, targets=sample.targets)


def _problem(sample: Any, image: AnnotatedImage, net: Net) -> str:
  """What is wrong with what the function returned; "" is nothing."""
  if not isinstance(sample, Sample):
    return f"returned a {type(sample).__name__}, no taskmix.examples.codec.Sample"
  picture, channels = sample.image, net.input_size[2]
  if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8:
    return f"returned an image that is no uint8 array, but {getattr(picture, 'dtype', type(picture))}"
  if picture.ndim != 3 or picture.shape[2] != channels or not picture.size:
    return f"returned an image of shape {picture.shape}, not [height, width, {channels}]"
  if sample.kind not in net.mixture.names:
    return f"returned the kind {sample.kind!r}; net {net.name!r} has {', '.join(net.mixture.names)}"
  if sample.image_id != image.image_id:
    return "changed the image id, which decides the phase; return the one that it was given"
  return ""
