"""One tiny pipeline that is killed, interrupted, robbed and lied to, step by step.

The tests run in their order, on one run folder: each goes on from what the one
before it left, as a user would.
"""

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys

import markupsafe
import numpy as np
import pytest

from taskmix.gates import Limit

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]

COMPONENTS = (
  "CropExampleGen-pnet",
  "ImportSchemaGen-pnet",
  "StatisticsGen-pnet",
  "ExampleValidator-pnet",
  "ExampleGate-pnet",
  "Transform-pnet",
  "Trainer-pnet",
  "ServingCheck",
  "Evaluator-pnet",
  "ModelPusher",
)

# So that an edit of the code while the tests run does not empty the cache.
SAME_CODE = "from pipeline import dag\ndag.code_fingerprint = lambda net: 'the same'"

GOOD = {"steps": 20, "checkpoint_every": 10, "steps_per_execution": 5}
BETTER = {**GOOD, "steps": 300}
WORSE = {**GOOD, "steps": 1, "learning_rate": 1e-7}


class World:
  """The data, the run folder, and the command on them."""

  def __init__(self, folder: pathlib.Path, taskmix, write_config):
    self.folder, self.data, self.runs = folder, folder / "data", folder / "runs"
    self.run_folder = self.runs / "drawn"
    self.serving = self.run_folder / "serving" / "pnet"
    self._taskmix, self._write_config = taskmix, write_config

  def run(self, *, training=GOOD, evaluation=(), gate=None, serving=None, **request):
    config = self._write_config(
      self.folder / "drawn.py",
      training=training,
      bound={"min": 0.1, "max_worsening": 0.05},
      evaluation={"warn": evaluation},
      gate=gate or {},
      serving=serving or {},
    )
    arguments = ("run", "--config", config, "--data", self.data, "--runs", self.runs)
    ended = self._taskmix(*arguments, set_up=SAME_CODE, **request)
    assert "Traceback" not in ended.stdout + ended.stderr, ended
    self.require_whole_versions()
    return ended

  def require_whole_versions(self) -> list[pathlib.Path]:
    """The versions that a server would see, each whole."""
    from taskmix.serving import versions

    if not self.serving.is_dir():
      return []
    found = versions.list_versions(self.serving)
    for version in found:
      assert version.record and versions.digest(version.path) == version.record.digest
    return [pathlib.Path(version.path) for version in found]

  def latest(self, pattern: str) -> pathlib.Path:
    """The newest artifact's first file of that pattern; several executions have written one."""
    found = sorted(self.run_folder.glob(f"artifacts/{pattern}"))
    return max(found, key=lambda path: int(path.relative_to(self.run_folder).parts[3]))


@pytest.fixture(scope="module")
def world(tmp_path_factory, taskmix, draw_photos, write_config) -> World:
  folder = tmp_path_factory.mktemp("world")
  draw_photos(folder / "data")
  return World(folder, taskmix, write_config)


def test_every_component_killed_in_the_middle_and_the_run_repeated(world):
  for number, component in enumerate(COMPONENTS):
    killed = world.run(kill=component, watched=[str(world.serving)])
    assert killed.code == -9, killed
    # Nothing that was done is done again, and what was killed last time ended well.
    before = set(COMPONENTS[: number - 1]) if number else set()
    assert before <= set(killed.cached), killed
    assert set(killed.ran) & set(COMPONENTS) <= {COMPONENTS[number - 1]}, killed
    assert world.require_whole_versions() == []
  whole = world.run()
  assert whole.code == 0, whole
  assert set(whole.ran) & set(COMPONENTS) == {"ModelPusher"}, whole
  (version,) = world.require_whole_versions()
  assert f"Pushed:  {version}" in whole.stdout
  # Nothing aside is left of the push that was killed.
  assert [path.name for path in world.serving.iterdir() if path.name.startswith(".taskmix-")] == []


def test_what_was_pushed_needs_no_taskmix_and_the_next_run_comes_from_the_cache(world, tmp_path):
  again = world.run()
  assert again.code == 0, again
  assert set(again.cached) >= set(COMPONENTS)
  (version,) = world.require_whole_versions()
  assert str(version) in again.stdout
  html = (world.run_folder / "report.html").read_text()
  assert "Pushed</h2>" in html and "Trainer-pnet: from cache" in html and "cannot be shown" not in html
  assert "# Model card: drawn" in (version / "assets.extra" / "model_card.md").read_text()
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


def test_a_run_that_is_interrupted_in_training_stops_cleanly_and_goes_on(world):
  checkpoints = world.run_folder / "checkpoints" / "*" / "*" / "step-*.index"
  interrupted = world.run(training=BETTER, interrupt_when=str(checkpoints))
  assert interrupted.code == 130, interrupted
  assert interrupted.stderr.strip() == "Interrupted. The same command goes on from what was done."
  assert "Trainer-pnet" not in interrupted.ran
  # What follows is the second of three models: better than the last blessed one, so it is pushed.
  better = world.run(training=BETTER)
  assert better.code == 0, better
  assert {"Trainer-pnet", "Evaluator-pnet", "ModelPusher"} <= set(better.ran)
  history = world.latest("Trainer-pnet/model_run/*/history.json")
  assert json.loads(history.read_text())["resumed_at"] > 0
  assert len(world.require_whole_versions()) == 2


def _accuracies(world: World) -> list[float]:
  """Of the pushed versions, oldest first."""
  from taskmix.serving import versions

  found = versions.list_versions(world.serving)[::-1]
  return [version.record.metrics["face"]["accuracy"] for version in found if version.record]


def test_after_good_and_better_a_worse_model_is_refused_and_the_last_lines_say_why(world):
  good, better = _accuracies(world)
  assert better > good + 0.05
  worse = world.run(training=WORSE)
  assert worse.code == 1, worse
  *_, reason, place = worse.stdout.splitlines()
  html = (world.run_folder / "report.html").read_text()
  assert "Not blessed, so not pushed</h2>" in html and reason.strip() in markupsafe.Markup(html).unescape()
  number = r"(\d\.\d{4})"
  told = re.fullmatch(
    rf"  Evaluator-pnet: face accuracy is {number}, the last blessed model's {number}: "
    rf"worse by {number}, may be by 0.05 at most",
    reason,
  )
  assert told, worse
  # The baseline is the better one, not the first.
  assert float(told[2]) == pytest.approx(better, abs=1e-4)
  assert float(told[3]) == pytest.approx(better - float(told[1]), abs=2e-4)
  assert place.startswith("Look at ") and os.path.isdir(place.removeprefix("Look at "))
  assert len(world.require_whole_versions()) == 2


def test_a_policy_turns_that_gate_into_a_warning_and_the_end_of_the_run_says_so(world):
  warned = world.run(training=WORSE, evaluation=("worsening",))
  assert warned.code == 0, warned
  assert "Warning: Evaluator-pnet: face accuracy is" in warned.stdout
  assert "Blessed: a policy let the warnings above pass" in warned.stdout
  assert len(world.require_whole_versions()) == 3


def test_the_data_gate_and_the_serving_check_end_a_run_with_number_bound_and_place(world):
  skewed = world.run(gate={"skew": (Limit("face_size", 1e-6),)})
  assert skewed.code == 1, skewed
  first, finding, *_, place, report, log = skewed.stderr.strip().splitlines()
  assert first.startswith("taskmix: ExampleGate stopped the run: ")
  assert re.search(r"split eval-\w+, feature face_size: SKEW: .* is 0\.\d+ .*threshold 1e-06", finding)
  assert os.path.isfile(os.path.join(place.partition("The full report: ")[2], "report.json"))
  assert log.startswith("Log: ")
  html = pathlib.Path(report.removeprefix("Report: ")).read_text()
  assert "Stopped by ExampleGate-pnet</h2>" in html and "SKEW" in html

  hungry = world.run(training=WORSE, evaluation=("worsening",), serving={"memory_mib": 10})
  assert hungry.code == 1, hungry
  first, finding, place, _, log = hungry.stderr.strip().splitlines()
  assert first.startswith("taskmix: ServingCheck stopped the run: ")
  assert re.fullmatch(r"  memory_mib \(loopback\): \S+ MiB, and the budget is 10 MiB", finding)
  assert os.path.isdir(place.partition("The model: ")[2])


def test_the_serving_check_too_can_warn(world):
  lenient = {"memory_mib": 10, "warn": ("unasked", "memory_mib")}
  warned = world.run(training=WORSE, evaluation=("worsening",), serving=lenient)
  assert warned.code == 0, warned
  assert "Warning: ServingCheck: memory_mib (loopback): " in warned.stdout
  assert "Warning: Evaluator-pnet: face accuracy is" in warned.stdout


@pytest.mark.parametrize("damage", ["cut off", "flipped", "empty"])
def test_a_shard_damaged_between_components_stops_the_run_and_is_named(world, damage):
  pushed = world.require_whole_versions()
  # The Trainer reads what Transform wrote; its settings are new, so it comes from no cache.
  shard = world.latest("Transform-pnet/transformed_examples/*/Split-train-neg/*")
  whole = shard.read_bytes()
  broken = {
    "cut off": whole[: len(whole) // 2],
    "flipped": bytes([*whole[:200], whole[200] ^ 0x40, *whole[201:]]),
    "empty": b"",
  }
  shard.write_bytes(broken[damage])
  try:
    stopped = world.run(training={**GOOD, "steps": 21, "seed": len(damage)})
  finally:
    shard.write_bytes(whole)
  assert stopped.code == 1, stopped
  assert "Trainer-pnet" in stopped.stderr and shard.name in stopped.stderr, stopped
  assert world.require_whole_versions() == pushed


@pytest.mark.parametrize("damage", ["cut off between two records", "flipped"])
def test_a_damaged_eval_shard_stops_the_evaluation_and_is_told(world, damage):
  shard = world.latest("CropExampleGen-pnet/examples/*/Split-eval-neg/*")
  whole = shard.read_bytes()
  # Length, checksum, data, checksum; every record of this split is as long as the first, or nearly so.
  record = 12 + int.from_bytes(whole[:8], "little") + 4
  flipped = bytes([*whole[:200], whole[200] ^ 0x40, *whole[201:]])
  shard.write_bytes(flipped if damage == "flipped" else whole[:record])
  try:
    stopped = world.run(training=WORSE, evaluation=("bounds",))
  finally:
    shard.write_bytes(whole)
  assert stopped.code == 1, stopped
  told = shard.name if damage != "flipped" else "Evaluator-pnet failed: "
  assert told in stopped.stderr, stopped


def test_a_locked_metadata_file_is_told_and_nothing_is_lost(world):
  database = sqlite3.connect(world.run_folder / "metadata.sqlite", isolation_level=None)
  try:
    database.execute("BEGIN EXCLUSIVE")
    locked = world.run()
  finally:
    database.close()
  assert locked.code == 2
  assert "is locked by another program" in locked.stderr


def test_photos_that_change_under_a_cached_run_are_converted_anew_and_that_can_be_interrupted(world):
  pushed = world.require_whole_versions()
  photo = world.data / "00.jpg"
  photo.write_bytes(photo.read_bytes() + b"\0")
  partial = str(world.run_folder / "artifacts" / "CropExampleGen-pnet" / "examples" / "*.partial" / "*")
  interrupted = world.run(interrupt_when=partial)
  assert interrupted.code == 130, interrupted
  assert "CropExampleGen-pnet" not in interrupted.cached
  assert world.require_whole_versions() == pushed


@pytest.mark.parametrize("loss", ["gone", "garbage"])
def test_lost_metadata_start_the_cache_anew_and_keep_what_was_pushed(world, loss):
  pushed = world.require_whole_versions()
  metadata = world.run_folder / "metadata.sqlite"
  if loss == "gone":
    metadata.unlink()
  else:
    metadata.write_bytes(b"no database" * 500)
  killed = world.run(kill="StatisticsGen-pnet", kill_after=0.1)
  assert "CropExampleGen-pnet" in killed.ran, killed
  assert "they are kept as artifacts.lost-" in killed.stdout
  assert ("is broken; it is kept as metadata.sqlite.lost-" in killed.stdout) == (loss == "garbage")
  assert world.require_whole_versions() == pushed
  # The next lost folder is named by the second, too.
  for lost in world.run_folder.glob("*.lost-*"):
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
