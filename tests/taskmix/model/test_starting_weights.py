"""Weights to start from: whatever unit their heads answer in, the model begins by answering the same."""

import dataclasses

import numpy as np
import pytest
import tensorflow_transform as tft

from taskmix.model import serving, starting_weights
from taskmix.model.build import build
from taskmix.nets.mtcnn import PNET, RNET
from taskmix.spec import Training
from taskmix.transform import Affine

SETTINGS = Training(batch_size=56, steps=1)
SCALING = {
  "box": Affine((0.1, 0.0, -0.1, 0.2), (0.2, 0.3, 0.4, 0.5)),
  "landmark": Affine(tuple(np.linspace(0.2, 0.8, 10)), (0.1,) * 10),
}


@pytest.fixture(scope="module")
def crops():
  return np.random.default_rng(0).integers(0, 256, (5, *PNET.input_size)).astype(np.float32)


@pytest.fixture(scope="module")
def exported(pnet_data, tmp_path_factory):
  """A SavedModel of random weights, with the standardization that a Transform learnt."""
  directory = str(tmp_path_factory.mktemp("exported"))
  transform = tft.TFTransformOutput(pnet_data.transform_output)
  serving.export(directory, PNET, model=build(PNET), transform=transform)
  return directory


def _answers(model, crops, scaling):
  return serving.Trained(PNET, model, scaling).served(model(crops))


def _started(path, scaling):
  model = build(PNET)
  starting_weights.load(model, PNET, dataclasses.replace(SETTINGS, init_weights=str(path)), scaling)
  return model


@pytest.mark.parametrize("scaling", [{}, SCALING], ids=["plain targets", "standardized targets"])
def test_a_file_answers_in_the_targets_own_unit(scaling, crops, tmp_path):
  source = build(PNET)
  source.save_weights(tmp_path / "net.weights.h5")
  started = _started(tmp_path / "net.weights.h5", scaling)
  wanted = _answers(source, crops, {})
  for task, found in _answers(started, crops, scaling).items():
    np.testing.assert_allclose(found, wanted[task], atol=1e-5)


@pytest.mark.parametrize("scaling", [{}, SCALING], ids=["plain targets", "standardized targets"])
def test_a_model_answers_as_it_did_where_it_was_trained(scaling, crops, exported):
  trained = serving.load(exported)
  assert trained.standardization
  wanted = trained.served(trained.model(crops))
  for task, found in _answers(_started(exported, scaling), crops, scaling).items():
    np.testing.assert_allclose(found, wanted[task], atol=1e-5)


def test_a_head_that_knows_nothing_starts_at_the_targets_mean(crops, tmp_path):
  source = build(PNET)
  landmark = source.get_layer("landmark")
  landmark.set_weights([np.zeros_like(array) for array in landmark.get_weights()])
  source.save_weights(tmp_path / "net.weights.h5")
  found = _answers(_started(tmp_path / "net.weights.h5", SCALING), crops, SCALING)["landmark"]
  mean = np.array(SCALING["landmark"].mean)
  np.testing.assert_allclose(np.reshape(found, (len(crops), -1)), np.tile(mean, (len(crops), 1)), atol=1e-6)


def test_a_model_of_another_net_is_refused(exported):
  settings = dataclasses.replace(SETTINGS, init_weights=exported)
  with pytest.raises(ValueError, match="a model of the net 'pnet', not of 'rnet'"):
    starting_weights.load(build(RNET), RNET, settings, {})


def test_other_weights_under_the_same_name_are_another_start(tmp_path):
  (tmp_path / "model").mkdir()
  for settings, file in (
    (dataclasses.replace(SETTINGS, pretrained=str(tmp_path / "a.h5")), "a.h5"),
    (dataclasses.replace(SETTINGS, init_weights=str(tmp_path / "model")), "model/b"),
  ):
    assert starting_weights.fingerprint(settings) == ""
    (tmp_path / file).write_bytes(b"one")
    one = starting_weights.fingerprint(settings)
    (tmp_path / file).write_bytes(b"two")
    assert len({"", one, starting_weights.fingerprint(settings)}) == 3
