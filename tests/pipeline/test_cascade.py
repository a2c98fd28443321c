"""Three nets in one run, mining between them, as a user runs it: one pushed detector."""

import json
import pathlib

import cv2
import pytest

pytestmark = pytest.mark.pipeline

NETS = ("pnet", "rnet", "onet")


# On a quiet machine a third of this.
@pytest.mark.timeout(1200)
def test_a_cascade_ends_with_a_detector_its_picture_and_its_lineage(handful, write_config, taskmix, tmp_path):
  _check_stopped_by_pnet(taskmix, write_config(steps=20, nets=3, min=1e6), handful, tmp_path / "runs")
  run = ("run", "--config", write_config(steps=20, nets=3), "--data", handful, "--runs", tmp_path / "runs")
  first = taskmix(*run)
  assert first.code == 0, first
  # Other bounds judge the net that is there.
  assert {"Trainer-pnet", "ExampleGate-pnet", "Transform-pnet", "CropExampleGen-pnet"} <= set(first.cached)
  done = first.ran
  assert done.index("Evaluator-pnet") < done.index("ModelGate-pnet")
  assert done.index("ModelGate-pnet") < done.index("HardExampleGen-rnet") < done.index("Trainer-rnet")
  assert done.index("ModelGate-rnet") < done.index("HardExampleGen-onet") < done.index("Trainer-onet")
  assert done[-2:] == ["ModelPusher", "ReportGen"]

  folder = tmp_path / "runs" / "handful"
  assert f"Report:  {folder / 'report.html'}" in first.stdout
  html = (folder / "report.html").read_text()
  assert "Pushed</h2>" in html and "cannot be shown" not in html
  assert 'id="detector"' in html and len(html) < 5_000_000
  (version,) = [path for path in (folder / "serving" / "detector").iterdir() if path.name.isdigit()]
  assert str(version) in first.stdout
  picture = cv2.imread(str(folder / "pictures" / f"{version.name}.png"))
  assert picture is not None and picture.std() > 10
  _check_lineage(
    taskmix, version.parent, {path.relative_to(handful).as_posix() for path in handful.glob("*/*.jpg")}
  )
  _check_detects(taskmix, version.parent, handful)

  part = taskmix(*run, "--net", "rnet")
  assert part.code == 0, part
  assert "part of the run: nothing is pushed" in part.stdout
  assert part.cached[-1] == "ModelGate-rnet"
  assert [node for node in part.ran if "blessed" not in node] == ["ReportGen"]
  html = (folder / "report.html").read_text()
  assert "Blessed, and not pushed</h2>" in html and "Trainer-pnet: from cache" in html
  runs = sorted((folder / "artifacts" / "ReportGen" / "report").iterdir(), key=lambda each: int(each.name))
  # The first is the refused one's.
  compared = taskmix("report", "--compare", *runs[1:])
  assert compared.code == 0, compared
  assert "verdict  Pushed  Blessed, and not pushed" in compared.stdout


def _check_stopped_by_pnet(taskmix, config: str, data: pathlib.Path, runs: pathlib.Path) -> None:
  """A net that is not blessed stops what is built on it."""
  stopped = taskmix("run", "--config", config, "--data", data, "--runs", runs)
  assert stopped.code == 1, stopped
  assert "Evaluator-pnet did not bless the net pnet" in stopped.stderr
  assert "must be at least 1e+06" in stopped.stderr
  assert "HardExampleGen-rnet" not in stopped.stdout
  report = runs / "handful" / "report.html"
  assert f"Report: {report}" in stopped.stderr
  html = report.read_text()
  assert "Stopped by ModelGate-pnet</h2>" in html and "must be at least 1e+06" in html
  assert not (runs / "handful" / "serving").exists()


def _check_lineage(taskmix, model: pathlib.Path, wanted: set[str]) -> None:
  told = taskmix("models", "lineage", model)
  assert told.code == 0, told
  for net in NETS:
    assert f"Trainer-{net}" in told.stdout
    assert f"{'Crop' if net == 'pnet' else 'Hard'}ExampleGen-{net}" in told.stdout
  photos = [json.loads(line) for line in taskmix("models", "lineage", model, "--photos").stdout.splitlines()]
  assert {photo["image_id"] for photo in photos} == wanted
  assert len({photo["content"] for photo in photos}) == len(wanted)


def _check_detects(taskmix, model: pathlib.Path, handful: pathlib.Path) -> None:
  told = taskmix("detect", model, handful / "photos")
  assert told.code == 0, told
  answers = [json.loads(line) for line in told.stdout.splitlines()]
  assert len(answers) == len(list((handful / "photos").iterdir()))
  assert all("faces" in answer for answer in answers)
