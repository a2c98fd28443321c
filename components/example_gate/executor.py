"""The work of ExampleGate."""

import dataclasses
import json
import os
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils

from taskmix import gates
from taskmix.spec import Net, from_json

REPORT = "report.json"


class Executor(base_executor.BaseExecutor):
  """Judges each split's anomalies and counts."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Writes the report, then raises GateError if a finding stops the run.

    Args:
      input_dict: "statistics": ExampleStatistics; "anomalies": ExampleAnomalies.
      output_dict: "report": GateReport.
      exec_properties: "net": Net as JSON; "policy": GatePolicy as JSON.
    """
    net = Net.from_json(exec_properties["net"])
    policy = from_json(gates.GatePolicy, exec_properties["policy"])
    findings = gates.anomaly_findings(
      _read_splits(input_dict["anomalies"], "SchemaDiff.pb", anomalies_pb2.Anomalies), policy
    )
    statistics = _read_splits(
      input_dict["statistics"], "FeatureStats.pb", statistics_pb2.DatasetFeatureStatisticsList
    )
    counts = {split: proto.datasets[0].num_examples for split, proto in statistics.items() if proto.datasets}
    findings += gates.missing_splits(net.splits, counts)

    folder = artifact_utils.get_single_uri(output_dict["report"])
    path = os.path.join(folder, REPORT)
    io_utils.write_string_file(path, json.dumps([dataclasses.asdict(f) for f in findings], indent=2))
    # A failed execution's output folder is removed, so the report of a stopped
    # run is what the error says: every finding is in it.
    gates.raise_on_stop("ExampleGate", findings, _uri(input_dict["anomalies"]))


def _read_splits(artifacts: list[Any], file_name: str, proto_class: Any) -> dict[str, Any]:
  """Each split's serialized proto of that file name."""
  artifact = artifact_utils.get_single_instance(artifacts)
  protos = {}
  for split in artifact_utils.decode_split_names(artifact.split_names):
    uri = artifact_utils.get_split_uri([artifact], split)
    with fileio.open(os.path.join(uri, file_name), "rb") as file:
      protos[split] = proto_class.FromString(file.read())
  return protos


def _uri(artifacts: list[Any]) -> str:
  return artifact_utils.get_single_uri(artifacts)
