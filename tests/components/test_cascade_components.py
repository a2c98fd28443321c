"""What stands between a cascade's nets, as TFX runs it: gate, hard examples, assembly."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
from tfx.types import standard_artifacts
from tfx.types.channel_utils import as_channel

from components.artifacts import GateReport
from components.cascade_assembler.component import CascadeAssembler
from components.cascade_assembler.executor import Executor as Assembler
from components.hard_example_gen.component import HardExampleGen
from components.hard_example_gen.executor import Executor as HardExamples
from components.model_gate.executor import refusal
from taskmix.examples import codec
from taskmix.examples.convert import convert
from taskmix.examples.manifest import read_manifest
from taskmix.faces.mining import Miner, Mining
from taskmix.model import serving
from taskmix.model.build import build
from taskmix.nets.mtcnn import MTCNN, PNET, RNET
from taskmix.spec import Conversion, CropRecipe, Phases, Source

PHOTO = "photos/skimage_astronaut.jpg"
# Untrained nets give about a half to everything.
MINING = Mining((0.4, 0.4, 0.4), min_face=60.0)
NET = dataclasses.replace(
  RNET,
  sources=(
    Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
    Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
  ),
  phases=Phases(eval_share=0.0),
  recipe=CropRecipe(random_negatives=0, near_negatives=0, mined_negatives=30),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[standard_artifacts.Model]:
  """A Model artifact of each net, untrained."""
  artifacts = []
  for net in MTCNN.nets:
    model = standard_artifacts.Model()
    model.uri = str(tmp_path_factory.mktemp(net.name))
    serving.export(f"{model.uri}/Format-Serving", net, model=build(net))
    artifacts.append(model)
  return artifacts


@pytest.fixture
def data(demo, tmp_path) -> pathlib.Path:
  """One photo, linked, with its box and points."""
  folder = tmp_path / "data"
  (folder / "photos").mkdir(parents=True)
  (folder / PHOTO).symlink_to(demo / PHOTO)
  lines = (demo / "bbx_gt.txt").read_text().splitlines(keepends=True)
  at = lines.index(PHOTO + "\n")
  (folder / "bbx_gt.txt").write_text("".join(lines[at : at + 2 + int(lines[at + 1])]))
  header, *rows = (demo / "landmarks.csv").read_text().splitlines(keepends=True)
  (folder / "landmarks.csv").write_text(header + "".join(row for row in rows if row.startswith(PHOTO)))
  return folder


def _hard_examples(data: pathlib.Path, models, folder: pathlib.Path) -> standard_artifacts.Examples:
  component = HardExampleGen(
    [as_channel([model]) for model in models],
    net=NET,
    conversion=Conversion(shards=1),
    mining=MINING,
    data_root=str(data),
  )
  examples = standard_artifacts.Examples()
  examples.uri = str(folder)
  inputs = {f"model_{place + 1}": [model] for place, model in enumerate(models)}
  HardExamples().Do(inputs, {"examples": [examples]}, dict(component.exec_properties))
  return examples


def test_the_negatives_of_the_second_net_are_what_the_first_takes_for_faces(models, data, tmp_path):
  import tensorflow as tf
  from PIL import Image

  examples = _hard_examples(data, models[:1], tmp_path / "examples")
  counts = read_manifest(examples.uri).counts
  assert 0 < counts["train-neg"] <= 30
  assert min(counts[f"train-{kind}"] for kind in ("pos", "part", "landmark")) > 0
  files = sorted(map(str, (tmp_path / "examples" / "Split-train-neg").iterdir()))
  found = [
    codec.decode(NET.columns, bytes(record)) for record in tf.data.TFRecordDataset(files).as_numpy_iterator()
  ]
  with Image.open(data / PHOTO) as photo:
    squares = Miner((f"{models[0].uri}/Format-Serving",), MINING)(np.asarray(photo.convert("RGB")))
  for example in found:
    assert np.abs(squares - example["crop"]).max(axis=1).min() < 1.0
    assert example["iou"] < 0.3


def test_one_or_two_nets_mine_and_not_three(models, data):
  with pytest.raises(ValueError, match="one to 2 models, not 3"):
    HardExampleGen(
      [as_channel([model]) for model in models],
      net=NET,
      conversion=Conversion(),
      mining=MINING,
      data_root=str(data),
    )


def test_the_assembly_is_a_model_with_the_detector_and_every_net(models, tmp_path):
  import tensorflow as tf

  CascadeAssembler([as_channel([model]) for model in models])
  detector = standard_artifacts.Model()
  detector.uri = str(tmp_path / "detector")
  inputs = {f"model_{place + 1}": [model] for place, model in enumerate(models)}
  Assembler().Do(inputs, {"model": [detector]}, {"code": "", "goal": ""})
  signatures = tf.saved_model.load(f"{detector.uri}/Format-Serving").signatures
  assert {"serving_default", "detect_image", "pnet", "rnet", "onet"} <= set(signatures)


def test_a_goal_moves_the_thresholds_of_the_assembly(models, data, tmp_path):
  from taskmix.faces.cascade import Options, read_options

  held = dataclasses.replace(NET, phases=Phases(eval_images=(PHOTO,)), recipe=CropRecipe())
  held = dataclasses.replace(held, name="pnet", input_size=(12, 12, 3))
  examples = standard_artifacts.Examples()
  examples.uri = str(tmp_path / "examples")
  convert(held, data_root=str(data), output=examples.uri)
  component = CascadeAssembler(
    [as_channel([model]) for model in models],
    goal="seconds=60",
    examples=as_channel([examples]),
    net=held,
    data_root=str(data),
  )
  detector = standard_artifacts.Model()
  detector.uri = str(tmp_path / "detector")
  inputs = {f"model_{place + 1}": [model] for place, model in enumerate(models)}
  Assembler().Do({**inputs, "examples": [examples]}, {"model": [detector]}, dict(component.exec_properties))
  assert read_options(f"{detector.uri}/Format-Serving").thresholds != Options().thresholds


def test_a_goal_without_photos_is_refused(models):
  with pytest.raises(ValueError, match="needs examples and a net"):
    CascadeAssembler([as_channel([models[0]])], goal="recall=0.9")


def test_a_refusal_names_the_gate_the_number_its_bound_and_where_to_look():
  told = refusal(PNET, ["face accuracy is 0.7000, must be at least 0.8"], "/runs/demo/evaluation/7")
  assert told.startswith("Evaluator-pnet did not bless the net pnet")
  assert "\n  face accuracy is 0.7000, must be at least 0.8" in told
  assert "/runs/demo/evaluation/7" in told


def test_a_blessed_net_passes_its_gate(tmp_path):
  from components.model_gate.executor import Executor

  blessing, evaluation, report = (
    standard_artifacts.ModelBlessing(),
    standard_artifacts.ModelEvaluation(),
    GateReport(),
  )
  for artifact, name in ((blessing, "blessing"), (evaluation, "evaluation"), (report, "report")):
    artifact.uri = str(tmp_path / name)
  blessing.set_int_custom_property("blessed", 1)
  Executor().Do(
    {"blessing": [blessing], "evaluation": [evaluation]}, {"report": [report]}, {"net": PNET.to_json()}
  )
  assert json.loads((tmp_path / "report" / "report.json").read_text()) == {"net": "pnet", "blessed": True}
