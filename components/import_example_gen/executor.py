"""The work of ImportExampleGen."""

import dataclasses
import json
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from taskmix.examples import storage
from taskmix.examples.manifest import MANIFEST, Manifest, read_manifest, require_whole
from taskmix.sources.files import join
from taskmix.spec import Column, Net, from_json


class Executor(base_executor.BaseExecutor):
  """Checks a conversion and makes it an Examples artifact."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Links or copies every file of the conversion, the manifest last.

    Args:
      input_dict: nothing.
      output_dict: "examples": Examples; its split names are the net's splits.
      exec_properties: "net": Net as JSON; "shards": folder of the conversion;
        "fingerprint": for the cache alone.

    Raises:
      ValueError: if a file is missing or differs from the manifest, or the
        conversion was made for another net.
    """
    self._log_startup(input_dict, output_dict, exec_properties)
    net = Net.from_json(exec_properties["net"])
    folder = exec_properties["shards"].rstrip("/")
    require_whole(folder, require_same_examples(net, folder))
    examples = artifact_utils.get_single_instance(output_dict["examples"])
    files = [path for path in storage.list_files(folder) if path != join(folder, MANIFEST)]
    for path in [*files, join(folder, MANIFEST)]:
      storage.link_or_copy(path, join(examples.uri, path[len(folder) :].lstrip("/")))
    examples.split_names = artifact_utils.encode_split_names(list(net.splits))


def require_same_examples(net: Net, folder: str) -> Manifest:
  """The manifest, if the conversion gave examples as `net` wants them.

  Sources, phases, ratio, backbone and losses may differ: they do not change what
  an example holds.

  Raises:
    ValueError: names what differs.
  """
  manifest = read_manifest(folder)
  made = from_json(Net, json.dumps(manifest.net))
  aspects = {
    "columns": (_held(made), _held(net)),
    "kinds": (_rules(made), _rules(net)),
    "recipe": (made.recipe, net.recipe),
  }
  different = [name for name, (theirs, ours) in aspects.items() if theirs != ours]
  if different:
    raise ValueError(
      f"{folder} was converted for {made.name!r} with other {', '.join(different)} than those of "
      f"{net.name!r}; convert again, or take the net that it was made for"
    )
  return manifest


def _held(net: Net) -> list[Column]:
  """The columns by what an example holds; how an evaluation tells them apart does not count."""
  return [dataclasses.replace(column, slices=()) for column in net.columns]


def _rules(net: Net) -> list[tuple]:
  return [(kind.name, kind.min_iou, kind.max_iou, kind.closed) for kind in net.mixture.kinds]
