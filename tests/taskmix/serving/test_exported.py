"""The model as the Trainer exports it goes through the check."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from taskmix.model import serving as export
from taskmix.model.build import build
from taskmix.nets.mtcnn import PNET
from taskmix.serving import reference, versions
from taskmix.serving.check import check_model
from taskmix.serving.policy import ServingPolicy
from taskmix.serving.questions import Question, strings


@pytest.fixture(scope="module")
def pnet(pnet_data, tmp_path_factory) -> pathlib.Path:
  folder = tmp_path_factory.mktemp("pnet") / "model"
  transform = tft.TFTransformOutput(pnet_data.transform_output)
  export.export(str(folder), PNET, model=build(PNET), transform=transform)
  return folder


@pytest.fixture(scope="module")
def records(pnet_data) -> list[bytes]:
  patterns = [pattern for split, pattern in pnet_data.raw.items() if split.startswith("eval")]
  files = [file for pattern in patterns for file in tf.io.gfile.glob(pattern)]
  return [bytes(record) for record in tf.data.TFRecordDataset(files).take(12).as_numpy_iterator()]


def test_a_net_as_exported_passes_every_check(pnet, records, tmp_path):
  report = check_model(
    pnet, tmp_path / "pushed", examples=records, policy=ServingPolicy(server="loopback"), name="pnet"
  )
  assert report.findings == ()
  assert set(report.asked) == {"serving_default", "serve_examples", "transform_features", "no_such_signature"}
  version = versions.publish(tmp_path / "pushed", tmp_path / "models", record=versions.Record("pnet"))
  assert pathlib.Path(version.path, "assets.extra/net.json").exists()


def test_what_is_compared_with_are_the_answers_of_the_keras_model(pnet, records, tmp_path):
  """So that a graph that is not of the trained weights would be found."""
  shutil.copytree(pnet, tmp_path / "other")
  other = build(PNET)
  other.set_weights([weight + 0.01 for weight in other.get_weights()])
  other.save_weights(tmp_path / "other/assets.extra/net.weights.h5")
  asked = Question("", "serve_examples", {"examples": strings(records)})
  (same,), (changed,) = reference.answers(pnet, [asked]), reference.answers(tmp_path / "other", [asked])
  served = tf.saved_model.load(str(pnet)).signatures["serve_examples"](examples=tf.constant(records))
  np.testing.assert_allclose(same["box"], served["box"].numpy(), atol=1e-5)
  assert np.abs(changed["box"] - served["box"].numpy()).max() > 1e-3
