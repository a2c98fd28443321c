"""DetectionEvaluator with the released weights on the embedded photos."""

import dataclasses
import importlib.util
import json
import pathlib

import pytest
from tfx.components.util import model_utils
from tfx.types import Channel, standard_artifacts

from components.detection_evaluator.component import DetectionEvaluator
from components.detection_evaluator.executor import Executor
from taskmix.examples.convert import convert
from taskmix.faces import import_weights
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Conversion, CropRecipe, Phases, Source, to_json

CACHE = pathlib.Path.home() / ".cache" / "taskmix" / "peers" / "mtcnn-1.0.0"
NET = dataclasses.replace(
  PNET,
  sources=(
    Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
    Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
  ),
  recipe=CropRecipe(tries_per_face=2, landmark_shifts=2),
  phases=Phases(eval_share=0.1, eval_images=("photos/skimage_astronaut.jpg", "photos/faceapi_sample4.jpg")),
)


def _artifact(artifact_type, folder: pathlib.Path):
  artifact = artifact_type()
  artifact.uri = str(folder)
  return artifact


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
  """A Model artifact with the released weights."""
  installed = importlib.util.find_spec("mtcnn") and importlib.util.find_spec("lz4")
  if not installed and not (CACHE / "lz4").is_dir():
    pytest.skip(f"needs the released weights: pip install --no-deps --target {CACHE} mtcnn==1.0.0 lz4")
  folder = tmp_path_factory.mktemp("detector")
  released = import_weights.released_detector(package=None if installed else CACHE)
  released.save(folder / "Format-Serving")
  return _artifact(standard_artifacts.Model, folder)


@pytest.fixture(scope="module")
def examples(demo, tmp_path_factory):
  folder = tmp_path_factory.mktemp("examples") / "out"
  convert(NET, data_root=str(demo), output=str(folder), conversion=Conversion(shards=1))
  return _artifact(standard_artifacts.Examples, folder)


def _run(detector, examples, demo, folder, *, policy, baseline=None, reference=""):
  outputs = {
    "evaluation": [_artifact(standard_artifacts.ModelEvaluation, folder / "evaluation")],
    "blessing": [_artifact(standard_artifacts.ModelBlessing, folder / "blessing")],
  }
  inputs = {"model": [detector], "examples": [examples]}
  properties = {"net": NET.to_json(), "data_root": str(demo), "policy": to_json(policy)}
  Executor().Do(
    inputs | ({"baseline_model": [baseline]} if baseline else {}),
    outputs,
    properties | {"reference": reference, "wider_lists": ""},
  )
  return folder / "evaluation", outputs["blessing"][0]


def test_the_released_detector_is_blessed_as_tfx_reads_it(detector, examples, demo, tmp_path):
  policy = DetectionPolicy(min_ap=0.8, min_recall=0.8, max_nme=0.1, min_share_of_reference=1.0)
  folder, blessing = _run(
    detector,
    examples,
    demo,
    tmp_path,
    policy=policy,
    baseline=detector,
    reference=f"{detector.uri}/Format-Serving",
  )
  assert model_utils.is_model_blessed(blessing)
  assert pathlib.Path(blessing.uri, "BLESSED").exists()
  assert blessing.get_string_custom_property("current_model") == detector.uri
  metrics = json.loads((folder / "metrics.json").read_text())
  assert metrics["blessed"] and set(metrics["detectors"]) == {"candidate", "baseline", "reference"}
  mine = metrics["detectors"]["candidate"]
  assert mine == metrics["detectors"]["reference"] and mine["average_precision"] > 0.9
  assert mine["landmarks"]["faces"] > 3 and mine["landmarks"]["mean_error"] < 0.1
  names = {path.name for path in folder.iterdir()}
  assert names >= {"precision_recall.png", "recall_by_size.png", "roc.png", "landmark_error.png", "worst.jpg"}
  rows = json.loads((folder / "detections.json").read_text())
  hits = sum(each["outcome"] == "hit" for row in rows for each in row["found"])
  assert hits == mine["operating_point"]["hits"]


def test_a_detector_below_its_bounds_is_not_blessed(detector, examples, demo, tmp_path):
  folder, blessing = _run(detector, examples, demo, tmp_path, policy=DetectionPolicy(max_nme=0.001))
  assert not model_utils.is_model_blessed(blessing)
  assert pathlib.Path(blessing.uri, "NOT_BLESSED").exists()
  verdicts = json.loads((folder / "metrics.json").read_text())["verdicts"]
  assert [verdict["name"] for verdict in verdicts if not verdict["holds"]] == ["landmark error"]


def test_a_reference_is_known_by_its_content(tmp_path):
  def fingerprint():
    channels = Channel(type=standard_artifacts.Model), Channel(type=standard_artifacts.Examples)
    component = DetectionEvaluator(*channels, net=NET, data_root="photos", reference=str(tmp_path))
    return component.exec_properties["fingerprint"]

  with pytest.raises(ValueError, match="no SavedModel here"):
    fingerprint()
  (tmp_path / "saved_model.pb").write_bytes(b"one")
  first = fingerprint()
  (tmp_path / "saved_model.pb").write_bytes(b"two")
  assert fingerprint() != first


def test_the_component_declares_what_tfx_must_know():
  component = DetectionEvaluator(
    Channel(type=standard_artifacts.Model),
    Channel(type=standard_artifacts.Examples),
    net=NET,
    data_root="photos",
    policy=DetectionPolicy(min_ap=0.5),
  )
  assert set(component.outputs) == {"evaluation", "blessing"}
  assert json.loads(component.exec_properties["policy"])["min_ap"] == 0.5
