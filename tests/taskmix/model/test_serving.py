import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from taskmix.model import serving
from taskmix.model.build import build
from taskmix.nets.mtcnn import PNET, RNET
from taskmix.spec import Column
from taskmix.transform import standardization


@pytest.fixture(scope="module")
def exported(pnet_data, tmp_path_factory):
  """(folder of the SavedModel, the in-memory model it was made of)."""
  model = build(PNET, precision="mixed_bfloat16")
  folder = str(tmp_path_factory.mktemp("serving") / "model")
  serving.export(folder, PNET, model=model, transform=tft.TFTransformOutput(pnet_data.transform_output))
  return folder, model


@pytest.fixture(scope="module")
def images(draw):
  return draw(PNET, "part", 20)["image"]


def _expected(model, images, pnet_data):
  """Outputs worked out in NumPy from the float32 model's."""
  exact = build(PNET)
  exact.set_weights(model.get_weights())
  raw = {name: value.numpy() for name, value in exact(images).items()}
  layer = tft.TFTransformOutput(pnet_data.transform_output).transform_features_layer()
  learnt = standardization(layer, PNET)
  exponents = np.exp(raw["face"] - raw["face"].max(1, keepdims=True))
  return {
    "face": exponents / exponents.sum(1, keepdims=True),
    **{name: raw[name] * np.float32(learnt[name].std) + np.float32(learnt[name].mean) for name in learnt},
  }


# No taskmix, no Keras model: TensorFlow and the folder.
_CLEAN = """
import sys
import numpy as np
import tensorflow as tf
try:
  import taskmix
  raise SystemExit("taskmix is importable here")
except ImportError:
  pass
folder, images, out = sys.argv[1:]
serve = tf.saved_model.load(folder).signatures["serving_default"]
np.savez(out, **{name: value.numpy() for name, value in serve(image=tf.constant(np.load(images))).items()})
"""


def test_a_process_without_taskmix_gives_the_same_numbers(exported, images, pnet_data, tmp_path):
  folder, model = exported
  np.save(tmp_path / "images.npy", images)
  # -S leaves out site-packages' .pth files, which is how an editable taskmix is found.
  packages = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
  command = [
    sys.executable,
    "-S",
    "-c",
    _CLEAN,
    folder,
    str(tmp_path / "images.npy"),
    str(tmp_path / "out.npz"),
  ]
  subprocess.run(command, check=True, timeout=120, cwd=tmp_path, env={**os.environ, "PYTHONPATH": packages})
  served = np.load(tmp_path / "out.npz")
  for name, value in _expected(model, images, pnet_data).items():
    np.testing.assert_allclose(served[name], value, rtol=1e-4, atol=1e-5)


def test_examples_are_answered_as_their_images(exported, images, write_examples, draw, tmp_path):
  loaded = tf.saved_model.load(exported[0])
  path = write_examples(PNET.columns, draw(PNET, "part", 20), tmp_path / "examples")
  examples = tf.constant(list(tf.data.TFRecordDataset(path).as_numpy_iterator()))
  by_image = loaded.signatures["serving_default"](image=tf.constant(images))
  by_example = loaded.signatures["serve_examples"](examples=examples)
  assert by_example["face"].shape == (20, 2)
  assert by_example["box"].shape == (20, 4)
  assert by_example["landmark"].shape == (20, 10)
  for name, value in by_image.items():
    np.testing.assert_allclose(by_example[name], value, atol=1e-6)


def test_transform_features_hold_no_label_so_that_labels_stay_in_their_own_unit(exported, pnet_data):
  loaded = tf.saved_model.load(exported[0])
  pattern = tf.io.gfile.glob(pnet_data.raw["train-pos"])
  examples = tf.constant(list(tf.data.TFRecordDataset(pattern).take(5).as_numpy_iterator()))
  columns = loaded.signatures["transform_features"](examples=examples)
  assert columns["face_mask"].numpy().tolist() == [1.0] * 5
  assert columns["landmark_mask"].numpy().tolist() == [0.0] * 5
  assert set(columns) == {"face_mask", "box_mask", "landmark_mask", "face_size_slice"}


def test_a_value_on_an_edge_belongs_to_the_slice_above():
  column = Column("size", "float32", slices=(20.0, 40.0, 80.5))
  names = serving.slice_names(column, tf.constant([0.0, 19.9, 20.0, 39.9, 40.0, 80.5, 1e9]))
  assert [name.decode() for name in names.numpy()] == [
    "under 20",
    "under 20",
    "20 to 40",
    "20 to 40",
    "40 to 80.5",
    "80.5 and over",
    "80.5 and over",
  ]


def test_an_example_needs_no_more_than_its_image(exported):
  pixels = tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes(12 * 12 * 3)]))
  example = tf.train.Example(features=tf.train.Features(feature={"image": pixels}))
  loaded = tf.saved_model.load(exported[0])
  outputs = loaded.signatures["serve_examples"](examples=tf.constant([example.SerializeToString()]))
  np.testing.assert_allclose(outputs["face"].numpy().sum(), 1.0, rtol=1e-6)


@pytest.mark.parametrize("size", [12 * 12 * 3 - 1, 2 * 12 * 12 * 3])
def test_an_image_of_another_size_is_refused(exported, size):
  pixels = tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes(size)]))
  example = tf.train.Example(features=tf.train.Features(feature={"image": pixels}))
  loaded = tf.saved_model.load(exported[0])
  with pytest.raises(tf.errors.InvalidArgumentError):
    loaded.signatures["serve_examples"](examples=tf.constant([example.SerializeToString()]))


def test_an_empty_batch_gives_empty_answers(exported):
  loaded = tf.saved_model.load(exported[0])
  answers = loaded.signatures["serving_default"](image=tf.zeros((0, 12, 12, 3), tf.uint8))
  assert answers["box"].shape == (0, 4)
  answers = loaded.signatures["serve_examples"](examples=tf.constant([], tf.string))
  assert answers["box"].shape == (0, 4)


def test_the_net_and_its_weights_come_back(exported, images, pnet_data):
  folder, model = exported
  trained = serving.load(folder)
  assert trained.net == PNET
  served = trained.served(trained.model(images))
  for name, value in _expected(model, images, pnet_data).items():
    np.testing.assert_allclose(served[name], value, rtol=1e-4, atol=1e-5)


def test_imported_weights_are_served_without_a_transform(tmp_path):
  model = build(RNET)
  serving.export(str(tmp_path), RNET, model=model)
  loaded = tf.saved_model.load(str(tmp_path))
  assert set(loaded.signatures) == {"serving_default", "serve_examples"}
  image = np.full((1, 24, 24, 3), 90, np.uint8)
  answers = loaded.signatures["serving_default"](image=tf.constant(image))
  np.testing.assert_allclose(answers["box"], model(image)["box"], atol=1e-6)


def test_a_folder_of_another_origin_is_named(tmp_path):
  with pytest.raises(ValueError, match=r"no assets\.extra/net\.json"):
    serving.load(str(tmp_path))


def test_weights_of_another_net_are_refused(exported):
  with pytest.raises(ValueError, match="not weights of the net 'rnet'"):
    serving.load_weights(build(RNET), f"{exported[0]}/assets.extra/net.weights.h5")
  with pytest.raises(ValueError, match="no weights"):
    serving.load_weights(build(RNET), "/nowhere.weights.h5")
