"""From exported nets to a detector and to hard examples."""

import pickle

import numpy as np
import pytest
from PIL import Image

from taskmix.faces.assembly import assemble
from taskmix.faces.cascade import Options
from taskmix.faces.mining import Miner, Mining
from taskmix.model import serving
from taskmix.model.build import build
from taskmix.nets.mtcnn import MTCNN

# Untrained nets give about a half to everything.
EASY = Options((0.4, 0.3, 0.3), min_face=40.0)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[str, ...]:
  folder = tmp_path_factory.mktemp("nets")
  paths = []
  for net in MTCNN.nets:
    paths.append(str(folder / net.name))
    serving.export(paths[-1], net, model=build(net))
  return tuple(paths)


@pytest.fixture(scope="module")
def photo(demo) -> np.ndarray:
  image = Image.open(demo / "photos" / "skimage_astronaut.jpg").convert("RGB")
  image.thumbnail((100, 100))
  return np.asarray(image)


def test_three_exported_nets_make_a_detector(models, photo):
  detector = assemble(models, options=EASY)
  assert [stage.net.name for stage in detector.stages] == ["pnet", "rnet", "onet"]
  assert all(stage.folded for stage in detector.stages)
  assert detector.options == EASY
  found = detector(photo)
  assert found["boxes"].shape[1:] == (4,)
  assert found["landmarks"].shape == (len(found["boxes"]), 5, 2)


def test_the_assembled_nets_answer_as_the_exported_ones(models):
  import tensorflow as tf

  for path, stage in zip(models, assemble(models).stages, strict=True):
    crops = np.random.default_rng(0).integers(0, 256, (4, *stage.net.input_size), dtype=np.uint8)
    exported = tf.saved_model.load(path).signatures["serving_default"](image=tf.constant(crops))
    found = stage(tf.cast(crops, tf.float32), ["box", "face"])
    np.testing.assert_allclose(np.reshape(found["box"], [4, 4]), exported["box"], atol=1e-5)
    probability = tf.nn.softmax(tf.reshape(found["face"], [4, 2]))
    np.testing.assert_allclose(probability, exported["face"], atol=1e-5)


@pytest.mark.parametrize("count", [1, 2])
def test_a_miner_gives_the_squares_that_the_nets_so_far_let_pass(models, photo, count):
  settings = Mining(EASY.thresholds, EASY.min_face)
  miner = pickle.loads(pickle.dumps(Miner(models[:count], settings)))
  squares = miner(photo)
  assert squares.dtype == np.float32
  assert squares.shape[1:] == (4,)
  assert len(squares) > 0
  sides = squares[:, 2:] - squares[:, :2]
  np.testing.assert_allclose(sides[:, 0], sides[:, 1], rtol=1e-4, atol=1e-3)


def test_a_photo_smaller_than_a_face_gives_no_square(models):
  squares = Miner(models[:2])(np.zeros((5, 300, 3), np.uint8))
  assert squares.dtype == np.float32
  assert squares.shape == (0, 4)


def test_a_folder_without_a_net_is_refused(tmp_path):
  with pytest.raises(ValueError, match=r"net\.json"):
    assemble([str(tmp_path)])
