"""The artifacts of every net of a run as inputs of a component: examples_1, model_run_2, ..."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfx.types import artifact_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components.artifacts import GateReport
from components.serving_check.executor import served_model_uri
from components.stage_models import MOST
from taskmix.report.material import NetPlaces

TYPES = {
  "examples": standard_artifacts.Examples,
  "statistics": standard_artifacts.ExampleStatistics,
  "anomalies": standard_artifacts.ExampleAnomalies,
  "gate_report": GateReport,
  "model": standard_artifacts.Model,
  "model_run": standard_artifacts.ModelRun,
  "evaluation": standard_artifacts.ModelEvaluation,
  "blessing": standard_artifacts.ModelBlessing,
}
"""What a net's components make; each is a field of NetPlaces."""

Stage = Mapping[str, BaseChannel]


def parameters(names: Sequence[str] = tuple(TYPES)) -> dict[str, component_spec.ChannelParameter]:
  """For a component's INPUTS; all are optional: a run that was stopped has not all."""
  return {
    f"{name}_{place + 1}": component_spec.ChannelParameter(type=TYPES[name], optional=True)
    for place in range(MOST)
    for name in names
  }


def channels(stages: Sequence[Stage], names: Sequence[str] = tuple(TYPES)) -> dict[str, BaseChannel]:
  """For a component's spec: `stages` are name -> channel, in the order of the nets."""
  return {
    f"{name}_{place + 1}": stage[name]
    for place, stage in enumerate(stages)
    for name in names
    if name in stage
  }


def places(input_dict: Mapping[str, list[Any]], nets: int) -> tuple[NetPlaces, ...]:
  """The folders of the first `nets` stages' artifacts."""
  return tuple(
    NetPlaces(**{name: _uri(input_dict.get(f"{name}_{place + 1}"), name) for name in TYPES})
    for place in range(nets)
  )


def _uri(artifacts: list[Any] | None, name: str) -> str:
  if not artifacts:
    return ""
  return served_model_uri(artifacts) if name == "model" else artifact_utils.get_single_uri(artifacts)
