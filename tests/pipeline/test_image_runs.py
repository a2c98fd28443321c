"""The whole DAG on images without faces: one task, and three tasks on disjoint images."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.pipeline

# Bounds are for real images and a real training.
CONFIG = """
import dataclasses
from pipeline.config import Stage
from pipeline.configs.NAME import CONFIG as BASE
from taskmix.spec import Training

net = BASE.nets[0]
tasks = tuple(dataclasses.replace(task, bounds=()) for task in net.tasks)
training = Training(batch_size=32, steps=10, checkpoint_every=10, steps_per_execution=5)
stage = Stage(dataclasses.replace(net, tasks=tasks), training)
CONFIG = dataclasses.replace(BASE, name="images", stages=(stage,))
"""

PROBABILITIES = {"cifar10": {"label": 10}, "cifar10_tasks": {"label": 10, "turn": 4, "tone": 2}}


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


@pytest.mark.parametrize("base", PROBABILITIES)
def test_images_become_a_pushed_model(base, archive, taskmix, tmp_path):
  config = tmp_path / "images.py"
  config.write_text(CONFIG.replace("NAME", base))
  done = taskmix("run", "--config", config, "--data", archive, "--runs", tmp_path / "runs")
  assert done.code == 0, done
  assert "Blessed" in done.stdout
  (pushed,) = (tmp_path / "runs" / "images" / "serving").glob("*/*/saved_model.pb")
  serve = tf.saved_model.load(str(pushed.parent)).signatures["serving_default"]
  answers = serve(image=tf.zeros((3, 32, 32, 3), tf.uint8))
  assert {name: value.shape[1] for name, value in answers.items()} == PROBABILITIES[base]
  for value in answers.values():
    np.testing.assert_allclose(tf.reduce_sum(value, 1), 1.0, atol=1e-5)
