"""ImportExampleGen: a pipeline that starts from converted shards instead of photos."""

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts

from components.import_example_gen import executor
from taskmix.examples.manifest import manifest_digest
from taskmix.sources.files import is_remote
from taskmix.spec import Net


class ImportExampleGenSpec(component_spec.ComponentSpec):
  """What the component is told and writes."""

  PARAMETERS = {
    "net": component_spec.ExecutionParameter(type=str),
    "shards": component_spec.ExecutionParameter(type=str),
    "fingerprint": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = {}
  OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class ImportExampleGen(base_component.BaseComponent):
  """Takes what `taskmix convert` wrote, after checking every file against its manifest.

  Its output is CropExampleGen's: the same splits, file names, manifest and lists.
  Files on the same disk are linked, others copied.
  """

  SPEC_CLASS = ImportExampleGenSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(self, *, net: Net, shards: str, fingerprint: str | None = None):
    """Checks that the shards are this net's.

    Args:
      net: that the shards are for.
      shards: folder of a finished conversion; local, gs://, s3://.
      fingerprint: of the conversion; None takes its manifest's hash, or "" for
        gs:// and s3://, which the launcher may not be able to read.

    Raises:
      ValueError: if the folder is no finished conversion, or is one for another net.
    """
    if fingerprint is None:
      fingerprint = "" if is_remote(shards) else manifest_digest(shards)
    if not is_remote(shards):
      executor.require_same_examples(net, shards)
    super().__init__(
      ImportExampleGenSpec(
        net=net.to_json(),
        shards=shards,
        fingerprint=fingerprint,
        examples=channel_utils.as_channel([standard_artifacts.Examples()]),
      )
    )
