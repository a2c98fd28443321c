"""ModelPusher: versions that appear whole, carry their record, and can be rolled back."""

import json
from collections.abc import Mapping, Sequence

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components import stage_channels
from components.model_pusher import executor
from taskmix.report.material import Plan
from taskmix.spec import Net, to_json

# Of every net, what the model card tells of.
_CARDED = ("examples", "evaluation")


class ModelPusherSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {
    "name": component_spec.ExecutionParameter(type=str),
    "push_directory": component_spec.ExecutionParameter(type=str),
    "keep": component_spec.ExecutionParameter(type=int),
    "net": component_spec.ExecutionParameter(type=str),
    "lineage": component_spec.ExecutionParameter(type=str),
    "plan": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = {
    **stage_channels.parameters(_CARDED),
    "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
    "model_blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing, optional=True),
    "infra_blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing, optional=True),
    "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation, optional=True),
  }
  OUTPUTS = {"pushed_model": component_spec.ChannelParameter(type=standard_artifacts.PushedModel)}


class ModelPusher(base_component.BaseComponent):
  """Pushes the model if every blessing that is wired says so.

  TFX's Pusher copies file by file into the folder that a server watches; this
  one writes aside and renames, keeps the last versions, and records in each
  what blessed it, its metrics and its lineage, with a model card. See taskmix.serving.versions.
  """

  SPEC_CLASS = ModelPusherSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(
    self,
    model: BaseChannel,
    *,
    name: str,
    push_directory: str,
    model_blessing: BaseChannel | None = None,
    infra_blessing: BaseChannel | None = None,
    evaluation: BaseChannel | None = None,
    net: Net | None = None,
    lineage: Mapping[str, str] | None = None,
    keep: int = 5,
    stages: Sequence[stage_channels.Stage] = (),
    plan: Plan | None = None,
  ):
    """Wires the push.

    Args:
      model: Model to push.
      name: of the model, for its record.
      push_directory: the folder that a server watches, one model's.
      model_blessing: of an Evaluator.
      infra_blessing: of ServingCheck; the files that it checked are pushed.
      evaluation: ModelEvaluation whose metrics go into the record: an Evaluator's,
        or a DetectionEvaluator's.
      net: by whose tasks those of an Evaluator are read; None for a detector.
      lineage: more to record, such as the config's name; part of the cache's
        key, so nothing that changes from run to run.
      keep: versions that stay.
      stages: "examples" and "evaluation" of each net, for the model card.
      plan: what is run, for the model card; None writes none.

    Raises:
      ValueError: if `keep` is below 1.
    """
    if keep < 1:
      raise ValueError(f"keep must be 1 or more versions, not {keep}")
    super().__init__(
      ModelPusherSpec(
        model=model,
        model_blessing=model_blessing,
        infra_blessing=infra_blessing,
        evaluation=evaluation,
        name=name,
        push_directory=push_directory,
        keep=keep,
        net=net.to_json() if net else "",
        lineage=json.dumps(dict(lineage or {}), sort_keys=True),
        plan=to_json(plan) if plan else "",
        **stage_channels.channels(stages, _CARDED),
        pushed_model=channel_utils.as_channel([standard_artifacts.PushedModel()]),
      )
    )
