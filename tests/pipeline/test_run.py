"""The whole DAG on a handful of photos, as a user runs it."""

import json
import pathlib
import shutil
import subprocess
import sys

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


def test_a_run_ends_with_a_pushed_model_and_comes_from_the_cache_the_next_time(
  handful, write_config, taskmix, tmp_path
):
  run = ("run", "--config", write_config(steps=20), "--data", handful, "--runs", tmp_path / "runs")
  first = taskmix(*run)
  assert first.code == 0, first
  components = [f"{component}-pnet" for component in ("CropExampleGen", *STAGE)] + [
    "ServingCheck",
    "ModelPusher",
  ]
  assert set(first.ran) >= set(components)
  assert "Blessed" in first.stdout

  second = taskmix(*run)
  assert second.code == 0, second
  assert set(second.cached) >= set(components)

  folder = tmp_path / "runs" / "handful" / "serving" / "pnet"
  (version,) = [path for path in folder.iterdir() if path.name.isdigit()]
  assert str(version) in second.stdout
  html = (tmp_path / "runs" / "handful" / "report.html").read_text()
  assert "Pushed</h2>" in html and "Trainer-pnet: from cache" in html and "cannot be shown" not in html
  assert "# Model card: handful" in (version / "assets.extra" / "model_card.md").read_text()
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


def test_a_second_run_in_the_same_folder_says_that_one_is_there(handful, write_config, taskmix, tmp_path):
  import fcntl

  folder = tmp_path / "runs" / "handful"
  folder.mkdir(parents=True)
  with (folder / ".lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    done = taskmix("run", "--config", write_config(steps=5), "--data", handful, "--runs", tmp_path / "runs")
  assert done.code == 2
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
def test_bad_input_ends_the_run_with_its_place(spoil, message, handful, write_config, taskmix, tmp_path):
  folder = tmp_path / "data"
  shutil.copytree(handful, folder)
  spoil(folder)
  done = taskmix("run", "--config", write_config(steps=5), "--data", folder, "--runs", tmp_path / "runs")
  assert done.code in (1, 2)
  assert message in done.stderr
  assert "Traceback" not in done.stderr


def _cut_off(path: pathlib.Path) -> None:
  text = path.read_text()
  path.write_text(text[: text.rindex(" 0 0 0")])
