"""ReportGen: the last component; a runner that can runs it even where a gate stopped the others."""

from collections.abc import Sequence

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components import stage_channels
from components.artifacts import RunReport
from components.report_gen import executor
from taskmix.report.material import Plan
from taskmix.spec import to_json


class ReportGenSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {
    "plan": component_spec.ExecutionParameter(type=str),
    "journal": component_spec.ExecutionParameter(type=str),
    "latest": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = {
    **stage_channels.parameters(),
    "detector": component_spec.ChannelParameter(type=standard_artifacts.Model, optional=True),
    "detection": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation, optional=True),
    "serving": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing, optional=True),
    "pushed": component_spec.ChannelParameter(type=standard_artifacts.PushedModel, optional=True),
  }
  OUTPUTS = {"report": component_spec.ChannelParameter(type=RunReport)}


class ReportGen(base_component.BaseComponent):
  """Gathers what a run came to, and writes it as one HTML file.

  `report` holds `report.html`; `facts.json`, of which it is rendered, and by which
  runs are compared; and `model_card.md`, where a net was evaluated.
  """

  SPEC_CLASS = ReportGenSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(
    self,
    stages: Sequence[stage_channels.Stage],
    *,
    plan: Plan,
    detector: BaseChannel | None = None,
    detection: BaseChannel | None = None,
    serving: BaseChannel | None = None,
    pushed: BaseChannel | None = None,
    journal: str = "",
    latest: str = "",
  ):
    """Wires the report.

    Args:
      stages: the channels of each net, by the names of `stage_channels.TYPES`.
      plan: what is run.
      detector: Model of the CascadeAssembler.
      detection: ModelEvaluation of the DetectionEvaluator.
      serving: InfraBlessing of the ServingCheck.
      pushed: PushedModel.
      journal: file in which the runner tells of times, states and failure, of
        this run alone: so that no report comes from the cache; "" for none.
      latest: where the page is written too, for people; "" nowhere.
    """
    super().__init__(
      ReportGenSpec(
        **stage_channels.channels(stages),
        detector=detector,
        detection=detection,
        serving=serving,
        pushed=pushed,
        plan=to_json(plan),
        journal=journal,
        latest=latest,
        report=channel_utils.as_channel([RunReport()]),
      )
    )
