"""The whole DAG on a handful of photos, as a user runs it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytestmark = pytest.mark.pipeline

PHOTO = "skimage_astronaut.jpg"

STAGE = (
  "StatisticsGen",
  "ImportSchemaGen",
  "ExampleValidator",
  "ExampleGate",
  "Transform",
  "Trainer",
  "Evaluator",
)


def _command(config: str, data: pathlib.Path, runs: pathlib.Path) -> list[str]:
  taskmix = str(pathlib.Path(sys.executable).with_name("taskmix"))
  return [taskmix, "run", "--config", config, "--data", str(data), "--runs", str(runs)]


def _run(*args) -> subprocess.CompletedProcess:
  return subprocess.run(_command(*args), capture_output=True, text=True, timeout=900, check=False)


def _cached(output: str) -> set[str]:
  return {line.split()[0] for line in output.splitlines() if "from cache" in line}


def _kill_in_training(command: list[str], runs: pathlib.Path) -> None:
  """Starts the run and kills it with -9 as soon as a checkpoint is there."""
  process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
  deadline = time.monotonic() + 600
  # Not rglob: it trips over folders that vanish while a checkpoint is written.
  while not list((runs / "handful" / "checkpoints").glob("*/*/step-*.index")):
    assert process.poll() is None, "the run ended before a checkpoint was written"
    assert time.monotonic() < deadline
    time.sleep(0.2)
  os.killpg(process.pid, signal.SIGKILL)
  process.wait()


def test_a_killed_run_goes_on_from_what_was_done_then_comes_from_the_cache(handful, write_config, tmp_path):
  config = write_config(steps=400)
  runs = tmp_path / "runs"
  _kill_in_training(_command(config, handful, runs), runs)

  second = _run(config, handful, runs)
  assert second.returncode == 0, second.stdout + second.stderr
  assert _cached(second.stdout) >= {"CropExampleGen-pnet", "StatisticsGen-pnet", "Transform-pnet"}
  assert "Trainer-pnet" not in _cached(second.stdout)
  assert "Blessed" in second.stdout

  third = _run(config, handful, runs)
  assert third.returncode == 0
  wanted = {f"{component}-pnet" for component in ("CropExampleGen", *STAGE)}
  assert _cached(third.stdout) >= wanted | {"ServingCheck", "ModelPusher"}

  folder = runs / "handful" / "serving" / "pnet"
  (version,) = [path for path in folder.iterdir() if path.name.isdigit()]
  assert str(version) in third.stdout
  _check_pushed(version, tmp_path)


def _check_pushed(version: pathlib.Path, tmp_path: pathlib.Path) -> None:
  """saved_model_cli lists the signature; a process without taskmix gets answers."""
  cli = pathlib.Path(sys.executable).with_name("saved_model_cli")
  listed = subprocess.run(
    [str(cli), "show", "--dir", str(version), "--all"],
    capture_output=True,
    text=True,
    check=True,
    timeout=120,
  )
  assert "serving_default" in listed.stdout
  image = np.random.default_rng(0).integers(0, 256, (3, 12, 12, 3), np.uint8)
  np.save(tmp_path / "image.npy", image)
  # -I leaves the current folder and PYTHON* out; the finder leaves taskmix out.
  code = f"""
import sys, importlib.abc, json
class NoTaskmix(importlib.abc.MetaPathFinder):
  def find_spec(self, name, path, target=None):
    if name.split('.')[0] in ('taskmix', 'components', 'pipeline'):
      raise ImportError(name)
sys.meta_path.insert(0, NoTaskmix())
import numpy as np, tensorflow as tf
model = tf.saved_model.load({str(version)!r})
out = model.signatures['serving_default'](image=tf.constant(np.load({str(tmp_path / "image.npy")!r})))
print(json.dumps({{name: value.numpy().tolist() for name, value in out.items()}}))
"""
  done = subprocess.run(
    [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path
  )
  answer = json.loads(done.stdout.splitlines()[-1])
  assert np.allclose(np.sum(answer["face"], axis=-1), 1, atol=1e-5)
  assert np.shape(answer["box"]) == (3, 4)
  assert np.shape(answer["landmark"]) == (3, 10)


def test_a_model_below_its_bounds_is_not_pushed_and_the_exit_code_says_so(handful, write_config, tmp_path):
  done = _run(write_config(steps=5, min=1e6), handful, tmp_path / "runs")
  assert done.returncode == 1
  assert "Not blessed" in done.stdout
  assert "must be at least 1e+06" in done.stdout
  assert not list((tmp_path / "runs" / "handful" / "serving").rglob("saved_model.pb"))


def test_a_second_run_in_the_same_folder_says_that_one_is_there(handful, write_config, tmp_path):
  import fcntl

  folder = tmp_path / "runs" / "handful"
  folder.mkdir(parents=True)
  with (folder / ".lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    done = _run(write_config(steps=5), handful, tmp_path / "runs")
  assert done.returncode == 2
  assert "another run is using" in done.stderr


@pytest.mark.parametrize(
  ("spoil", "message"),
  [
    (lambda folder: _cut_off(folder / "bbx_gt.txt"), r"bbx_gt.txt:"),
    (lambda folder: (folder / "landmarks.csv").write_text("image,x\na,1\n"), "landmarks.csv:2"),
    (lambda folder: (folder / "photos" / PHOTO).write_bytes(b"no picture"), PHOTO),
  ],
  ids=["a list that is cut off", "wrong columns", "a photo that is none, of eight"],
)
def test_bad_input_ends_the_run_with_its_place(spoil, message, handful, write_config, tmp_path):
  folder = tmp_path / "data"
  shutil.copytree(handful, folder)
  spoil(folder)
  done = _run(write_config(steps=5), folder, tmp_path / "runs")
  assert done.returncode in (1, 2)
  assert message in done.stderr
  assert "Traceback" not in done.stderr


def _cut_off(path: pathlib.Path) -> None:
  text = path.read_text()
  path.write_text(text[: text.rindex(" 0 0 0")])
