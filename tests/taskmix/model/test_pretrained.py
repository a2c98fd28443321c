"""Backbones with weights from a file: loaded, frozen, fine-tuned, served with their preprocessing."""

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from taskmix.model import pretrained, serving, starting_weights, training
from taskmix.model.build import build
from taskmix.nets.cats_dogs import CATS_DOGS, CLASSES
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Training

# The smallest side that MobileNetV2 takes, for the sake of speed.
NET = dataclasses.replace(CATS_DOGS, input_size=(32, 32, 3))

# Deep nets take long to compile; this one has all that matters: weights and batch statistics.
TINY = dataclasses.replace(NET, backbone="tiny_parts:backbone")
SETTINGS = Training(batch_size=8, steps=3, pretrained="random", warmup_steps=0, steps_per_execution=8)
_MODULE = """
import keras
from taskmix.model import pretrained

def tiny(include_top, weights, input_shape, pooling):
  image = keras.Input(input_shape)
  x = keras.layers.Conv2D(4, 3, strides=4, use_bias=False)(image)
  x = keras.layers.BatchNormalization(momentum=0.5)(x)
  return keras.Model(image, keras.layers.GlobalAveragePooling2D()(x))

def backbone(image):
  return pretrained.features(image, tiny, lambda image: image / 127.5 - 1)

def broken(image):
  raise TypeError("boom")
"""


@pytest.fixture(scope="module", autouse=True)
def tiny_module(tmp_path_factory):
  folder = tmp_path_factory.mktemp("modules")
  (folder / "tiny_parts.py").write_text(_MODULE)
  with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(folder))
    yield


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
  """What a user brings from a machine with a network; random numbers here."""
  path = tmp_path_factory.mktemp("weights") / "mobilenet.weights.h5"
  _mobilenet().save_weights(path)
  return str(path)


def _mobilenet() -> keras.Model:
  application: Any = keras.applications.MobileNetV2
  return application(include_top=False, weights=None, input_shape=(32, 32, 3), pooling="avg")


@pytest.fixture(scope="module")
def tiny_weights(tmp_path_factory):
  path = tmp_path_factory.mktemp("weights") / "tiny.weights.h5"
  _part(build(TINY)).save_weights(path)
  return str(path)


@pytest.fixture(scope="module")
def tiny_start(tiny_weights):
  model = build(TINY)
  pretrained.load(model, tiny_weights)
  return model


@pytest.fixture(scope="module")
def files(tmp_path_factory, write_examples):
  """Five dark cats and twenty bright dogs."""
  folder, rng = tmp_path_factory.mktemp("examples"), np.random.default_rng(0)
  found = {}
  for label, (kind, count) in enumerate(zip(CLASSES, (5, 20), strict=True)):
    columns = {
      "image": rng.integers(100 * label, 100 * label + 100, (count, 32, 32, 3), np.uint8),
      "label": np.full(count, label),
      "label_mask": np.ones(count, np.float32),
    }
    found[kind] = [write_examples(training.trained_columns(NET), columns, folder / kind)]
  return found


def _train(files, weights, **changed):
  settings = dataclasses.replace(SETTINGS, pretrained=weights, **changed)
  return training.train(TINY, settings, files=files)


def _part(model) -> keras.Model:
  part = pretrained.part_of(model)
  assert part is not None
  return part


def _trained(model) -> list[np.ndarray]:
  return [np.array(variable) for variable in _part(model).trainable_variables]


def _statistics(model) -> list[np.ndarray]:
  return [np.array(variable) for variable in _part(model).non_trainable_variables]


@pytest.fixture(scope="module")
def start(weights):
  model = build(NET)
  pretrained.load(model, weights)
  return model


def test_features_are_the_application_s_of_preprocessed_pixels(start, weights):
  plain = _mobilenet()
  plain.load_weights(weights)
  image = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
  scaled = keras.applications.mobilenet_v2.preprocess_input(image.astype(np.float32))
  ours = keras.Model(start.input, start.get_layer("label").input)
  np.testing.assert_allclose(ours(image), plain(scaled, training=False), atol=1e-5)


def test_frozen_weights_stay_while_the_head_learns(files, tiny_weights, tiny_start):
  result = _train(files, tiny_weights, frozen_steps=3)
  for mine, before in zip(_trained(result.model), _trained(tiny_start), strict=True):
    np.testing.assert_array_equal(mine, before)
  assert np.abs(result.model.get_layer("label").kernel - tiny_start.get_layer("label").kernel).max() > 0
  # 5 cats and 20 dogs, and every batch holds four of each.
  kinds = result.audits[0]["kinds"]
  assert {kind: (kinds[kind]["min"], kinds[kind]["max"]) for kind in CLASSES} == {
    "cat": (4, 4),
    "dog": (4, 4),
  }


def test_fine_tuning_moves_them_but_not_their_statistics(files, tiny_weights, tiny_start):
  result = _train(files, tiny_weights, frozen_steps=1)
  moved = [
    np.abs(mine - before).max()
    for mine, before in zip(_trained(result.model), _trained(tiny_start), strict=True)
  ]
  # Two steps at a hundredth of the heads' rate of 1e-3; Adam's first step is up to three of them.
  assert 0 < max(moved) < 1e-4
  assert result.records[0].learning_rate < 1e-5
  for mine, before in zip(_statistics(result.model), _statistics(tiny_start), strict=True):
    np.testing.assert_array_equal(mine, before)


def test_the_served_graph_takes_raw_pixels(tiny_start, tmp_path):
  serving.export(str(tmp_path), TINY, model=tiny_start)
  image = tf.constant(np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), np.uint8))
  served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](image=image)["label"]
  np.testing.assert_allclose(served, tf.nn.softmax(tiny_start(image)["label"]), atol=1e-5)


@pytest.mark.parametrize("path", ["", "nowhere/mobilenet.weights.h5"])
def test_without_weights_the_error_says_how_to_get_them(path):
  wanted = r"keras\.applications\.MobileNetV2\(include_top=False.*pretrained='random'"
  with pytest.raises(ValueError, match=wanted):
    starting_weights.require(NET, dataclasses.replace(SETTINGS, pretrained=path))


def test_a_training_without_weights_does_not_begin(files):
  with pytest.raises(ValueError, match=r"starts from pretrained weights, but there is no file nowhere\.h5"):
    _train(files, "nowhere.h5")


def test_weights_that_are_there_are_found_fit_beforehand(tiny_weights, weights):
  starting_weights.require(TINY, dataclasses.replace(SETTINGS, pretrained=tiny_weights))
  starting_weights.require(PNET, dataclasses.replace(SETTINGS, pretrained=""))
  with pytest.raises(ValueError, match="not weights of this application"):
    starting_weights.require(TINY, dataclasses.replace(SETTINGS, pretrained=weights))
  with pytest.raises(ValueError, match="no weights nowhere"):
    starting_weights.require(PNET, dataclasses.replace(SETTINGS, pretrained="", init_weights="nowhere.h5"))


def test_a_backbone_that_does_not_build_is_told_with_its_name():
  net = dataclasses.replace(NET, backbone="tiny_parts:broken")
  with pytest.raises(ValueError, match=r"backbone tiny_parts:broken does not build: .*boom"):
    starting_weights.require(net, SETTINGS)


def test_random_weights_are_taken_when_asked_for(start):
  before = _trained(start)
  pretrained.load(start, "random")
  for mine, other in zip(_trained(start), before, strict=True):
    np.testing.assert_array_equal(mine, other)


def test_weights_of_another_application_are_refused(start, tmp_path):
  path = tmp_path / "other.weights.h5"
  keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save_weights(path)
  with pytest.raises(ValueError, match=r"other\.weights\.h5: not weights of MobileNetV2"):
    pretrained.load(start, str(path))


def test_a_net_without_such_a_part_refuses_a_file(weights):
  with pytest.raises(ValueError, match="net 'pnet' has no pretrained part"):
    pretrained.load(build(PNET), weights)
