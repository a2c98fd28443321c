"""What any framework promises: restored nets are equal, eager and compiled agree, fit works."""

from typing import Any, cast

import keras
import numpy as np
import pytest
import tensorflow as tf

from taskmix import mixing
from taskmix.model import serving, training
from taskmix.model.build import build
from taskmix.model.validation import Validation
from taskmix.nets.cifar10 import CNN
from taskmix.spec import Training

SETTINGS = Training(batch_size=32, steps=6, learning_rate=3e-3, warmup_steps=0, steps_per_execution=6)


@pytest.fixture(scope="module")
def files(tmp_path_factory, write_examples):
  """(training files, test files): 64 and 40 images whose class is their brightness."""
  folder, rng = tmp_path_factory.mktemp("cifar10"), np.random.default_rng(0)

  def write(name, count):
    label = rng.integers(0, 10, count)
    image = label[:, None, None, None] * 20 + rng.integers(0, 60, (count, 32, 32, 3))
    columns = {"image": image.astype(np.uint8), "label": label, "label_mask": np.ones(count, np.float32)}
    return {"image": [write_examples(training.trained_columns(CNN), columns, folder / name)]}

  return write("train", 64), write("test", 40)


@pytest.fixture(scope="module")
def trained(files):
  return training.train(CNN, SETTINGS, files=files[0], eval_files=files[1])


def test_a_restored_net_has_equal_structure_outputs_and_test_accuracy(trained, files, tmp_path):
  serving.export(str(tmp_path), CNN, model=trained.model)
  restored = serving.load(str(tmp_path)).model
  for mine, other in zip(restored.layers, trained.model.layers, strict=True):
    assert (type(mine), mine.name) == (type(other), other.name)
    assert [weight.shape for weight in mine.weights] == [weight.shape for weight in other.weights]
  image = np.random.default_rng(1).integers(0, 256, (8, 32, 32, 3), np.uint8)
  np.testing.assert_array_equal(restored(image)["label"], trained.model(image)["label"])
  columns = training.trained_columns(CNN)
  judged = Validation(CNN, restored, files=files[1], columns=columns, batch_size=32).record(6)
  assert judged.metrics == trained.records[-1].metrics
  assert judged.losses == trained.records[-1].losses


def test_eager_and_compiled_training_agree(trained, files):
  tf.config.run_functions_eagerly(True)
  try:
    eager = training.train(CNN, SETTINGS, files=files[0])
  finally:
    tf.config.run_functions_eagerly(False)
  for mine, other in zip(eager.model.get_weights(), trained.model.get_weights(), strict=True):
    np.testing.assert_allclose(mine, other, atol=2e-4)


def test_a_net_is_fitted_by_keras_with_its_callbacks(files, tmp_path):
  """`build` and the sampler in Keras' own hands; as docs/mixing.md shows it."""
  batches = mixing.dataset(
    CNN.mixture, files[0], training.trained_columns(CNN), batch_size=32, seed=1, engine="memory"
  )

  def split(batch) -> tuple[Any, Any, Any]:
    targets = {task.name: batch[task.target.name] for task in CNN.tasks}
    weights = {task.name: batch[task.mask] for task in CNN.tasks}
    return batch["image"], targets, weights

  model = build(CNN)
  loss = {"label": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
  model.compile(keras.optimizers.Adam(3e-3), loss, weighted_metrics={"label": ["accuracy"]})
  best = str(tmp_path / "best.weights.h5")
  callbacks = [
    keras.callbacks.ModelCheckpoint(best, "loss", save_best_only=True, save_weights_only=True),
    keras.callbacks.EarlyStopping("loss", patience=5),
    keras.callbacks.CSVLogger(str(tmp_path / "log.csv")),
  ]
  history = model.fit(
    batches.map(split), steps_per_epoch=2, epochs=4, callbacks=callbacks, verbose=cast(Any, 0)
  ).history
  assert min(history["loss"]) < history["loss"][0]
  assert len((tmp_path / "log.csv").read_text().splitlines()) == 1 + len(history["loss"])
  again = build(CNN)
  again.load_weights(best)
