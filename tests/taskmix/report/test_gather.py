"""Facts are gathered from what artifacts there are, and what is missing or broken is said."""

import dataclasses
import json
import pathlib
import shutil

import pytest

from taskmix.examples.convert import convert
from taskmix.nets.mtcnn import PNET
from taskmix.report import gather, page
from taskmix.report.material import Failure, Journal, NetPlaces, Places, Plan, StepRecord
from taskmix.spec import Conversion, CropRecipe, Phases, Source, Training

NET = dataclasses.replace(
  PNET,
  sources=(
    Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
    Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
  ),
  recipe=CropRecipe(tries_per_face=4, landmark_shifts=2, random_negatives=5),
  phases=Phases(eval_share=0.1, eval_images=("photos/skimage_astronaut.jpg",)),
)
HISTORY = {
  "steps": 20,
  "input_engine": "memory: few",
  "compute": "CPU",
  "resumed_at": 0,
  "records": [
    {
      "step": step,
      "phase": phase,
      "losses": {"face": 1 / step, "total": float("nan")},
      "metrics": {},
      "steps_per_s": 9.0,
    }
    for step in (10, 20)
    for phase in ("train", "eval")
  ],
}
KIND = {
  "wanted": 3,
  "min": 3,
  "max": 3,
  "size": 9,
  "epochs": 6.7,
  "coverage": 1.0,
  "duplicates": 0,
  "strangers": 0,
}


@pytest.fixture(scope="module")
def data(handful, tmp_path_factory) -> pathlib.Path:
  """Eight photos, of which one is none."""
  folder = tmp_path_factory.mktemp("data") / "photos"
  shutil.copytree(handful, folder)
  (folder / "photos" / "adminkit_avatar-2.jpg").write_bytes(b"no picture")
  return folder


@pytest.fixture(scope="module")
def examples(data, tmp_path_factory) -> str:
  folder = tmp_path_factory.mktemp("examples") / "out"
  convert(NET, data_root=str(data), output=str(folder), conversion=Conversion(shards=1, max_bad_fraction=1))
  return str(folder)


def _plan(data: pathlib.Path) -> Plan:
  stage = {"net": dataclasses.asdict(NET), "training": dataclasses.asdict(Training(batch_size=7, steps=20))}
  config = {"name": "tiny", "stages": [stage], "evaluation": {"warn": []}, "goal": ""}
  dag = (
    ("CropExampleGen-pnet", ()),
    ("Trainer-pnet", ("CropExampleGen-pnet",)),
    ("ModelPusher", ("Trainer-pnet",)),
  )
  return Plan("tiny", config, 1, str(data), dag)


def test_a_stopped_run_is_told_from_its_examples_and_its_journal(data, examples):
  journal = Journal(
    run="1",
    started="2026-11-21T10:45:49",
    steps=(StepRecord("CropExampleGen-pnet", "done", 4.5),),
    failure=Failure("Trainer-pnet", "Trainer-pnet failed: no memory"),
  )
  run = gather.gather(_plan(data), Places((NetPlaces(examples=examples),)), journal)
  assert run.notes == ()
  assert [(step.name, step.state) for step in run.steps] == [
    ("CropExampleGen-pnet", "done"),
    ("Trainer-pnet", "failed"),
    ("ModelPusher", "waiting"),
  ]
  assert (run.verdict.outcome, run.verdict.component) == ("failed", "Trainer-pnet")
  (net,) = run.nets
  kinds = {kind.name: kind for kind in net.kinds}
  assert kinds["pos"].labels == ("face", "box") and kinds["pos"].train > 0
  assert all(0 < len(kind.crops) <= 10 for kind in net.kinds)
  assert kinds["pos"].crops[0].source.startswith("data:image/jpeg;base64,")
  assert net.photos.counts["quarantined"] == sum(net.photos.quarantine.values()) > 0
  broken = net.photos.gallery[0]
  assert broken.source == "" and "adminkit_avatar-2.jpg" in broken.caption
  assert net.photos.listed["photos/skimage_astronaut.jpg"].startswith("eval ")
  assert "Failed in Trainer-pnet" in page.render(run)


def test_what_is_missing_or_broken_is_a_note_and_the_rest_is_shown(data, examples, tmp_path):
  (tmp_path / "history.json").write_text("{")
  places = NetPlaces(examples=examples, gate_report=str(tmp_path / "gone"), model_run=str(tmp_path))
  run = gather.gather(_plan(data), Places((places,)), Journal())
  assert len(run.notes) == 2
  assert run.notes[0].startswith("the gate's findings of pnet cannot be shown: FileNotFoundError")
  assert run.notes[1].startswith("the training of pnet cannot be shown: JSONDecodeError")
  assert run.nets[0].photos
  assert {step.state for step in run.steps} == {"unknown"}
  assert "What this page could not read" in page.render(run)


def test_curves_and_the_audit_come_from_the_trainers_files(data, tmp_path):
  (tmp_path / "history.json").write_text(json.dumps(HISTORY))
  audit = {"first_step": 0, "steps": 20, "kinds": {"neg": KIND}}
  (tmp_path / "audit.json").write_text(json.dumps({"runs": [audit]}))
  run = gather.gather(_plan(data), Places((NetPlaces(model_run=str(tmp_path)),)), Journal())
  assert run.notes == ()
  training = run.nets[0].training
  face, *_, total = training.curves
  assert [(curve.name, curve.x, curve.y) for curve in face.losses] == [
    ("train", (10.0, 20.0), (0.1, 0.05)),
    ("eval", (10.0, 20.0), (0.1, 0.05)),
  ]
  assert total.losses[0].y == (None, None)
  assert training.audits[0].kinds[0].wanted == 3
  run.to_json()


def test_a_long_curve_is_thinned_to_its_ends(data):
  from taskmix.report.gather_model import thinned

  assert thinned(list(range(1001)), 5) == [0, 250, 500, 750, 1000]
  assert thinned([1, 2], 5) == [1, 2]
