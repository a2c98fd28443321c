"""Batches in Keras' own fit, and under a distribution strategy."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from taskmix import mixing
from taskmix.spec import Column, Mixture, SampleKind

MIXTURE = Mixture((SampleKind("neg", 3), SampleKind("pos", 1)))
COLUMNS = (Column("image", "uint8", (4, 4, 3)), Column("face", "int64"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  """40 dark negatives, 10 bright positives."""
  folder = tmp_path_factory.mktemp("shards")
  rng = np.random.default_rng(0)
  for label, (kind, size) in enumerate({"neg": 40, "pos": 10}.items()):
    with tf.io.TFRecordWriter(str(folder / kind)) as writer:
      for _ in range(size):
        pixels = rng.integers(128 * label, 128 * label + 128, 48, dtype=np.uint8).tobytes()
        features = {
          "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[pixels])),
          "face": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        writer.write(example.SerializeToString())
  return {kind: [str(folder / kind)] for kind in MIXTURE.names}


@pytest.mark.parametrize("engine", ["memory", "stream", "device"])
def test_keras_fit_learns_from_the_batches(files, engine):
  keras.utils.set_random_seed(0)
  batches = mixing.dataset(MIXTURE, files, COLUMNS, batch_size=16, seed=1, engine=engine)
  model = keras.Sequential([keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(2)])
  loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"], steps_per_execution=10)
  pairs = batches.map(lambda batch: (batch["image"], batch["face"]))
  history = model.fit(pairs, steps_per_epoch=50, epochs=2, verbose=0).history
  assert history["accuracy"][-1] > 0.95


_TWO_DEVICES = """
import json, sys
import numpy as np
import tensorflow as tf
from taskmix import mixing
from taskmix.spec import Column, Mixture, SampleKind

files = json.loads(sys.argv[1])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
mixture = Mixture((SampleKind("neg", 3), SampleKind("pos", 1)))
columns = (Column("image", "uint8", (4, 4, 3)), Column("face", "int64"))

def trained(engine, replicas):
  strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])
  batches = mixing.dataset(mixture, files, columns, batch_size=16, seed=1, engine=engine)
  with strategy.scope():
    weights = tf.Variable(tf.zeros((48, 2)), synchronization=tf.VariableSynchronization.ON_WRITE)

  def step(batch):
    pixels = tf.reshape(tf.cast(batch["image"], tf.float32) / 255 - 0.5, (-1, 48))
    with tf.GradientTape() as tape:
      losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["face"], pixels @ weights)
      loss = tf.reduce_sum(losses) / 16
    gradient = tape.gradient(loss, weights)
    total = tf.distribute.get_replica_context().all_reduce("sum", gradient)
    weights.assign_sub(0.5 * total)
    return tf.shape(pixels)[0]

  @tf.function
  def train(batch):
    return strategy.run(step, args=(batch,))

  iterator = iter(strategy.experimental_distribute_dataset(batches))
  for _ in range(40):
    sizes = strategy.experimental_local_results(train(next(iterator)))
  assert [int(size) for size in sizes] == [16 // replicas] * replicas, sizes
  return weights.numpy().tolist()

print(json.dumps({engine: [trained(engine, 1), trained(engine, 2)] for engine in ("memory", "stream")}))
"""


@pytest.fixture(scope="module")
def weights(files):
  """Engine -> the weights that one device and two devices train to; in a process with two virtual CPUs."""
  done = subprocess.run(
    [sys.executable, "-c", _TWO_DEVICES, json.dumps(files)], capture_output=True, text=True, check=False
  )
  assert not done.returncode, done.stderr[-3000:]
  return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_two_devices_train_to_the_weights_of_one(weights, engine):
  one, two = (np.array(each) for each in weights[engine])
  assert np.abs(one).max() > 0.1
  np.testing.assert_allclose(two, one, atol=1e-5)
