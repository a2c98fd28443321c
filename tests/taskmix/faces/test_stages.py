"""A folded net gives the Keras model's numbers."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from taskmix.faces.stages import Stage
from taskmix.model.build import build
from taskmix.nets.mtcnn import MTCNN, ONET, PNET, RNET


def shaken(net, **options):
  """The net's model with random weights; some slopes negative, some above 1."""
  model, rng = build(net, **options), np.random.default_rng(7)
  weights = []
  for array in model.get_weights():
    spread = 0.6 if array.ndim < 2 or array.shape[0] == 1 else 1.4 * np.prod(array.shape[:-1]) ** -0.5
    weights.append(rng.normal(0, spread, array.shape).astype(np.float32))
  model.set_weights(weights)
  return model


def pixels(*shape: int) -> np.ndarray:
  return np.random.default_rng(1).integers(0, 256, shape).astype(np.float32)


@pytest.mark.parametrize("net", MTCNN.nets, ids=lambda net: net.name)
def test_a_folded_net_answers_as_the_keras_model(net):
  model = shaken(net)
  stage = Stage(net, model)
  assert stage.folded
  image = pixels(5, *net.input_size)
  expected, found = model(image), stage(tf.constant(image), stage.tasks)
  assert set(found) == {"face", "box", "landmark"}
  for task, values in found.items():
    flat = np.reshape(expected[task], [5, -1])
    # Not constant: the comparison says something.
    assert np.ptp(flat, axis=0).min() > 1e-3
    np.testing.assert_allclose(np.reshape(values, [5, -1]), flat, atol=1e-4, rtol=1e-4)


def test_slopes_above_one_and_below_zero_are_among_those_tested():
  slopes = [w for layer in shaken(PNET).layers if "prelu" in layer.name for w in layer.get_weights()]
  assert len(slopes) == 3
  assert max(each.max() for each in slopes) > 1
  assert min(each.min() for each in slopes) < 0


@pytest.mark.parametrize("net", [PNET, RNET], ids=["pnet", "rnet"])
@pytest.mark.parametrize(
  ("low", "high"), [(0.0, 0.9), (-0.9, -0.1), (1.1, 1.5), (0.5, 1.5), (-0.5, 0.5), (0.0, 0.0)]
)
def test_slopes_of_every_kind_are_folded(net, low, high):
  model, rng = shaken(net), np.random.default_rng(3)
  for layer in model.layers:
    if "prelu" in layer.name:
      layer.set_weights([rng.uniform(low, high, each.shape) for each in layer.get_weights()])
  image = pixels(3, *net.input_size)
  expected, found = model(image), Stage(net, model)(tf.constant(image), ["face", "box"])
  for task, values in found.items():
    flat = np.reshape(expected[task], [3, -1])
    np.testing.assert_allclose(np.reshape(values, [3, -1]), flat, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("size", [(12, 12), (40, 26), (13, 12), (31, 45)])
def test_a_sliding_pnet_gives_the_keras_models_maps(size):
  model = shaken(PNET, any_size=True)
  image = pixels(1, *size, 3)
  found = Stage(PNET, model)(tf.constant(image), ["face", "box"])
  expected = model(image)
  rows, columns = (size[0] - 12) // 2 + 1, (size[1] - 12) // 2 + 1
  for task, values in found.items():
    assert values.shape[1:3] == (rows, columns)
    # Keras may have one more row where the size is odd: of cells that hang over.
    np.testing.assert_allclose(values, expected[task][:, :rows, :columns], atol=1e-4, rtol=1e-4)


def test_each_cell_of_a_sliding_pnet_is_the_net_of_its_crop():
  fixed = shaken(PNET)
  sliding = build(PNET, any_size=True)
  sliding.set_weights(fixed.get_weights())
  image = pixels(1, 30, 24, 3)
  maps = Stage(PNET, sliding)(tf.constant(image), ["box"])["box"]
  for row, column in ((0, 0), (3, 5), (9, 6)):
    crop = image[:, 2 * row : 2 * row + 12, 2 * column : 2 * column + 12]
    np.testing.assert_allclose(maps[0, row, column], fixed(crop)["box"][0], atol=1e-4)


@pytest.mark.parametrize("fold", [True, False])
def test_standardized_values_come_back_in_their_own_unit(fold):
  model, image = shaken(RNET), pixels(3, 24, 24, 3)
  learnt = {"box": (np.array([0.1, -0.2, 0.3, 0.0]), np.array([0.5, 2.0, 1.0, 3.0]))}
  stage = Stage(RNET, model, standardization=learnt, fold=fold)
  assert stage.folded == fold
  expected = np.asarray(model(image)["box"]) * [0.5, 2.0, 1.0, 3.0] + [0.1, -0.2, 0.3, 0.0]
  np.testing.assert_allclose(stage(tf.constant(image), ["box"])["box"], expected, atol=1e-4)


def test_a_model_with_an_unknown_layer_runs_as_keras_has_it():
  plain = shaken(ONET)
  image = keras.Input((48, 48, 3), name="image")
  outputs = plain(keras.layers.GaussianNoise(0.1)(image))
  stage = Stage(ONET, keras.Model(image, outputs))
  assert not stage.folded
  crops = pixels(2, 48, 48, 3)
  found = stage(tf.constant(crops), ["face", "landmark"])
  assert found["landmark"].shape == (2, 10)
  np.testing.assert_allclose(found["face"], plain(crops)["face"], atol=1e-4)


def test_a_net_without_a_box_is_refused():
  net = dataclasses.replace(PNET, tasks=PNET.tasks[:1])
  with pytest.raises(ValueError, match="no task box"):
    Stage(net, None)
