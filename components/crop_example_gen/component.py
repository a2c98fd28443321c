"""CropExampleGen: annotated photos to examples, in splits by phase and kind."""

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts

from components.crop_example_gen import executor
from taskmix.examples.listing import data_fingerprint
from taskmix.spec import Conversion, Net, to_json


class CropExampleGenSpec(component_spec.ComponentSpec):
  PARAMETERS = {
    "net": component_spec.ExecutionParameter(type=str),
    "conversion": component_spec.ExecutionParameter(type=str),
    "data_root": component_spec.ExecutionParameter(type=str),
    "fingerprint": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = {}
  OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class CropExampleGen(base_beam_component.BaseBeamComponent):
  """Cuts crops from photos and writes them as sharded, shuffled tf.Examples.

  The output's splits are every phase with every kind: `train-neg`, `eval-pos`, ...
  Beside them lie `manifest.json`, `photos.jsonl` and `quarantine.jsonl`.

  Whole nets and settings are properties, so a changed net under the same name
  never meets a stale cache; so is a fingerprint of annotations and photos.
  """

  SPEC_CLASS = CropExampleGenSpec
  EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

  def __init__(
    self,
    *,
    net: Net,
    conversion: Conversion,
    data_root: str,
    fingerprint: str | None = None,
  ):
    """Checks the data and takes its fingerprint.

    Args:
      net: with its sources.
      conversion: settings.
      data_root: folder that the sources' paths start from.
      fingerprint: of the data; None works it out for a local folder. For gs://
        or s3://, which the launcher may not be able to read, it is then "": give
        a version of your own, or photos changed in place meet the cache.

    Raises:
      ValueError: if there is nothing to convert, or an annotation file is malformed.
    """
    super().__init__(
      CropExampleGenSpec(
        net=net.to_json(),
        conversion=to_json(conversion),
        data_root=data_root,
        fingerprint=data_fingerprint(net, data_root) if fingerprint is None else fingerprint,
        examples=channel_utils.as_channel([standard_artifacts.Examples()]),
      )
    )
