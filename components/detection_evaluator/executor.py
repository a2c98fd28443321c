"""The work of DetectionEvaluator."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from absl import logging
from tfx.components.evaluator import constants
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components.serving_check.executor import local_folder, served_model_uri
from taskmix.faces.detection_evaluation import WIDER_SETTINGS, read_val_lists
from taskmix.faces.detection_evaluation.held_out import HeldOut, eval_ids, held_out
from taskmix.faces.detection_evaluation.judgement import (
  BASELINE,
  CANDIDATE,
  REFERENCE,
  judge,
  wider_truth,
)
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.faces.detection_evaluation.written import write
from taskmix.spec import Net, from_json


class Executor(base_executor.BaseExecutor):
  """Runs the detectors on the photos held out, compares, and blesses or refuses."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Writes metrics, plots and blessing.

    Args:
      input_dict: "model": Model with a detector; "examples": Examples, as a
        conversion left them; optional "baseline_model": Model.
      output_dict: "evaluation": ModelEvaluation; "blessing": ModelBlessing, with
        what TFX's Evaluator sets.
      exec_properties: "net": Net as JSON; "data_root": folder of its sources;
        "policy": DetectionPolicy as JSON; "reference": a detector's folder or "";
        "wider_lists": folder of the official lists or ""; "fingerprint": of the
        reference, for the cache alone.

    Raises:
      ValueError: if no photo is held out, or a model is no detector.
    """
    self._log_startup(input_dict, output_dict, exec_properties)
    policy = from_json(DetectionPolicy, exec_properties["policy"])
    net = Net.from_json(exec_properties["net"])
    ids = eval_ids(artifact_utils.get_single_uri(input_dict["examples"]))
    held = held_out(net, data_root=exec_properties["data_root"], ids=ids)
    with _detectors(input_dict, exec_properties["reference"]) as detectors:
      judgement = judge(detectors, held, policy, wider=_official(exec_properties["wider_lists"], held))
    evaluation = artifact_utils.get_single_instance(output_dict["evaluation"])
    write(evaluation.uri, judgement, held=held, policy=policy)
    for verdict in judgement.verdicts:
      logging.log(logging.INFO if verdict.holds else logging.WARNING, "DetectionEvaluator: %s", verdict)
    blessing = artifact_utils.get_single_instance(output_dict["blessing"])
    _bless(blessing, judgement.blessed, input_dict)


@contextlib.contextmanager
def _detectors(input_dict: dict[str, list[Any]], reference: str) -> Iterator[dict[str, Any]]:
  """The candidate, and what it is compared with, loaded."""
  from taskmix.faces.detect import SavedDetector

  uris = {CANDIDATE: served_model_uri(input_dict["model"])}
  if input_dict.get("baseline_model"):
    uris[BASELINE] = served_model_uri(input_dict["baseline_model"])
  if reference:
    uris[REFERENCE] = reference
  with contextlib.ExitStack() as folders:
    yield {name: SavedDetector(folders.enter_context(local_folder(uri))) for name, uri in uris.items()}


def _official(folder: str, held: HeldOut) -> dict[str, Any]:
  if not folder:
    return {}
  return {setting: wider_truth(read_val_lists(folder, setting), held) for setting in WIDER_SETTINGS}


def _bless(blessing: Any, blessed: bool, input_dict: dict[str, list[Any]]) -> None:
  """Says it in properties and a file, as TFX's Evaluator does."""
  models = [
    (
      "model",
      constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY,
      constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY,
    ),
    (
      "baseline_model",
      constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY,
      constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY,
    ),
  ]
  for key, uri_property, id_property in models:
    if input_dict.get(key):
      model = artifact_utils.get_single_instance(input_dict[key])
      blessing.set_string_custom_property(uri_property, model.uri)
      blessing.set_int_custom_property(id_property, model.id)
  name, value = (
    (constants.BLESSED_FILE_NAME, constants.BLESSED_VALUE)
    if blessed
    else (constants.NOT_BLESSED_FILE_NAME, constants.NOT_BLESSED_VALUE)
  )
  io_utils.write_string_file(os.path.join(blessing.uri, name), "")
  blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, value)
