"""RememberBlessed, LastBlessedModel, LastBlessedStatistics: Resolvers that are plain steps.

TFX's Resolver asks ML Metadata. Kubeflow Pipelines' own backend runs containers
and importers and no resolver, and its metadata is not for steps to read. So what
an Evaluator blessed is copied into a folder, and looked up there:

    FOLDER/1/model/ statistics/ record.json
    FOLDER/2/...
"""

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components.blessed_store import executor


class RememberBlessedSpec(component_spec.ComponentSpec):
  """What the component reads and is told; it writes into its folder alone."""

  PARAMETERS = {
    "folder": component_spec.ExecutionParameter(type=str),
    "keep": component_spec.ExecutionParameter(type=int),
  }
  INPUTS = {
    "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
    "blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
    "statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics, optional=True),
  }
  OUTPUTS = {}


class RememberBlessed(base_component.BaseComponent):
  """Keeps a blessed model, and the statistics of what it was judged on, for later runs."""

  SPEC_CLASS = RememberBlessedSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Remember)

  def __init__(
    self,
    model: BaseChannel,
    *,
    blessing: BaseChannel,
    statistics: BaseChannel | None = None,
    folder: str,
    keep: int = 2,
  ):
    """Wires the memory.

    Args:
      model, blessing: of one another.
      statistics: of the examples.
      folder: of this net alone; local, or gs://.
      keep: entries that stay. Two, so that a repeated run still finds another model.
    """
    super().__init__(
      RememberBlessedSpec(model=model, blessing=blessing, statistics=statistics, folder=folder, keep=keep)
    )


class LastBlessedModelSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {"folder": component_spec.ExecutionParameter(type=str)}
  INPUTS = {"candidate": component_spec.ChannelParameter(type=standard_artifacts.Model)}
  OUTPUTS = {"model": component_spec.ChannelParameter(type=standard_artifacts.Model)}


class LastBlessedModel(base_component.BaseComponent):
  """The last blessed model that is not the candidate itself; marked absent if there is none."""

  SPEC_CLASS = LastBlessedModelSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.LastModel)

  def __init__(self, candidate: BaseChannel, *, folder: str):
    """`folder` is RememberBlessed's."""
    super().__init__(
      LastBlessedModelSpec(
        candidate=candidate, folder=folder, model=channel_utils.as_channel([standard_artifacts.Model()])
      )
    )


class LastBlessedStatisticsSpec(component_spec.ComponentSpec):
  """What the component writes and is told."""

  PARAMETERS = {"folder": component_spec.ExecutionParameter(type=str)}
  INPUTS = {}
  OUTPUTS = {"statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics)}


class LastBlessedStatistics(base_component.BaseComponent):
  """Statistics of the data behind the last blessed model; marked absent if there are none."""

  SPEC_CLASS = LastBlessedStatisticsSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.LastStatistics)

  def __init__(self, *, folder: str):
    """`folder` is RememberBlessed's."""
    statistics = channel_utils.as_channel([standard_artifacts.ExampleStatistics()])
    super().__init__(LastBlessedStatisticsSpec(folder=folder, statistics=statistics))
