"""What TFDV found, and splits without data, as findings."""

from collections.abc import Iterable, Mapping
from typing import Any

from taskmix.gates.findings import Finding


def anomaly_findings(anomalies: Mapping[str, Any]) -> list[Finding]:
  """What TFDV found in each split.

  Args:
    anomalies: split name -> tensorflow_metadata Anomalies proto.

  Returns:
    The findings, by split and feature.
  """
  found = []
  for split, proto in sorted(anomalies.items()):
    if proto.data_missing:
      found.append(Finding("DATA_MISSING", split, "", "the split holds no examples"))
    # The key of `anomaly_info` is the feature's name, or its path where nested.
    infos = [*sorted(proto.anomaly_info.items())]
    if proto.dataset_anomaly_info.reason:
      infos.append(("", proto.dataset_anomaly_info))
    found += [
      Finding(_type(reason), split, feature, reason.description)
      for feature, info in infos
      for reason in info.reason
    ]
  return found


def missing_splits(wanted: Iterable[str], counts: Mapping[str, int]) -> list[Finding]:
  """Splits of the net that hold no example, so that no batch could be made."""
  description = "the net's mixture needs examples of this kind, and there are none"
  return [Finding("EMPTY_SPLIT", split, "", description) for split in wanted if not counts.get(split)]


def _type(reason: Any) -> str:
  from tensorflow_metadata.proto.v0 import anomalies_pb2

  return anomalies_pb2.AnomalyInfo.Type.Name(reason.type)
