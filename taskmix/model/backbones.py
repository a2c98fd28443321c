"""Features that a net's heads read: functions from a Keras image to a tensor.

A backbone gets the image as numbers from 0 to 255, [batch, height, width,
channels], and scales it itself. Features of rank 2 feed dense heads; features
of rank 4 feed 1x1 convolutions, so that the net also runs on larger images.

MTCNN's three (Zhang et al. 2016, figure 2, and the released code; input 12, 24,
48), with sides after each layer:

    pnet  12 -conv3-> 10 -pool2/2->  5 -conv3->  3 -conv3->  1
    rnet  24 -conv3-> 22 -pool3/2-> 11 -conv3->  9 -pool3/2->  4 -conv2-> 3 -fc-> 128
    onet  48 -conv3-> 46 -pool3/2-> 23 -conv3-> 21 -pool3/2-> 10 -conv3-> 8 -pool2/2-> 4 -conv2-> 3 -fc-> 256
"""

from typing import Any

import keras


def pnet(image: Any) -> Any:
  """[b, h, w, 3] to [b, h', w', 32]; 1x1 at 12 px, one cell every 2 px on larger images."""
  x = normalized(image)
  x = _conv(x, 10, 3, name="conv1")
  x = ceil_pool(x, 2, stride=2, name="pool1")
  x = _conv(x, 16, 3, name="conv2")
  return _conv(x, 32, 3, name="conv3")


def rnet(image: Any) -> Any:
  """[b, 24, 24, 3] to [b, 128]."""
  x = normalized(image)
  x = ceil_pool(_conv(x, 28, 3, name="conv1"), 3, stride=2, name="pool1")
  x = ceil_pool(_conv(x, 48, 3, name="conv2"), 3, stride=2, name="pool2")
  x = _conv(x, 64, 2, name="conv3")
  return _dense(x, 128, name="fc")


def onet(image: Any) -> Any:
  """[b, 48, 48, 3] to [b, 256]."""
  x = normalized(image)
  x = ceil_pool(_conv(x, 32, 3, name="conv1"), 3, stride=2, name="pool1")
  x = ceil_pool(_conv(x, 64, 3, name="conv2"), 3, stride=2, name="pool2")
  x = ceil_pool(_conv(x, 64, 3, name="conv3"), 2, stride=2, name="pool3")
  x = _conv(x, 128, 2, name="conv4")
  return _dense(x, 256, name="fc")


def normalized(image: Any) -> Any:
  """(image - 127.5) / 128, as the released nets expect it."""
  return keras.layers.Rescaling(1 / 128, offset=-127.5 / 128, name="normalized")(image)


def ceil_pool(x: Any, size: int, *, stride: int, name: str) -> Any:
  """Max pooling whose output side is rounded up, as in Caffe.

  For 2/2 this is "same" padding at any side, also one unknown until run time.
  For others, "same" gives one column too many where nothing is left over.

  Raises:
    ValueError: if the side is unknown and `size` differs from `stride`.
  """
  sides = x.shape[1:3]
  if size != stride and None in sides:
    raise ValueError(f"{name}: pooling {size}/{stride} needs a known image size, not {tuple(sides)}")
  exact = all(side is not None and (side - size) % stride == 0 for side in sides)
  return keras.layers.MaxPooling2D(size, stride, "valid" if exact else "same", name=name)(x)


def _conv(x: Any, filters: int, size: int, *, name: str) -> Any:
  x = keras.layers.Conv2D(filters, size, name=name)(x)
  # One slope a channel, wherever it stands in the image.
  return keras.layers.PReLU(shared_axes=[1, 2], name=f"{name}_prelu")(x)


def _dense(x: Any, units: int, *, name: str) -> Any:
  x = keras.layers.Flatten(name=f"{name}_flat")(x)
  x = keras.layers.Dense(units, name=name)(x)
  return keras.layers.PReLU(name=f"{name}_prelu")(x)
