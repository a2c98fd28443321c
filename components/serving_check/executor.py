"""The work of ServingCheck."""

import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from absl import logging
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

from taskmix.gates import GateError
from taskmix.serving import check
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import from_json, split_parts

REPORT = "report.json"

# TFX's own conventions, so that its Pusher can read this blessing too.
BLESSED, NOT_BLESSED = "INFRA_BLESSED", "INFRA_NOT_BLESSED"


class Executor(base_executor.BaseExecutor):
  """Has the model served, asks it, and blesses it or says why not."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Writes blessing and report; raises GateError if only a budget was passed.

    Args:
      input_dict: "model": Model; "examples": Examples, optional.
      output_dict: "blessing": InfraBlessing, with custom properties `blessed`
        and `has_model`, and `report.json` (a check.Report) in its folder.
      exec_properties: "name": str; "photos": JSON list of paths;
        "constants": JSON object; "policy": ServingPolicy as JSON.
    """
    policy = from_json(ServingPolicy, exec_properties["policy"])
    blessing = artifact_utils.get_single_instance(output_dict["blessing"])
    model_uri = served_model_uri(input_dict["model"])
    with tempfile.TemporaryDirectory(prefix="taskmix-check-") as scratch:
      pushed = pathlib.Path(scratch, "pushed")
      with local_folder(model_uri) as model:
        report = check.check_model(
          model,
          pushed,
          examples=_examples(input_dict.get("examples") or [], policy.examples),
          photos=[_read(path) for path in json.loads(exec_properties["photos"])],
          constants=json.loads(exec_properties["constants"]),
          policy=policy,
          name=exec_properties["name"],
        )
      fileio.makedirs(blessing.uri)
      io_utils.write_string_file(os.path.join(blessing.uri, REPORT), report.to_json())
      for finding in report.findings:
        logging.warning("ServingCheck: %s: %s", finding.severity, finding)
      if report.depends_on_the_machine:
        # A verdict would be cached; a failure is tried again.
        raise GateError(_over_budget(report, model_uri))
      if pushed.exists():
        io_utils.copy_dir(str(pushed), path_utils.stamped_model_path(blessing.uri))
      mark(blessing, blessed=report.blessed, has_model=pushed.exists())


def mark(blessing: Any, *, blessed: bool, has_model: bool) -> None:
  """Says it in the artifact's properties and in a file, as InfraValidator does."""
  io_utils.write_string_file(os.path.join(blessing.uri, BLESSED if blessed else NOT_BLESSED), "")
  blessing.set_int_custom_property("blessed", int(blessed))
  blessing.set_int_custom_property("has_model", int(has_model))


def served_model_uri(models: list[Any]) -> str:
  """The SavedModel's folder in a Model artifact."""
  model = artifact_utils.get_single_instance(models)
  return path_utils.serving_model_path(model.uri, path_utils.is_old_model_artifact(model))


@contextlib.contextmanager
def local_folder(uri: str) -> Iterator[pathlib.Path]:
  """The folder itself, or a copy of it on this machine while the context is open."""
  if "://" not in uri:
    yield pathlib.Path(uri)
    return
  with tempfile.TemporaryDirectory(prefix="taskmix-model-") as scratch:
    copy = os.path.join(scratch, "model")
    io_utils.copy_dir(uri, copy)
    yield pathlib.Path(copy)


def _examples(artifacts: list[Any], wanted: int) -> list[bytes]:
  """Serialized examples from the eval splits, as many of each as of the others."""
  import tensorflow as tf

  if not artifacts:
    return []
  names = artifact_utils.decode_split_names(artifact_utils.get_single_instance(artifacts).split_names)
  splits = [name for name in names if split_parts(name)[0] == "eval"] or names
  records: list[bytes] = []
  for split in splits:
    uri = artifact_utils.get_split_uri(artifacts, split)
    files = sorted(str(path) for path in fileio.glob(io_utils.all_files_pattern(uri)))
    compression = "GZIP" if files and files[0].endswith(".gz") else ""
    dataset = tf.data.TFRecordDataset(files, compression).take(-(-wanted // len(splits)))
    records += [bytes(record) for record in dataset.as_numpy_iterator()]
  return records[:wanted]


def _read(path: str) -> bytes:
  with fileio.open(path, "rb") as file:
    return file.read()


def _over_budget(report: check.Report, model_uri: str) -> str:
  lines = "\n".join(f"  {finding}" for finding in report.stops)
  return (
    f"ServingCheck stopped the run: the model answers well, but not within its budget\n{lines}\n"
    f"  Run again on a quieter machine, or raise the budget in the config's ServingPolicy. "
    f"The model: {model_uri}"
  )
