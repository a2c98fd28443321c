import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from taskmix.model import devices, training
from taskmix.model.checkpoints import Checkpoints
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Training, to_json

SETTINGS = Training(
  batch_size=56,
  steps=30,
  learning_rate=3e-3,
  warmup_steps=3,
  checkpoint_every=10,
  steps_per_execution=4,
  seed=5,
)


@pytest.fixture(scope="module")
def files(pnet_data):
  return training.split_files(list(pnet_data.transformed.values()), PNET, phase="train")


@pytest.fixture(scope="module")
def eval_files(pnet_data):
  return training.split_files(list(pnet_data.transformed.values()), PNET, phase="eval")


@pytest.fixture(scope="module")
def unbroken(files, eval_files):
  """An uninterrupted training, for others to be compared with."""
  return training.train(PNET, SETTINGS, files=files, eval_files=eval_files)


def test_it_learns(files, eval_files):
  longer = dataclasses.replace(SETTINGS, steps=300, checkpoint_every=300, steps_per_execution=50)
  result = training.train(PNET, longer, files=files, eval_files=eval_files)
  first, last = result.records[0], result.records[-1]
  assert last.phase == "eval"
  assert last.metrics["face_accuracy"] > 0.95
  for task in ("face", "box", "landmark"):
    assert last.losses[task] < 0.5 * first.losses[task]


def test_every_batch_held_the_exact_counts(unbroken):
  (audit,) = unbroken.audits
  assert {kind: (each["min"], each["max"]) for kind, each in audit["kinds"].items()} == {
    "neg": (24, 24),
    "pos": (8, 8),
    "part": (8, 8),
    "landmark": (16, 16),
  }
  assert audit["steps"] == 30
  assert all(each["duplicates"] == 0 for each in audit["kinds"].values())


def test_records_stand_at_executions_and_checkpoints(unbroken):
  steps = [record.step for record in unbroken.records if record.phase == "train"]
  assert steps == [4, 8, 10, 12, 16, 20, 24, 28, 30]
  assert [record.step for record in unbroken.records if record.phase == "eval"] == [10, 20, 30]


def test_the_total_is_the_weighted_sum(unbroken):
  losses = unbroken.records[0].losses
  assert losses["total"] == pytest.approx(
    losses["face"] + 0.5 * losses["box"] + 0.5 * losses["landmark"], rel=1e-5
  )


def test_steps_per_execution_changes_no_weight(files, unbroken):
  other = training.train(PNET, dataclasses.replace(SETTINGS, steps_per_execution=7), files=files)
  _assert_same_weights(other.model, unbroken.model)


def test_xla_computes_the_same(files, unbroken):
  compiled = training.train(PNET, dataclasses.replace(SETTINGS, jit_compile=True), files=files)
  _assert_same_weights(compiled.model, unbroken.model, atol=1e-3)


# Trains into sys.argv[1] and kills itself after the step sys.argv[2]; the rest is JSON.
_KILLED = """
import json, os, signal, sys
from taskmix.model import training
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Training, from_json

directory, last, settings, files = sys.argv[1:]
def kill(record):
  if record.step >= int(last):
    os.kill(os.getpid(), signal.SIGKILL)
settings = from_json(Training, settings)
training.train(PNET, settings, files=json.loads(files), checkpoint_dir=directory, on_record=kill)
"""


def test_a_killed_training_goes_on_to_the_same_weights(files, unbroken, tmp_path):
  command = [sys.executable, "-c", _KILLED, str(tmp_path), "24", to_json(SETTINGS), json.dumps(files)]
  assert subprocess.run(command, timeout=300, check=False).returncode == -signal.SIGKILL
  result = training.train(PNET, SETTINGS, files=files, checkpoint_dir=str(tmp_path))
  assert result.resumed_at == 20
  _assert_same_weights(result.model, unbroken.model)
  ours = [(r.step, r.losses) for r in result.records if r.phase == "train"]
  theirs = [(r.step, r.losses) for r in unbroken.records if r.phase == "train"]
  assert [step for step, _ in ours] == [step for step, _ in theirs]
  for (_, mine), (_, other) in zip(ours, theirs, strict=True):
    assert mine == pytest.approx(other, rel=1e-4)
  assert [(run["first_step"], run["steps"]) for run in result.audits] == [(0, 20), (20, 30)]


# Virtual devices must be made before TensorFlow starts: hence a process of its own.
_TWO_DEVICES = """
import json, sys
import numpy as np
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from taskmix.model import training
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Training, from_json

out, settings, files = sys.argv[1:]
result = training.train(
  PNET, from_json(Training, settings), files=json.loads(files), on_devices=["CPU:0", "CPU:1"]
)
np.savez(out, *result.model.get_weights())
"""


def test_two_devices_train_to_the_weights_of_one(files, unbroken, tmp_path):
  command = [
    sys.executable,
    "-c",
    _TWO_DEVICES,
    str(tmp_path / "out.npz"),
    to_json(SETTINGS),
    json.dumps(files),
  ]
  subprocess.run(command, timeout=300, check=True)
  saved = np.load(tmp_path / "out.npz")
  for name, weight in zip(saved.files, unbroken.model.get_weights(), strict=True):
    np.testing.assert_allclose(saved[name], weight, atol=1e-3)


# One of several processes that TF_CONFIG makes a cluster.
_WORKER = """
import json, sys
import numpy as np
from taskmix.model import training
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Training, from_json

out, settings, files, checkpoints = sys.argv[1:]
result = training.train(
  PNET, from_json(Training, settings), files=json.loads(files), checkpoint_dir=checkpoints
)
np.savez(out, *result.model.get_weights())
print(result.compute)
"""


def _free_ports(count: int) -> list[int]:
  with contextlib.ExitStack() as stack:
    sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
    return [each.getsockname()[1] for each in sockets]


def test_two_workers_train_to_the_weights_of_one(files, unbroken, tmp_path):
  hosts = [f"127.0.0.1:{port}" for port in _free_ports(2)]
  workers = []
  for index, role in enumerate(("chief", "worker")):
    config = {"cluster": {"chief": hosts[:1], "worker": hosts[1:]}, "task": {"type": role, "index": 0}}
    arguments = (
      str(tmp_path / f"{index}.npz"),
      to_json(SETTINGS),
      json.dumps(files),
      str(tmp_path / "shared"),
    )
    workers.append(
      subprocess.Popen(
        [sys.executable, "-c", _WORKER, *arguments],
        env={**os.environ, "TF_CONFIG": json.dumps(config)},
        stdout=subprocess.PIPE,
        text=True,
      )
    )
  for index, worker in enumerate(workers):
    told, _ = worker.communicate(timeout=300)
    assert worker.returncode == 0
    assert f"worker {index} of 2, 2 devices in all" in told
    saved = np.load(tmp_path / f"{index}.npz")
    for name, weight in zip(saved.files, unbroken.model.get_weights(), strict=True):
      np.testing.assert_allclose(saved[name], weight, atol=1e-3)
  assert list((tmp_path / "shared").glob("step-30.index"))


@pytest.mark.parametrize(
  ("text", "worker"),
  [
    ("", (0, 1)),
    ('{"cluster": {}}', (0, 1)),
    ('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}', (1, 2)),
    ('{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}', (1, 2)),
  ],
)
def test_tf_config_gives_each_process_its_place(text, worker):
  found = devices._worker_of(text)
  assert (found.index, found.count) == worker


@pytest.mark.parametrize(
  "text",
  [
    "{",
    '{"cluster": {"worker": ["a:1"]}}',
    '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
  ],
)
def test_a_tf_config_that_cannot_be_understood_is_told(text):
  with pytest.raises(ValueError, match="TF_CONFIG cannot be understood"):
    devices._worker_of(text)


def test_a_batch_that_does_not_divide_over_the_devices_is_refused(files):
  with pytest.raises(ValueError, match="batch size 49 does not divide over 2 devices"):
    training.train(
      PNET, dataclasses.replace(SETTINGS, batch_size=49), files=files, on_devices=["CPU:0", "CPU:1"]
    )


def test_a_batch_that_cannot_hold_the_ratio_is_refused(files):
  with pytest.raises(ValueError, match="use 56 or 63"):
    training.train(PNET, dataclasses.replace(SETTINGS, batch_size=60), files=files)


def test_weights_to_start_from_are_loaded(files, unbroken, tmp_path):
  unbroken.model.save_weights(tmp_path / "start.weights.h5")
  settings = dataclasses.replace(
    SETTINGS, steps=1, learning_rate=1e-9, init_weights=str(tmp_path / "start.weights.h5")
  )
  _assert_same_weights(training.train(PNET, settings, files=files).model, unbroken.model)


def test_half_precision_trains(files):
  settings = dataclasses.replace(SETTINGS, precision="mixed_float16", steps=12)
  result = training.train(PNET, settings, files=files)
  assert result.records[-1].losses["total"] < result.records[0].losses["total"]


def test_a_diverged_training_stops(files):
  with pytest.raises(training.TrainingError, match=r"net 'pnet', step \d+: the losses are"):
    training.train(PNET, dataclasses.replace(SETTINGS, learning_rate=1e30, warmup_steps=0), files=files)


def _fn_args(pnet_data, folder, settings=SETTINGS):
  patterns = pnet_data.transformed
  return types.SimpleNamespace(
    train_files=[pattern for split, pattern in patterns.items() if split.startswith("train")],
    eval_files=[pattern for split, pattern in patterns.items() if split.startswith("eval")],
    transform_output=pnet_data.transform_output,
    serving_model_dir=str(folder / "model" / "7" / "Format-Serving"),
    model_run_dir=str(folder / "model_run" / "7"),
    custom_config={"net": PNET.to_json(), "training": to_json(settings)},
  )


def test_run_fn_leaves_model_history_audit_and_logs(pnet_data, tmp_path, unbroken):
  args = _fn_args(pnet_data, tmp_path)
  training.run_fn(args)
  run = tmp_path / "model_run" / "7"
  described = json.loads((run / "history.json").read_text())
  assert described["net"] == "pnet"
  assert described["steps"] == 30
  assert json.loads((run / "audit.json").read_text())["runs"][0]["kinds"]["neg"]["min"] == 24
  scalars = {tag for path in run.glob("tensorboard/*/*") for tag in _scalars(path)}
  assert {"loss/face", "loss/box", "loss/landmark", "loss/total", "learning_rate"} <= scalars
  assert "metric/face_accuracy" in scalars
  signatures = tf.saved_model.load(args.serving_model_dir).signatures
  assert set(signatures) == {"serving_default", "serve_examples", "transform_features"}
  from taskmix.model import serving

  _assert_same_weights(serving.load(args.serving_model_dir).model, unbroken.model)
  # A finished training needs its checkpoints no more.
  assert list((tmp_path / "checkpoints").iterdir()) == []


def _scalars(path):
  from tensorflow.core.util import event_pb2

  for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
    for value in event_pb2.Event.FromString(record).summary.value:
      yield value.tag


def test_a_re_run_finds_the_checkpoints_of_the_execution_that_died(pnet_data, tmp_path, monkeypatch):
  def die(*_, **__):
    raise KeyboardInterrupt

  with monkeypatch.context() as patch:
    patch.setattr(training.serving, "export", die)
    with pytest.raises(KeyboardInterrupt):
      training.run_fn(_fn_args(pnet_data, tmp_path))
  again = _fn_args(pnet_data, tmp_path)
  again.model_run_dir = again.model_run_dir.replace("/7", "/8")
  training.run_fn(again)
  assert json.loads((tmp_path / "model_run" / "8" / "history.json").read_text())["resumed_at"] == 30


def test_other_settings_data_or_code_never_go_on_from_these_checkpoints(
  files, write_examples, draw, tmp_path
):
  name = training.fingerprint(PNET, SETTINGS, files=files)
  assert name == training.fingerprint(PNET, SETTINGS, files=dict(reversed(list(files.items()))))
  assert name != training.fingerprint(PNET, dataclasses.replace(SETTINGS, seed=6), files=files)
  assert name != training.fingerprint(PNET, SETTINGS, files=files, code="new")
  assert name != training.fingerprint(PNET, SETTINGS, files={**files, "neg": files["pos"]})


def test_a_split_that_is_not_given_is_named():
  with pytest.raises(
    ValueError, match="trains on the splits train-part, train-landmark, which are not among"
  ):
    training.split_files(["/x/Split-train-neg/*", "/x/Split-train-pos/*"], PNET, phase="train")


def _assert_same_weights(one: keras.Model, other: keras.Model, atol: float = 1e-5) -> None:
  for mine, theirs in zip(one.get_weights(), other.get_weights(), strict=True):
    np.testing.assert_allclose(mine, theirs, atol=atol, rtol=1e-4)


def test_the_newest_whole_checkpoint_is_taken(tmp_path):
  value = tf.Variable(0.0)
  checkpoints = Checkpoints(str(tmp_path), [value], keep=3)
  for step in (10, 20, 30):
    value.assign(step)
    checkpoints.save(step, notes=f"after {step}")
  (data,) = tmp_path.glob("step-30.data*")
  data.write_bytes(data.read_bytes()[:-2])
  os.remove(tmp_path / "checkpoint")
  assert Checkpoints(str(tmp_path), [value], keep=3).restore() == (20, "after 20")
  assert value.numpy() == 20.0


def test_no_checkpoint_leaves_the_variables_alone(tmp_path):
  value = tf.Variable(4.0)
  assert Checkpoints(str(tmp_path / "none"), [value], keep=1).restore() is None
  assert value.numpy() == 4.0


def test_old_checkpoints_go(tmp_path):
  checkpoints = Checkpoints(str(tmp_path), [tf.Variable(0.0)], keep=2)
  for step in (1, 2, 3):
    checkpoints.save(step)
  assert sorted(path.stem for path in tmp_path.glob("*.index")) == ["step-2", "step-3"]
  checkpoints.delete()
  assert not tmp_path.exists()


def test_labels_that_move_are_known_to_the_augmentation():
  settings = dataclasses.replace(SETTINGS, augment=("mirror", "brightness"))
  affine = training.Affine((0.5,) * 4, (2.0,) * 4)
  augment = training.augmentation(PNET, settings, {"box": affine})
  assert (augment.boxes, augment.points) == ("box_offsets", "landmarks")
  assert augment.scaling == {"box_offsets": (affine.mean, affine.std)}
  assert training.augmentation(PNET, SETTINGS, {}) is None


def test_an_augmented_training_learns(files, eval_files, pnet_data):
  import tensorflow_transform as tft

  from taskmix.transform import standardization

  layer = tft.TFTransformOutput(pnet_data.transform_output).transform_features_layer()
  settings = dataclasses.replace(SETTINGS, augment=("mirror", "shift"), steps=100, checkpoint_every=100)
  scaling = standardization(layer, PNET)
  result = training.train(PNET, settings, files=files, eval_files=eval_files, scaling=scaling)
  assert result.records[-1].metrics["face_accuracy"] > 0.8


@pytest.mark.parametrize("engine", ["stream", "device"])
def test_other_engines_train_too(files, engine):
  settings = dataclasses.replace(SETTINGS, engine=engine, steps=12)
  result = training.train(PNET, settings, files=files)
  assert result.engine.startswith(engine)
  assert result.steps == 12


def test_the_device_engine_trains_to_the_weights_of_the_memory_engine(files, unbroken):
  result = training.train(PNET, dataclasses.replace(SETTINGS, engine="device"), files=files)
  _assert_same_weights(result.model, unbroken.model)
