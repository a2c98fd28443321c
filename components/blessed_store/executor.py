"""The work of the blessed store's components."""

import json
import os
from typing import Any

from absl import logging
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import Artifact, artifact_utils
from tfx.utils import io_utils

RECORD = "record.json"

# Custom property of an artifact that stands for "there is none"; who reads it gets none.
ABSENT = "absent"


class Remember(base_executor.BaseExecutor):
  """Copies what was blessed into the folder, the record last: without one, an entry does not count."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Adds an entry, unless the model is not blessed or is the newest already.

    Args:
      input_dict: "model", "blessing", optional "statistics".
      output_dict: nothing.
      exec_properties: "folder": str; "keep": int.
    """
    folder, keep = exec_properties["folder"], int(exec_properties["keep"])
    model = artifact_utils.get_single_instance(input_dict["model"])
    if not model_utils.is_model_blessed(artifact_utils.get_single_instance(input_dict["blessing"])):
      logging.info("not blessed, so not remembered: %s", model.uri)
      return
    known = entries(folder)
    if known and record(folder, known[-1])["model"] == model.uri:
      return
    number = _next_number(folder)
    entry = os.path.join(folder, str(number))
    note: dict[str, Any] = {"model": model.uri}
    io_utils.copy_dir(model.uri, os.path.join(entry, "model"))
    if input_dict.get("statistics"):
      statistics = artifact_utils.get_single_instance(input_dict["statistics"])
      io_utils.copy_dir(statistics.uri, os.path.join(entry, "statistics"))
      note["split_names"] = statistics.split_names
    io_utils.write_string_file(os.path.join(entry, RECORD), json.dumps(note))
    for old in entries(folder)[:-keep]:
      fileio.remove(os.path.join(folder, str(old), RECORD))
      fileio.rmtree(os.path.join(folder, str(old)))


class LastModel(base_executor.BaseExecutor):
  """Copies the newest other model into the output."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Args: input_dict "candidate"; output_dict "model"; exec_properties "folder"."""
    folder = exec_properties["folder"]
    candidate = artifact_utils.get_single_uri(input_dict["candidate"])
    model = artifact_utils.get_single_instance(output_dict["model"])
    for number in reversed(entries(folder)):
      if record(folder, number)["model"] != candidate:
        io_utils.copy_dir(os.path.join(folder, str(number), "model"), model.uri)
        return
    mark_absent(model)


class LastStatistics(base_executor.BaseExecutor):
  """Copies the newest statistics into the output."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Args: output_dict "statistics"; exec_properties "folder"."""
    folder = exec_properties["folder"]
    statistics = artifact_utils.get_single_instance(output_dict["statistics"])
    for number in reversed(entries(folder)):
      splits = record(folder, number).get("split_names")
      if splits:
        io_utils.copy_dir(os.path.join(folder, str(number), "statistics"), statistics.uri)
        statistics.split_names = splits
        return
    mark_absent(statistics)


def entries(folder: str) -> list[int]:
  """Numbers of the whole entries, oldest first."""
  return [number for number in _numbers(folder) if fileio.exists(os.path.join(folder, str(number), RECORD))]


def record(folder: str, number: int) -> dict[str, Any]:
  """What is known of an entry: the model's URI, and the statistics' splits where it has some."""
  with fileio.open(os.path.join(folder, str(number), RECORD), "r") as file:
    return json.loads(file.read())


def mark_absent(artifact: Artifact) -> None:
  """Makes the artifact say that there is none."""
  artifact.set_int_custom_property(ABSENT, 1)
  # A store of objects keeps no empty folders.
  io_utils.write_string_file(os.path.join(artifact.uri, ABSENT), "")


def _numbers(folder: str) -> list[int]:
  if not fileio.exists(folder):
    return []
  names = (str(name).rstrip("/") for name in fileio.listdir(folder))
  return sorted(int(name) for name in names if name.isdecimal())


def _next_number(folder: str) -> int:
  """Also past what a killed execution left."""
  return max(_numbers(folder), default=0) + 1
