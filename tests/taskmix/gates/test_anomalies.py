"""What TFDV found becomes findings, each named with split and feature."""

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2

from taskmix import gates
from taskmix.gates.anomalies import anomaly_findings, missing_splits

Type = anomalies_pb2.AnomalyInfo


def _anomalies(feature: str, anomaly_type: int) -> anomalies_pb2.Anomalies:
  proto = anomalies_pb2.Anomalies()
  reason = proto.anomaly_info[feature].reason.add()
  reason.type = anomaly_type
  reason.description = "values above 1"
  return proto


def test_an_anomaly_stops_the_run_and_is_named_with_split_and_feature():
  found = anomaly_findings(
    {"train-pos": _anomalies("iou", Type.FLOAT_TYPE_BIG_FLOAT), "train-neg": anomalies_pb2.Anomalies()}
  )
  with pytest.raises(gates.GateError) as error:
    gates.raise_on_stop("ExampleGate", gates.GatePolicy().judge(found), "/runs/x")
  assert "split train-pos, feature iou: FLOAT_TYPE_BIG_FLOAT: values above 1" in str(error.value)
  assert "/runs/x" in str(error.value)


def test_a_split_without_data_is_a_finding():
  (found,) = anomaly_findings({"eval-pos": anomalies_pb2.Anomalies(data_missing=True)})
  assert (found.split, found.type) == ("eval-pos", "DATA_MISSING")


def test_an_anomaly_of_the_whole_split_counts_too():
  proto = anomalies_pb2.Anomalies()
  proto.dataset_anomaly_info.reason.add(type=Type.DATASET_LOW_NUM_EXAMPLES, description="3 < 10")
  (found,) = anomaly_findings({"eval-pos": proto})
  assert str(found) == "split eval-pos: DATASET_LOW_NUM_EXAMPLES: 3 < 10"


def test_a_kind_without_examples_is_a_finding():
  found = missing_splits(("train-neg", "train-pos"), {"train-neg": 5, "train-pos": 0})
  assert [(finding.split, finding.type) for finding in found] == [("train-pos", "EMPTY_SPLIT")]
