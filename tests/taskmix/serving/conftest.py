"""A small SavedModel of the form that a Trainer exports, and examples for it."""

import pathlib

import numpy as np
import pytest

SIDE = 4


def export_toy(folder: pathlib.Path, *, bias: float = 0.0, seed: int = 0) -> pathlib.Path:
  """A two-task model over 4x4 images: face probabilities and a box.

  Args:
    folder: where the SavedModel goes.
    bias: added to every box value.
    seed: of the weights.
  """
  import tensorflow as tf

  class Toy(tf.Module):
    def __init__(self):
      super().__init__()
      rng = np.random.default_rng(seed)
      self.face = tf.Variable(rng.normal(size=(SIDE * SIDE * 3, 2)).astype(np.float32))
      self.box = tf.Variable(rng.normal(size=(SIDE * SIDE * 3, 4)).astype(np.float32))

    def answers(self, image):
      flat = tf.reshape(tf.cast(image, tf.float32) / 128 - 1, [-1, SIDE * SIDE * 3])
      return {"face": tf.nn.softmax(flat @ self.face), "box": flat @ self.box + bias}

    @tf.function(input_signature=[tf.TensorSpec([None, SIDE, SIDE, 3], tf.uint8, "image")])
    def serving_default(self, image):
      return self.answers(image)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve_examples(self, examples):
      return self.answers(self.parse(examples))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def transform_features(self, examples):
      parsed = tf.io.parse_example(examples, {"image": tf.io.FixedLenFeature([], tf.string)})
      return {"image": parsed["image"], "face_mask": tf.ones_like(parsed["image"], tf.float32)}

    def parse(self, examples):
      parsed = tf.io.parse_example(examples, {"image": tf.io.FixedLenFeature([], tf.string)})
      # Without fixed_length, which pads a short picture with zeros in silence.
      image = tf.io.decode_raw(parsed["image"], tf.uint8)
      return tf.reshape(image, [-1, SIDE, SIDE, 3])

  toy = Toy()
  tf.saved_model.save(
    toy,
    str(folder),
    signatures={
      "serving_default": toy.serving_default,
      "serve_examples": toy.serve_examples,
      "transform_features": toy.transform_features,
    },
  )
  return folder


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory) -> pathlib.Path:
  return export_toy(tmp_path_factory.mktemp("toy") / "model")


@pytest.fixture(scope="session")
def toy_records() -> list[bytes]:
  """Eight serialized tf.Examples, as the Trainer's input before Transform."""
  from tensorflow.core.example import example_pb2

  rng = np.random.default_rng(1)
  records = []
  for index in range(8):
    example = example_pb2.Example()
    feature = example.features.feature
    image = rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    feature["image"].bytes_list.value.append(image.tobytes())
    feature["kind"].bytes_list.value.append(b"pos")
    feature["image_id"].bytes_list.value.append(f"photo-{index}".encode())
    feature["box_offsets"].float_list.value.extend([0.0, 0.1, -0.1, 0.0])
    records.append(example.SerializeToString(deterministic=True))
  return records


@pytest.fixture(scope="session")
def toy_export():
  """The function that exports a toy, for a second one."""
  return export_toy
