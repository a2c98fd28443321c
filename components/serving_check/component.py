"""ServingCheck: in InfraValidator's place, without Docker."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components.serving_check import executor
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import to_json


class ServingCheckSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {
    "name": component_spec.ExecutionParameter(type=str),
    "photos": component_spec.ExecutionParameter(type=str),
    "constants": component_spec.ExecutionParameter(type=str),
    "policy": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = {
    "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
    "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples, optional=True),
  }
  OUTPUTS = {
    "blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing),
  }


class ServingCheck(base_component.BaseComponent):
  """Blesses a model that a clean process loads and answers with; refuses it with reasons else.

  The blessing holds `report.json` and the very files that were checked, warm-up
  requests included, as InfraValidator's does with make_warmup; ModelPusher
  pushes those.

  A model at fault is marked NOT blessed, and its report says why. If only the
  time or memory budget was passed, the component fails instead: that hangs on
  the machine, and a failure is not cached.
  """

  SPEC_CLASS = ServingCheckSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(
    self,
    model: BaseChannel,
    examples: BaseChannel | None = None,
    *,
    name: str,
    photos: Sequence[str] = (),
    constants: Mapping[str, Any] | None = None,
    policy: ServingPolicy | None = None,
  ):
    """Wires the check.

    Args:
      model: Model of a Trainer or an assembler.
      examples: Examples as before Transform; their eval splits are asked.
      name: of the model, as servers call it.
      photos: paths of JPEG or PNG files, for a model that takes photos.
      constants: values of inputs that neither fills, such as a detector's
        thresholds.
      policy: budgets, and what only warns.

    Raises:
      ValueError: if there is nothing to ask with.
    """
    if examples is None and not photos:
      raise ValueError("ServingCheck needs examples or photos to ask the model about")
    super().__init__(
      ServingCheckSpec(
        model=model,
        examples=examples,
        name=name,
        photos=json.dumps([str(photo) for photo in photos]),
        constants=json.dumps(dict(constants or {}), sort_keys=True),
        policy=to_json(policy or ServingPolicy()),
        blessing=channel_utils.as_channel([standard_artifacts.InfraBlessing()]),
      )
    )
