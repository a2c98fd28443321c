"""Artifact types that TFX does not have."""

from tfx.types.artifact import Artifact


class GateReport(Artifact):
  """What a gate saw: `report.json`, a list of findings."""

  # The Kubeflow compiler takes a name with one dot for an import path.
  TYPE_NAME = "components.GateReport"


class RunReport(Artifact):
  """What a run came to: `report.html`, and `facts.json` behind it."""

  TYPE_NAME = "components.RunReport"
