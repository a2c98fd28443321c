"""What stops a run: judgements over data, as plain findings.

A gate names what is wrong, where, and whether the policy lets it pass; the
components that call these functions only read artifacts and raise.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pydantic

Severity = Literal["stop", "warn", "allow"]


@dataclasses.dataclass(frozen=True)
class GatePolicy:
  """Which anomalies stop the run.

  Attributes:
    warn: types of TFDV's AnomalyInfo.Type, such as "SCHEMA_NEW_COLUMN", that
      are reported and let through.
    allow: types that are not even reported. All others stop the run.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  warn: tuple[str, ...] = ()
  allow: tuple[str, ...] = ()

  def __post_init__(self):
    from tensorflow_metadata.proto.v0 import anomalies_pb2

    known = set(anomalies_pb2.AnomalyInfo.Type.keys())
    unknown = sorted({*self.warn, *self.allow} - known)
    if unknown:
      raise ValueError(
        f"{', '.join(unknown)}: no anomaly type of TFDV. The types are the names in "
        f"tensorflow_metadata's AnomalyInfo.Type, such as FLOAT_TYPE_BIG_FLOAT, SCHEMA_NEW_COLUMN"
      )

  def severity(self, anomaly_type: str) -> Severity:
    if anomaly_type in self.allow:
      return "allow"
    return "warn" if anomaly_type in self.warn else "stop"


@dataclasses.dataclass(frozen=True)
class Finding:
  """One thing that a gate saw."""

  split: str
  feature: str
  kind: str
  severity: Severity
  description: str

  def __str__(self) -> str:
    return (
      f"split {self.split}, feature {self.feature or '(the whole split)'}: {self.kind}: {self.description}"
    )


class GateError(ValueError):
  """A gate stopped the run; the message is its findings, fit to be shown alone."""


def anomaly_findings(anomalies: Mapping[str, Any], policy: GatePolicy) -> list[Finding]:
  """What TFDV found in each split, judged by `policy`.

  Args:
    anomalies: split name -> tensorflow_metadata Anomalies proto.
    policy: gives each anomaly type its severity.

  Returns:
    The findings that are not allowed, by split and feature.
  """
  found = []
  for split, proto in sorted(anomalies.items()):
    if proto.data_missing:
      found.append(Finding(split, "", "DATA_MISSING", "stop", "the split holds no examples"))
    # The key of `anomaly_info` is the feature's name, or its path where nested.
    infos = [*sorted(proto.anomaly_info.items())]
    if proto.dataset_anomaly_info.reason:
      infos.append(("", proto.dataset_anomaly_info))
    found += [
      Finding(split, feature, name, policy.severity(name), reason.description)
      for feature, info in infos
      for reason in info.reason
      for name in [_anomaly_name(reason)]
    ]
  return [finding for finding in found if finding.severity != "allow"]


def _anomaly_name(reason: Any) -> str:
  from tensorflow_metadata.proto.v0 import anomalies_pb2

  return anomalies_pb2.AnomalyInfo.Type.Name(reason.type)


def missing_splits(wanted: Iterable[str], counts: Mapping[str, int]) -> list[Finding]:
  """Splits of the net that hold no example, so that no batch could be made."""
  return [
    Finding(
      split, "", "EMPTY_SPLIT", "stop", "the net's mixture needs examples of this kind, and there are none"
    )
    for split in wanted
    if not counts.get(split)
  ]


def raise_on_stop(gate: str, findings: Iterable[Finding], where: str) -> None:
  """Raises GateError if any finding stops the run.

  Args:
    gate: the component's name, for the message.
    findings: what it saw.
    where: the folder of the full report.
  """
  stops = [finding for finding in findings if finding.severity == "stop"]
  if stops:
    lines = "\n".join(f"  {finding}" for finding in stops)
    raise GateError(
      f"{gate} stopped the run: {len(stops)} finding{'s' * (len(stops) > 1)}\n{lines}\n"
      f"  Mend the data, or the schema if the data is right; to let a type of anomaly pass, name it "
      f"in the config's GatePolicy. The full report: {where}"
    )
