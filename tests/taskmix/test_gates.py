"""Anomalies stop a run unless the policy lets them pass, and the message names each."""

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2

from taskmix import gates

Type = anomalies_pb2.AnomalyInfo


def _anomalies(feature: str, anomaly_type: int) -> anomalies_pb2.Anomalies:
  proto = anomalies_pb2.Anomalies()
  reason = proto.anomaly_info[feature].reason.add()
  reason.type = anomaly_type
  reason.description = "values above 1"
  return proto


def test_an_anomaly_stops_the_run_and_is_named_with_split_and_feature():
  found = gates.anomaly_findings(
    {"train-pos": _anomalies("iou", Type.FLOAT_TYPE_BIG_FLOAT), "train-neg": anomalies_pb2.Anomalies()},
    gates.GatePolicy(),
  )
  with pytest.raises(gates.GateError) as error:
    gates.raise_on_stop("ExampleGate", found, "/runs/x")
  assert "split train-pos, feature iou: FLOAT_TYPE_BIG_FLOAT: values above 1" in str(error.value)
  assert "/runs/x" in str(error.value)


def test_a_policy_turns_an_anomaly_into_a_warning_or_lets_it_pass():
  anomalies = {"train-pos": _anomalies("iou", Type.FLOAT_TYPE_BIG_FLOAT)}
  warned = gates.anomaly_findings(anomalies, gates.GatePolicy(warn=("FLOAT_TYPE_BIG_FLOAT",)))
  assert [finding.severity for finding in warned] == ["warn"]
  gates.raise_on_stop("ExampleGate", warned, "")
  assert gates.anomaly_findings(anomalies, gates.GatePolicy(allow=("FLOAT_TYPE_BIG_FLOAT",))) == []


def test_a_split_without_data_stops_the_run():
  proto = anomalies_pb2.Anomalies(data_missing=True)
  (found,) = gates.anomaly_findings({"eval-pos": proto}, gates.GatePolicy())
  assert (found.split, found.severity) == ("eval-pos", "stop")


def test_an_anomaly_of_the_whole_split_counts_too():
  proto = anomalies_pb2.Anomalies()
  proto.dataset_anomaly_info.reason.add(type=Type.DATASET_LOW_NUM_EXAMPLES, description="3 < 10")
  (found,) = gates.anomaly_findings({"eval-pos": proto}, gates.GatePolicy())
  assert "the whole split" in str(found)


def test_a_kind_without_examples_stops_the_run():
  found = gates.missing_splits(("train-neg", "train-pos"), {"train-neg": 5, "train-pos": 0})
  assert [(finding.split, finding.severity) for finding in found] == [("train-pos", "stop")]


def test_a_policy_with_an_unknown_type_is_refused():
  with pytest.raises(ValueError, match="FLOAT_TYPE_HUGE"):
    gates.GatePolicy(warn=("FLOAT_TYPE_HUGE",))
