"""What the doctor finds of photos and a config: counts a kind, and how long the ratio holds."""

import dataclasses
import json
import shutil

import pytest
from typer.testing import CliRunner

from pipeline import cli
from pipeline.config import load_config
from pipeline.doctor import data as photos
from pipeline.doctor.data import Estimate, ratio
from taskmix import sources
from taskmix.examples.convert import convert


@pytest.fixture(scope="module")
def config():
  demo = load_config("demo", ["train.batch_size=56", "train.steps=10", "net.phases.eval_images="])
  return dataclasses.replace(demo, stages=demo.stages[:1])


def test_counts_are_those_of_a_conversion_where_all_photos_are_cut(config, handful, tmp_path):
  net = dataclasses.replace(config.nets[0], phases=dataclasses.replace(config.nets[0].phases, eval_share=0.0))
  listed = {source: list(sources.read(source, str(handful))) for source in net.sources}
  counts, bad = photos.estimates(net, config.conversion, listed)
  manifest = convert(net, data_root=str(handful), output=str(tmp_path / "out"), conversion=config.conversion)
  assert not bad
  made = {kind: manifest.counts[f"train-{kind}"] + manifest.counts[f"eval-{kind}"] for kind in counts}
  assert {kind: round(each["train"].examples) for kind, each in counts.items()} == made


def test_a_sound_folder_has_no_error(config, handful):
  checks = list(photos.checks(config, handful))
  assert [check for check in checks if check.state == "error"] == []
  assert {"source boxes", "schema of pnet", "net pnet, landmark"} <= {check.name for check in checks}


def test_photos_that_are_not_there_are_told(config, handful, tmp_path):
  folder = tmp_path / "moved"
  folder.mkdir()
  for name in ("bbx_gt.txt", "landmarks.csv"):
    shutil.copy(handful / name, folder)
  (boxes,) = [check for check in photos.checks(config, folder) if check.name == "source boxes"]
  assert boxes.state == "error"
  assert "8 of 8 looked for are not there" in boxes.found


def test_a_malformed_list_is_told_with_its_line(config, handful, tmp_path):
  folder = tmp_path / "broken"
  shutil.copytree(handful, folder)
  (folder / "landmarks.csv").write_text("a.jpg,1,2,3\n")
  found = {check.name: check for check in photos.checks(config, folder)}
  assert found["source points"].state == "error"
  assert "landmarks.csv:1" in found["source points"].found


def _counts(train, evaluates):
  return {"train": Estimate(train, True), "eval": Estimate(evaluates, True)}


def test_how_often_each_is_seen():
  (stage, *_) = load_config("demo", ["train.steps=100"]).stages
  check = ratio(stage, "pos", 64, _counts(3200, 10))
  assert check.state == "ok"
  assert "each seen 2.0 times in 100 steps" in check.found


@pytest.mark.parametrize(
  ("counts", "when_short", "state", "told"),
  [
    ((0, 0), "repeat", "error", "the ratio cannot be held"),
    ((64, 0), "repeat", "warning", "none evaluates"),
    ((16, 9), "repeat", "warning", "learnt by heart?"),
    ((640, 9), "stop", "warning", "it ends at step 10"),
    ((640, 9), "error", "error", "it ends at step 10"),
  ],
)
def test_what_a_kind_lacks(counts, when_short, state, told):
  (stage, *_) = load_config(
    "demo", ["train.steps=100", f"net.mixture.kinds.pos.when_short={when_short}"]
  ).stages
  check = ratio(stage, "pos", 64, _counts(*counts))
  assert check.state == state
  assert told in str(check)


def test_the_doctor_as_json_and_its_exit_code(config, handful, tmp_path):
  command = ["doctor", "--quick", "--json", "--runs", str(tmp_path), "--data"]
  fine = CliRunner().invoke(cli.app, [*command, str(handful)])
  read = json.loads(fine.stdout)
  assert fine.exit_code == (1 if read["error"] else 0)
  assert {"name", "state", "found", "remedy"} == set(read["checks"][0])
  nowhere = CliRunner().invoke(cli.app, [*command, str(tmp_path / "nowhere")])
  assert nowhere.exit_code == cli.REFUSED
  (told,) = [check for check in json.loads(nowhere.stdout)["checks"] if check["name"] == "data folder"]
  assert told["state"] == "error"
