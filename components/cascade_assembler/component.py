"""CascadeAssembler: one SavedModel that detects, from those of a cascade's nets."""

from collections.abc import Sequence

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components import stage_models
from components.cascade_assembler import executor


class CascadeAssemblerSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {"code": component_spec.ExecutionParameter(type=str)}
  INPUTS = stage_models.parameters(stage_models.MOST)
  OUTPUTS = {"model": component_spec.ChannelParameter(type=standard_artifacts.Model)}


class CascadeAssembler(base_component.BaseComponent):
  """Pyramid, nets, calibration and suppression as one graph; see docs/detector.md."""

  SPEC_CLASS = CascadeAssemblerSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(self, models: Sequence[BaseChannel], *, code: str = ""):
    """Wires the assembly.

    Args:
      models: Models of the Trainers, in the order in which the nets see a photo.
      code: fingerprint of the code that the graph is made by, for the cache's key.

    Raises:
      ValueError: if there is no model, or more than three.
    """
    super().__init__(
      CascadeAssemblerSpec(
        **stage_models.channels(models, most=stage_models.MOST),
        code=code,
        model=channel_utils.as_channel([standard_artifacts.Model()]),
      )
    )
