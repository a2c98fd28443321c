"""The work of CropExampleGen."""

from typing import Any

from absl import logging
from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact_utils

from taskmix.examples.convert import Conversions, Progress, require_kinds, summary
from taskmix.examples.listing import data_fingerprint
from taskmix.progress import tell
from taskmix.spec import Conversion, Net, from_json


def _tell(progress: Progress) -> None:
  """Lets the run's listeners know, see taskmix.progress."""
  tell(progress.told)


class Executor(base_beam_executor.BaseBeamExecutor):
  """Converts the net's sources on the component's Beam runner."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Writes the shards of every split, and the manifest.

    Args:
      input_dict: nothing.
      output_dict: "examples": Examples; its split names are the net's splits.
      exec_properties: "net": Net as JSON; "conversion": Conversion as JSON;
        "data_root": folder of the sources; "fingerprint": for the cache alone.

    Raises:
      ValueError: if annotations are malformed, too many photos are bad, a kind
        has no example to train on, or the data changed meanwhile.
    """
    self._log_startup(input_dict, output_dict, exec_properties)
    net = Net.from_json(exec_properties["net"])
    examples = artifact_utils.get_single_instance(output_dict["examples"])
    data_root = exec_properties["data_root"]
    before = data_fingerprint(net, data_root)
    steps = Conversions(
      net,
      data_root=data_root,
      output=examples.uri,
      conversion=from_json(Conversion, exec_properties["conversion"]),
      mine=self._mine(input_dict, exec_properties),
    )
    with steps:
      with steps.problems(), steps.progress(_tell), self._make_beam_pipeline() as pipeline:
        steps.add_to(pipeline)
      manifest = steps.finish()
    logging.info("%s", "\n".join(summary(manifest)))
    require_kinds(manifest.counts)
    # The cache would give examples of photos that are no more.
    if data_fingerprint(net, data_root) != before:
      raise ValueError(
        f"photos or annotations in {data_root} changed while they were converted: let nothing write there, "
        "and run again"
      )
    examples.split_names = artifact_utils.encode_split_names(list(net.splits))

  def _mine(self, input_dict: dict[str, list[Any]], exec_properties: dict[str, Any]) -> Any:
    """What finds hard examples in a photo, see `Conversions`: nothing, for a first net."""
    del input_dict, exec_properties
