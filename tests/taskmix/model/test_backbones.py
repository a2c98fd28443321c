import dataclasses

import keras
import numpy as np
import pytest

from taskmix.model import backbones
from taskmix.model.build import build
from taskmix.nets.mtcnn import ONET, PNET, RNET


def _without_landmarks(net):
  return dataclasses.replace(net, tasks=net.tasks[:2])


@pytest.mark.parametrize(
  ("net", "parameters"),
  [
    (_without_landmarks(PNET), 6_632),
    (PNET, 6_632 + 330),
    (_without_landmarks(RNET), 100_178),
    (RNET, 100_178 + 1_290),
    (ONET, 389_040),
  ],
  ids=lambda value: str(getattr(value, "name", value)),
)
def test_parameter_counts_are_the_papers(net, parameters):
  assert build(net).count_params() == parameters


def test_the_nets_see_pixels_as_the_released_ones_do():
  image = keras.Input((1, 1, 3))
  scaled = keras.Model(image, backbones.normalized(image))
  np.testing.assert_allclose(scaled.predict(np.full((1, 1, 1, 3), 255.0), verbose=0), 127.5 / 128)
  np.testing.assert_allclose(scaled.predict(np.full((1, 1, 1, 3), 0.0), verbose=0), -127.5 / 128)


@pytest.mark.parametrize(
  ("side", "size", "caffe"),
  # ceil((side - size) / stride) + 1, stride 2
  [(22, 3, 11), (9, 3, 4), (46, 3, 23), (21, 3, 10), (8, 2, 4), (10, 2, 5), (11, 2, 6), (5, 2, 3)],
)
def test_pooling_rounds_up_as_caffe_does(side, size, caffe):
  image = keras.Input((side, side, 1))
  model = keras.Model(image, backbones.ceil_pool(image, size, stride=2, name="pool"))
  assert model.output_shape == (None, caffe, caffe, 1)
  # Windows start at the left: the last one is cut off at the right, not the first.
  ramp = np.broadcast_to(np.arange(side, dtype=np.float32)[None, :, None, None], (1, side, side, 1))
  expected = [min(2 * i + size, side) - 1 for i in range(caffe)]
  assert model.predict(ramp, verbose=0)[0, :, 0, 0].tolist() == expected


def test_pooling_that_needs_the_size_says_so():
  with pytest.raises(ValueError, match="pooling 3/2 needs a known image size"):
    backbones.ceil_pool(keras.Input((None, None, 1)), 3, stride=2, name="pool")


def test_prelu_has_one_slope_a_channel():
  shapes = {tuple(w.shape) for w in build(PNET).weights if "alpha" in w.path}
  assert shapes == {(1, 1, 10), (1, 1, 16), (1, 1, 32)}
