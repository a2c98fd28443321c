"""ExampleGate reads what the components before it wrote, reports, and raises."""

import json
import pathlib
import re

import numpy as np
import pandas
import pytest
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from tfx.types import artifact_utils, standard_artifacts

from components.artifacts import GateReport
from components.example_gate.executor import Executor
from pipeline.config import load_config
from taskmix.examples.convert import convert
from taskmix.gates import GateError, GatePolicy, Limit
from taskmix.spec import to_json

DEFAULT = GatePolicy()
NET = load_config("demo").nets[0]


@pytest.fixture(scope="module")
def converted(demo, tmp_path_factory) -> pathlib.Path:
  """The embedded photos, as CropExampleGen would have converted them."""
  folder = tmp_path_factory.mktemp("converted") / "examples"
  convert(NET, data_root=str(demo), output=str(folder), conversion=load_config("demo").conversion)
  return folder


def _artifact(artifact_type, folder: pathlib.Path, file_name: str, protos: dict):
  artifact = artifact_type()
  artifact.uri = str(folder)
  artifact.split_names = artifact_utils.encode_split_names(list(protos))
  for split, proto in protos.items():
    path = folder / f"Split-{split}" / file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(proto.SerializeToString())
  return artifact


def _judge(
  tmp_path, examples, *, policy=DEFAULT, bad_split="", empty_split="", statistics=None, blessed=None
) -> list[dict]:
  """The findings of the report, as the component leaves them in its output."""
  anomalies = {split: anomalies_pb2.Anomalies() for split in NET.splits}
  if bad_split:
    anomalies[bad_split].anomaly_info["iou"].reason.add(
      type=anomalies_pb2.AnomalyInfo.FLOAT_TYPE_BIG_FLOAT, description="Unexpectedly large value: 1.5."
    )
  found = {split: statistics_pb2.DatasetFeatureStatisticsList() for split in NET.splits}
  for split, proto in found.items():
    proto.datasets.add(num_examples=0 if split == empty_split else 10)
  found.update(statistics or {})
  report = GateReport()
  report.uri = str(tmp_path / "report")
  channels = {
    "examples": _artifact(standard_artifacts.Examples, examples, "", {}),
    "anomalies": _artifact(
      standard_artifacts.ExampleAnomalies, tmp_path / "anomalies", "SchemaDiff.pb", anomalies
    ),
    "statistics": _artifact(
      standard_artifacts.ExampleStatistics, tmp_path / "stats", "FeatureStats.pb", found
    ),
  }
  if blessed:
    channels["blessed_statistics"] = _artifact(
      standard_artifacts.ExampleStatistics, tmp_path / "blessed", "FeatureStats.pb", blessed
    )
  properties = {"net": NET.to_json(), "policy": to_json(policy), "reports": str(tmp_path / "reports")}
  Executor().Do({key: [artifact] for key, artifact in channels.items()}, {"report": [report]}, properties)
  return json.loads((tmp_path / "report" / "report.json").read_text())


def _leak(converted: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
  """The conversion, with a train photo's fingerprint given to an eval photo."""
  folder.mkdir()
  for path in converted.iterdir():
    (folder / path.name).symlink_to(path)
  lines = [json.loads(line) for line in (converted / "photos.jsonl").read_text().splitlines()]
  (train,) = [line for line in lines if line["image_id"] == "photos/skimage_astronaut.jpg"][:1]
  other = next(line for line in lines if line["phase"] != train["phase"])
  for key in ("content", "perceptual", "thumbnail"):
    other[key] = train[key]
  (folder / "photos.jsonl").unlink()
  (folder / "photos.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
  return folder


def test_the_embedded_photos_pass_with_an_empty_report(converted, tmp_path):
  assert _judge(tmp_path, converted) == []
  assert not (tmp_path / "reports").exists()


def test_an_anomaly_stops_the_run_naming_split_feature_and_what(converted, tmp_path):
  with pytest.raises(GateError, match=r"split eval-pos, feature iou: FLOAT_TYPE_BIG_FLOAT: .*1\.5"):
    _judge(tmp_path, converted, bad_split="eval-pos")


def test_a_warning_is_reported_and_passes(converted, tmp_path):
  policy = GatePolicy(warn=("FLOAT_TYPE_BIG_FLOAT",))
  (finding,) = _judge(tmp_path, converted, bad_split="eval-pos", policy=policy)
  assert (finding["split"], finding["severity"]) == ("eval-pos", "warn")


def test_a_kind_without_examples_stops_the_run(converted, tmp_path):
  with pytest.raises(GateError, match=r"split train-landmark: EMPTY_SPLIT"):
    _judge(tmp_path, converted, empty_split="train-landmark")


def test_a_stopped_run_leaves_report_and_picture_where_the_error_says(converted, tmp_path):
  with pytest.raises(GateError, match="SAME_PICTURE_IN_TWO_PHASES") as error:
    _judge(tmp_path, _leak(converted, tmp_path / "leaking"))
  assert "photos/skimage_astronaut.jpg (eval)" in str(error.value)
  picture, where = re.findall(r"(?:picture|report): (\S+)", str(error.value))
  assert where.startswith(str(tmp_path / "reports" / "ExampleGate-"))
  (finding,) = json.loads(pathlib.Path(where, "report.json").read_text())
  assert finding["picture"] == picture
  assert pathlib.Path(picture).read_bytes().startswith(b"\x89PNG")


def test_the_picture_of_a_warning_lies_beside_the_report(converted, tmp_path):
  policy = GatePolicy(warn=("SAME_PICTURE_IN_TWO_PHASES",))
  (finding,) = _judge(tmp_path, _leak(converted, tmp_path / "leaking"), policy=policy)
  assert pathlib.Path(finding["picture"]).parent == tmp_path / "report"


def test_what_moved_since_the_blessed_run_stops_this_one(converted, tmp_path):
  now = {"train-pos": _face_sizes(20), "eval-pos": _face_sizes(20)}
  before = {"train-pos": _face_sizes(200), "eval-pos": _face_sizes(20)}
  policy = GatePolicy(drift=(Limit("face_size", 0.2),))
  with pytest.raises(GateError, match="split train-pos, feature face_size: DRIFT") as error:
    _judge(tmp_path, converted, policy=policy, statistics=now, blessed=before)
  assert "eval-pos" not in str(error.value)


def test_nothing_is_compared_before_the_first_blessed_run(converted, tmp_path):
  assert _judge(tmp_path, converted, policy=GatePolicy(drift=(Limit("face_size", 0.2),))) == []


def test_train_and_eval_that_differ_are_a_finding(converted, tmp_path):
  statistics = {"train-pos": _face_sizes(20), "eval-pos": _face_sizes(200)}
  policy = GatePolicy(skew=(Limit("face_size", 0.2),), warn=("SKEW",))
  (finding,) = _judge(tmp_path, converted, policy=policy, statistics=statistics)
  assert (finding["split"], finding["feature"]) == ("eval-pos", "face_size")


def _face_sizes(smallest: float) -> statistics_pb2.DatasetFeatureStatisticsList:
  sizes = np.linspace(smallest, 2 * smallest, 100, dtype=np.float32)
  return tfdv.generate_statistics_from_dataframe(pandas.DataFrame({"face_size": sizes}))
