"""The whole DAG on images without faces: three tasks on disjoint images, one on folders of photos."""

import json
import pathlib
import sys

import cv2
import keras
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.pipeline

# Bounds are for real images and a real training.
CONFIG = """
import dataclasses
from pipeline.config import Stage
from pipeline.configs.cifar10_tasks import CONFIG as BASE
from taskmix.spec import Training

net = BASE.nets[0]
tasks = tuple(dataclasses.replace(task, bounds=()) for task in net.tasks)
training = Training(batch_size=32, steps=10, checkpoint_every=10, steps_per_execution=5)
stage = Stage(dataclasses.replace(net, tasks=tasks), training)
CONFIG = dataclasses.replace(BASE, name="images", stages=(stage,))
"""

PROBABILITIES = {"label": 10, "turn": 4, "tone": 2}


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> pathlib.Path:
  """CIFAR-10's binary format: 200 and 100 images, each class a colour, dark above and bright below."""
  folder, rng = tmp_path_factory.mktemp("cifar-10-batches-bin"), np.random.default_rng(0)
  colours = rng.uniform(60, 200, (10, 3))
  slope = np.linspace(0.3, 1, 32)[:, None, None]
  for name, count in (("data_batch_1.bin", 200), ("test_batch.bin", 100)):
    labels = rng.integers(0, 10, count)
    images = colours[labels][:, None, None] * slope * rng.uniform(0.7, 1.2, (count, 32, 32, 1))
    planes = np.clip(images, 0, 255).astype(np.uint8).transpose(0, 3, 1, 2).reshape(count, -1)
    np.concatenate([labels[:, None].astype(np.uint8), planes], axis=1).tofile(folder / name)
  return folder


def test_images_become_a_pushed_model(archive, taskmix, tmp_path):
  config = tmp_path / "images.py"
  config.write_text(CONFIG)
  done = taskmix("run", "--config", config, "--data", archive, "--runs", tmp_path / "runs")
  assert done.code == 0, done
  assert "Blessed" in done.stdout
  (pushed,) = (tmp_path / "runs" / "images" / "serving").glob("*/*/saved_model.pb")
  serve = tf.saved_model.load(str(pushed.parent)).signatures["serving_default"]
  answers = serve(image=tf.zeros((3, 32, 32, 3), tf.uint8))
  assert {name: value.shape[1] for name, value in answers.items()} == PROBABILITIES
  for value in answers.values():
    np.testing.assert_allclose(tf.reduce_sum(value, 1), 1.0, atol=1e-5)


# The config's own sources are by prefix; an application as deep as MobileNetV2 takes minutes to compile.
FOLDERS = """
import dataclasses
from pipeline.config import Stage
from pipeline.configs.cats_dogs import CONFIG as BASE

(stage,) = BASE.stages
train, test = stage.net.sources
test = dataclasses.replace(test, options=(("classes", "cat,dog"), ("by", "folder")))
net = dataclasses.replace(
  stage.net,
  input_size=(32, 32, 3),
  backbone="small_application:backbone",
  tasks=tuple(dataclasses.replace(task, bounds=()) for task in stage.net.tasks),
  sources=(train, test),
)
training = dataclasses.replace(
  stage.training, batch_size=16, steps=10, frozen_steps=5, steps_per_execution=5, pretrained="WEIGHTS"
)
CONFIG = dataclasses.replace(BASE, name="folders", stages=(Stage(net, training),))
"""

APPLICATION = """
import keras
from taskmix.model import pretrained

def application(include_top, weights, input_shape, pooling):
  image = keras.Input(input_shape)
  x = keras.layers.Conv2D(4, 3, strides=4, use_bias=False)(image)
  x = keras.layers.BatchNormalization()(x)
  return keras.Model(image, keras.layers.GlobalAveragePooling2D()(x))

def backbone(image):
  return pretrained.features(image, application, lambda image: image / 127.5 - 1)
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> pathlib.Path:
  """Three times as many cats as dogs: train/cat.0.jpg, test/cat/0.png; in other sizes and shapes."""
  folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
  for number in range(40):
    name = "dog" if number % 4 == 3 else "cat"
    blobs = rng.integers(0, 256, (5, 6, 3)).astype(np.uint8)
    picture = cv2.resize(blobs, (50 + number, 40), interpolation=cv2.INTER_CUBIC)
    path = folder / (f"train/{name}.{number}.jpg" if number < 28 else f"test/{name}/{number}.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), picture)
  return folder


@pytest.fixture
def application(tmp_path, monkeypatch):
  """The backbone's part, as a user has it: importable, since it lies beside the config."""
  (tmp_path / "small_application.py").write_text(APPLICATION)
  monkeypatch.syspath_prepend(str(tmp_path))
  import small_application  # type: ignore[import-not-found]

  yield small_application.application(False, None, (32, 32, 3), "avg")
  sys.modules.pop("small_application")


def test_folders_of_photos_become_a_pushed_model_that_started_from_weights_of_a_file(
  application, photos, taskmix, tmp_path
):
  from taskmix.model import serving

  config, weights = tmp_path / "folders.py", tmp_path / "small.weights.h5"
  config.write_text(FOLDERS.replace("WEIGHTS", str(weights)))
  run = ("run", "--config", config, "--data", photos, "--runs", tmp_path / "runs")
  refused = taskmix(*run)
  assert refused.code == 2 and refused.ran == [], refused
  assert f"starts from pretrained weights, but there is no file {weights}" in refused.stderr

  application.save_weights(weights)
  done = taskmix(*run)
  assert done.code == 0, done
  artifacts = tmp_path / "runs" / "folders" / "artifacts"
  (examples,) = (artifacts / "CropExampleGen-cats_dogs" / "examples").iterdir()
  lines = [json.loads(line) for line in (examples / "photos.jsonl").read_text().splitlines()]
  assert len({line["content"] for line in lines}) == 40
  (audit,) = (artifacts / "Trainer-cats_dogs" / "model_run").glob("*/audit.json")
  (drawn,) = json.loads(audit.read_text())["runs"]
  # 21 cats and 7 dogs train; every batch has eight of each.
  counts = {kind: (told["size"], told["min"], told["max"]) for kind, told in drawn["kinds"].items()}
  assert counts == {"cat": (21, 8, 8), "dog": (7, 8, 8)}

  (pushed,) = (tmp_path / "runs" / "folders" / "serving").glob("*/*/saved_model.pb")
  trained = serving.load(str(pushed.parent)).model
  moved = [
    np.abs(np.array(mine) - np.array(start)).max()
    for mine, start in zip(_part(trained).trainable_variables, application.trainable_variables, strict=True)
  ]
  assert 0 < max(moved) < 1e-3
  image = np.full((1, 32, 32, 3), 200, np.uint8)
  served = tf.saved_model.load(str(pushed.parent)).signatures["serving_default"](image=image)["label"]
  np.testing.assert_allclose(served, tf.nn.softmax(trained(image)["label"]), atol=1e-5)


def _part(model: keras.Model) -> keras.Model:
  from taskmix.model import pretrained

  part = pretrained.part_of(model)
  assert part is not None
  return part
