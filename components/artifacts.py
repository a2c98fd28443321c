"""Artifact types that TFX does not have."""

from tfx.types.artifact import Artifact


class GateReport(Artifact):
  """What a gate saw: `report.json`, a list of findings."""

  TYPE_NAME = "TaskmixGateReport"
