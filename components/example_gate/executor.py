"""The work of ExampleGate."""

import dataclasses
import datetime
import json
import os
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils

from taskmix.gates import Finding, GatePolicy, anomalies, drift, findings, sheets
from taskmix.gates.examples import check_examples
from taskmix.gates.findings import Evidence
from taskmix.spec import Net, from_json

REPORT = "report.json"


class Executor(base_executor.BaseExecutor):
  """Judges each split's anomalies and counts, and the examples themselves."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Writes the report and its pictures, then raises GateError if a finding stops the run.

    TFX removes the output folder of a failed execution, so a run that is stopped
    leaves its report in `reports`.

    Args:
      input_dict: "examples": Examples, as a conversion left them; "statistics":
        ExampleStatistics; "anomalies": ExampleAnomalies; optional
        "blessed_statistics": ExampleStatistics of the last blessed run.
      output_dict: "report": GateReport.
      exec_properties: "net": Net as JSON; "policy": GatePolicy as JSON; "reports":
        folder of stopped runs' reports, "" for none.
    """
    net = Net.from_json(exec_properties["net"])
    policy = from_json(GatePolicy, exec_properties["policy"])
    evidence = [Evidence(finding) for finding in _statistics_findings(input_dict, net, policy)]
    evidence += check_examples(artifact_utils.get_single_uri(input_dict["examples"]), net, policy)
    judged = [
      dataclasses.replace(item, finding=finding)
      for item in evidence
      for finding in policy.judge([item.finding])
    ]
    folder = artifact_utils.get_single_uri(output_dict["report"])
    if any(item.finding.severity == "stop" for item in judged) and exec_properties["reports"]:
      folder = os.path.join(exec_properties["reports"], self._name())
    report = _write_report(judged, folder, net)
    findings.raise_on_stop("ExampleGate", report, folder)

  def _name(self) -> str:
    """Of this execution's report, apart from all others'."""
    execution = getattr(self._context, "_unique_id", None)
    return f"ExampleGate-{execution or f'{datetime.datetime.now():%Y%m%d-%H%M%S-%f}'}"


def _statistics_findings(input_dict: dict[str, list[Any]], net: Net, policy: GatePolicy) -> list[Finding]:
  """What statistics alone tell: anomalies, empty splits, columns that moved."""
  statistics = _read_statistics(input_dict["statistics"])
  counts = {split: proto.datasets[0].num_examples for split, proto in statistics.items() if proto.datasets}
  judged = _read_splits(input_dict["anomalies"], "SchemaDiff.pb", anomalies_pb2.Anomalies)
  found = [*anomalies.anomaly_findings(judged), *anomalies.missing_splits(net.splits, counts)]
  blessed = input_dict.get("blessed_statistics")
  if blessed and policy.drift:
    found += drift.drift_findings(net, statistics, _read_statistics(blessed), policy.drift)
  if policy.skew:
    found += drift.skew_findings(net, statistics, policy.skew)
  return found


def _write_report(judged: list[Evidence], folder: str, net: Net) -> list[Finding]:
  """Writes pictures and report.json; returns the findings, with their pictures' paths."""
  report = [
    dataclasses.replace(item.finding, picture=sheets.write_sheet(item, folder, net=net)) for item in judged
  ]
  fileio.makedirs(folder)
  io_utils.write_string_file(os.path.join(folder, REPORT), json.dumps(findings.as_json(report), indent=2))
  return report


def _read_statistics(artifacts: list[Any]) -> dict[str, Any]:
  return _read_splits(artifacts, "FeatureStats.pb", statistics_pb2.DatasetFeatureStatisticsList)


def _read_splits(artifacts: list[Any], file_name: str, proto_class: Any) -> dict[str, Any]:
  """Each split's serialized proto of that file name."""
  artifact = artifact_utils.get_single_instance(artifacts)
  protos = {}
  for split in artifact_utils.decode_split_names(artifact.split_names):
    uri = artifact_utils.get_split_uri([artifact], split)
    with fileio.open(os.path.join(uri, file_name), "rb") as file:
      protos[split] = proto_class.FromString(file.read())
  return protos
