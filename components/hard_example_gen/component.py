"""HardExampleGen: the examples of a cascade's second and third net."""

from collections.abc import Sequence

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components import stage_models
from components.hard_example_gen import executor
from taskmix.examples.listing import data_fingerprint
from taskmix.faces.mining import Mining
from taskmix.spec import Conversion, Net, to_json

# Of the third net's examples; the first needs none.
_MOST_MODELS = stage_models.MOST - 1


class HardExampleGenSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {
    "net": component_spec.ExecutionParameter(type=str),
    "conversion": component_spec.ExecutionParameter(type=str),
    "mining": component_spec.ExecutionParameter(type=str),
    "data_root": component_spec.ExecutionParameter(type=str),
    "fingerprint": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = stage_models.parameters(_MOST_MODELS)
  OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class HardExampleGen(base_beam_component.BaseBeamComponent):
  """CropExampleGen's examples, with what the nets so far take for faces among them.

  By IoU with the annotated faces their squares become false alarms (neg), parts
  and positives; at most `CropRecipe.mined_negatives` false alarms a photo, the
  surest first. Splits, manifest and quarantine are as CropExampleGen's.
  """

  SPEC_CLASS = HardExampleGenSpec
  EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

  def __init__(
    self,
    models: Sequence[BaseChannel],
    *,
    net: Net,
    conversion: Conversion,
    mining: Mining,
    data_root: str,
    fingerprint: str | None = None,
  ):
    """Checks the data and takes its fingerprint.

    Args:
      models: Models of the nets before this one, in the order of the cascade.
      net: that the examples are for, with its sources.
      conversion: settings.
      mining: what the models are asked for.
      data_root, fingerprint: as of CropExampleGen.

    Raises:
      ValueError: if there is nothing to convert, an annotation file is malformed,
        or there is no model or one too many.
    """
    super().__init__(
      HardExampleGenSpec(
        **stage_models.channels(models, most=_MOST_MODELS),
        net=net.to_json(),
        conversion=to_json(conversion),
        mining=to_json(mining),
        data_root=data_root,
        fingerprint=data_fingerprint(net, data_root) if fingerprint is None else fingerprint,
        examples=channel_utils.as_channel([standard_artifacts.Examples()]),
      )
    )
