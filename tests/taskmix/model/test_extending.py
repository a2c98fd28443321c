"""A net, a task, a backbone and a loss of one's own, added in one place and taken through every part."""

import types

import numpy as np
import pytest
import tensorflow as tf

from taskmix import evaluation, schema
from taskmix.model import serving, training
from taskmix.spec import Bound, Column, Loss, Mixture, Net, SampleKind, Task, Training, to_json

# All that a user writes, beside the Net.
_MODULE = """
import keras
import tensorflow as tf

def backbone(image):
  x = keras.layers.Rescaling(1 / 255)(image)
  x = keras.layers.Conv2D(8, 3, activation="relu")(x)
  x = keras.layers.BatchNormalization(momentum=0.8)(x)
  return keras.layers.Dropout(0.1, seed=0)(keras.layers.GlobalAveragePooling2D()(x))

def cubic(targets, outputs):
  return tf.abs(outputs - targets) ** 3
"""

TOY = Net(
  name="toy",
  input_size=(8, 10, 1),
  backbone="toy_parts:backbone",
  tasks=(
    Task(
      "bright",
      Column("bright", "int64", classes=("no", "yes")),
      ("day", "night"),
      Loss("focal_cross_entropy", keep_hardest=0.8),
      metrics=("accuracy", "auc"),
      bounds=(Bound("accuracy", min=0.5),),
    ),
    Task(
      "shade",
      Column("shade", "float32", low=0.0, high=1.0),
      ("grey",),
      Loss("toy_parts:cubic"),
      loss_weight=2.0,
      metrics=("mean_absolute_error", "mean_squared_error"),
      bounds=(Bound("mean_absolute_error", max=1.0),),
      standardize=True,
    ),
  ),
  mixture=Mixture((SampleKind("day", 2), SampleKind("night", 1), SampleKind("grey", 1))),
)
SETTINGS = Training(batch_size=32, steps=120, learning_rate=0.02, warmup_steps=5, steps_per_execution=30)


@pytest.fixture(scope="module")
def trained(dataset_of, tmp_path_factory):
  """(the transformed data, fn_args of a finished run_fn)."""
  folder = tmp_path_factory.mktemp("toy")
  (folder / "toy_parts.py").write_text(_MODULE)
  with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(folder))
    data = dataset_of(TOY, {"day": 80, "night": 40, "grey": 60})
    patterns = data.transformed
    args = types.SimpleNamespace(
      train_files=[pattern for split, pattern in patterns.items() if split.startswith("train")],
      eval_files=[pattern for split, pattern in patterns.items() if split.startswith("eval")],
      transform_output=data.transform_output,
      serving_model_dir=str(folder / "model"),
      model_run_dir=str(folder / "model_run" / "1"),
      custom_config={"net": TOY.to_json(), "training": to_json(SETTINGS)},
    )
    training.run_fn(args)
    yield data, args


def test_its_schema_is_derived():
  names = [feature.name for feature in schema.schema_of(TOY).feature]
  assert names == ["image", "kind", "image_id", "bright", "shade"]


def test_it_learns_both_tasks(trained):
  run = serving.load(trained[1].serving_model_dir)
  image = np.stack([np.full((8, 10, 1), value, np.uint8) for value in (40, 200)])
  served = {name: value.numpy() for name, value in run.served(run.model(image)).items()}
  assert served["bright"].argmax(1).tolist() == [0, 1]
  assert served["shade"][1] > served["shade"][0] + 0.05


def test_dropout_and_batch_norm_are_off_when_served(trained):
  serve = tf.saved_model.load(trained[1].serving_model_dir).signatures["serving_default"]
  image = tf.fill([4, 8, 10, 1], tf.constant(90, tf.uint8))
  one, many = serve(image=image[:1]), serve(image=image)
  np.testing.assert_allclose(many["shade"], np.repeat(one["shade"], 4), rtol=1e-5)


def test_tfma_judges_the_served_graph_in_the_targets_own_unit(trained, draw, tmp_path):
  import tensorflow_model_analysis as tfma

  data, args = trained
  config = evaluation.eval_config(TOY)
  examples = tf.data.Dataset.list_files(
    [data.raw[f"eval-{kind}"] for kind in TOY.mixture.names], shuffle=False
  )
  path = str(tmp_path / "eval.tfrecord")
  with tf.io.TFRecordWriter(path) as writer:
    for record in tf.data.TFRecordDataset(examples).as_numpy_iterator():
      writer.write(record)
  shared = tfma.default_eval_shared_model(args.serving_model_dir, eval_config=config)
  out = str(tmp_path / "evaluation")
  tfma.run_model_analysis(eval_shared_model=shared, eval_config=config, data_location=path, output_path=out)
  found = evaluation.read_metrics(TOY, out)
  run = serving.load(args.serving_model_dir)
  drawn = {kind: draw(TOY, kind, count) for kind, count in (("day", 20), ("night", 10), ("grey", 15))}
  served = {kind: run.served(run.model(columns["image"])) for kind, columns in drawn.items()}
  errors = served["grey"]["shade"].numpy() - drawn["grey"]["shade"]
  assert found["shade"]["mean_absolute_error"] == pytest.approx(np.abs(errors).mean(), rel=1e-4)
  assert found["shade"]["mean_squared_error"] == pytest.approx(np.square(errors).mean(), rel=1e-3)
  right = [served[kind]["bright"].numpy().argmax(1) == drawn[kind]["bright"] for kind in ("day", "night")]
  assert found["bright"]["accuracy"] == pytest.approx(np.concatenate(right).mean())
  assert found["bright"]["example_count"] == 30
  assert evaluation.read_failures(TOY, out) == []


def test_a_resumed_run_keeps_the_state_of_dropout_and_batch_norm(trained, tmp_path):
  files = training.split_files(trained[1].train_files, TOY, phase="train")
  settings = Training(batch_size=32, steps=20, warmup_steps=2, checkpoint_every=10, steps_per_execution=5)
  whole = training.train(TOY, settings, files=files)

  class Stopped(Exception):
    pass

  def stop(record):
    if record.step > 10:
      raise Stopped

  with pytest.raises(Stopped):
    training.train(TOY, settings, files=files, checkpoint_dir=str(tmp_path), on_record=stop)
  resumed = training.train(TOY, settings, files=files, checkpoint_dir=str(tmp_path))
  assert resumed.resumed_at == 10
  for mine, other in zip(resumed.model.get_weights(), whole.model.get_weights(), strict=True):
    np.testing.assert_allclose(mine, other, atol=1e-5, rtol=1e-4)
