"""CascadeAssembler: one SavedModel that detects, from those of a cascade's nets."""

from collections.abc import Sequence

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components import stage_models
from components.cascade_assembler import executor
from taskmix.spec import Net


class CascadeAssemblerSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {
    "code": component_spec.ExecutionParameter(type=str),
    "goal": component_spec.ExecutionParameter(type=str),
    "net": component_spec.ExecutionParameter(type=str),
    "data_root": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = {
    **stage_models.parameters(stage_models.MOST),
    "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples, optional=True),
  }
  OUTPUTS = {"model": component_spec.ChannelParameter(type=standard_artifacts.Model)}


class CascadeAssembler(base_component.BaseComponent):
  """Pyramid, nets, calibration and suppression as one graph; see docs/detector.md."""

  SPEC_CLASS = CascadeAssemblerSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(
    self,
    models: Sequence[BaseChannel],
    *,
    code: str = "",
    goal: str = "",
    examples: BaseChannel | None = None,
    net: Net | None = None,
    data_root: str = "",
  ):
    """Wires the assembly.

    Args:
      models: Models of the Trainers, in the order in which the nets see a photo.
      code: fingerprint of the code that the graph is made by, for the cache's key.
      goal: what the thresholds must reach on the photos held out: "recall=0.9",
        "precision=0.95" or "seconds=0.05" a photo; "" keeps the release's.
      examples, net, data_root: Examples that say which photos are held out, and
        the net whose sources, below data_root, have their faces; for a goal.

    Raises:
      ValueError: if there is no model, more than three, or a goal without
        examples and net.
    """
    if goal and (examples is None or net is None):
      raise ValueError(f"the goal {goal} needs examples and a net: they say which photos are held out")
    super().__init__(
      CascadeAssemblerSpec(
        **stage_models.channels(models, most=stage_models.MOST),
        code=code,
        goal=goal,
        examples=examples if goal else None,
        net=net.to_json() if net and goal else "",
        data_root=data_root if goal else "",
        model=channel_utils.as_channel([standard_artifacts.Model()]),
      )
    )
