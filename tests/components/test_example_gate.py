"""ExampleGate reads what StatisticsGen and ExampleValidator wrote, and raises."""

import json
import pathlib

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from tfx.types import artifact_utils, standard_artifacts

from components.artifacts import GateReport
from components.example_gate.executor import Executor
from taskmix.gates import GateError, GatePolicy
from taskmix.nets.mtcnn import PNET
from taskmix.spec import to_json


DEFAULT = GatePolicy()


def _artifact(artifact_type, folder: pathlib.Path, file_name: str, protos: dict):
  artifact = artifact_type()
  artifact.uri = str(folder)
  artifact.split_names = artifact_utils.encode_split_names(list(protos))
  for split, proto in protos.items():
    path = folder / f"Split-{split}" / file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(proto.SerializeToString())
  return artifact


def _judge(tmp_path, *, policy=DEFAULT, bad_split="", empty_split="") -> pathlib.Path:
  anomalies = {split: anomalies_pb2.Anomalies() for split in PNET.splits}
  if bad_split:
    anomalies[bad_split].anomaly_info["iou"].reason.add(
      type=anomalies_pb2.AnomalyInfo.FLOAT_TYPE_BIG_FLOAT, description="Unexpectedly large value: 1.5."
    )
  statistics = {}
  for split in PNET.splits:
    statistics[split] = statistics_pb2.DatasetFeatureStatisticsList()
    statistics[split].datasets.add(num_examples=0 if split == empty_split else 10)
  report = GateReport()
  report.uri = str(tmp_path / "report")
  Executor().Do(
    {
      "anomalies": [
        _artifact(standard_artifacts.ExampleAnomalies, tmp_path / "anomalies", "SchemaDiff.pb", anomalies)
      ],
      "statistics": [
        _artifact(standard_artifacts.ExampleStatistics, tmp_path / "stats", "FeatureStats.pb", statistics)
      ],
    },
    {"report": [report]},
    {"net": PNET.to_json(), "policy": to_json(policy)},
  )
  return tmp_path / "report" / "report.json"


def test_clean_splits_pass_with_an_empty_report(tmp_path):
  assert json.loads(_judge(tmp_path).read_text()) == []


def test_an_anomaly_stops_the_run_naming_split_feature_and_what(tmp_path):
  with pytest.raises(GateError, match=r"split eval-pos, feature iou: FLOAT_TYPE_BIG_FLOAT: .*1\.5"):
    _judge(tmp_path, bad_split="eval-pos")


def test_a_warning_is_reported_and_passes(tmp_path):
  path = _judge(tmp_path, bad_split="eval-pos", policy=GatePolicy(warn=("FLOAT_TYPE_BIG_FLOAT",)))
  (finding,) = json.loads(path.read_text())
  assert (finding["split"], finding["severity"]) == ("eval-pos", "warn")


def test_a_kind_without_examples_stops_the_run(tmp_path):
  with pytest.raises(GateError, match=r"split train-landmark, .*EMPTY_SPLIT"):
    _judge(tmp_path, empty_split="train-landmark")
