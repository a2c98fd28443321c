"""The work of ModelPusher."""

import hashlib
import json
import os
from typing import Any

from absl import logging
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

from components import stage_channels
from components.serving_check.executor import local_folder, served_model_uri
from taskmix.report.material import Places, Plan
from taskmix.serving import object_store, versions
from taskmix.spec import Net, from_json


class Executor(base_executor.BaseExecutor):
  """Publishes the model, unless a gate did not bless it."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Publishes a version and says in the artifact whether and where.

    Args:
      input_dict: "model": Model; optional "model_blessing": ModelBlessing,
        "infra_blessing": InfraBlessing, "evaluation": ModelEvaluation, and of
        each net "examples_N" and "evaluation_N".
      output_dict: "pushed_model": PushedModel, whose custom properties become
        those of TFX's Pusher: `pushed`, `pushed_destination`, `pushed_version`.
        Its folder holds the version's record.
      exec_properties: "name", "push_directory": str; "keep": int; "net": Net as
        JSON or ""; "lineage": JSON object; "plan": Plan as JSON, or "" for no
        model card.

    Raises:
      PublishError: if the push directory cannot be written.
    """
    pushed = artifact_utils.get_single_instance(output_dict["pushed_model"])
    blessings = _blessings(input_dict)
    if not all(blessings.values()):
      refusing = ", ".join(gate for gate, blessed in blessings.items() if not blessed)
      logging.warning("ModelPusher: nothing is pushed: not blessed by %s", refusing)
      pushed.set_int_custom_property("pushed", 0)
      return
    record = versions.Record(
      model=exec_properties["name"],
      blessings=blessings,
      metrics=_metrics(input_dict, exec_properties.get("net") or ""),
      lineage=_lineage(input_dict, exec_properties),
    )
    base = exec_properties["push_directory"]
    publish = object_store.publish if "://" in base else versions.publish
    with local_folder(_model_uri(input_dict)) as model:
      card = _card(input_dict, exec_properties.get("plan") or "", str(model))
      version = publish(model, base, record=record, card=card, keep=int(exec_properties["keep"]))
    fileio.makedirs(pushed.uri)
    note = version.record or record
    io_utils.write_string_file(os.path.join(pushed.uri, versions.RECORD.name), note.to_json())
    pushed.set_int_custom_property("pushed", 1)
    pushed.set_string_custom_property("pushed_destination", str(version.path))
    pushed.set_string_custom_property("pushed_version", str(version.number))


def _blessings(input_dict: dict[str, list[Any]]) -> dict[str, bool]:
  """Gate -> its verdict, of the gates that are wired; one that said nothing did not bless."""
  verdicts = {}
  if "model_blessing" in input_dict:
    verdicts["Evaluator"] = any(map(model_utils.is_model_blessed, input_dict["model_blessing"]))
  if "infra_blessing" in input_dict:
    verdicts["ServingCheck"] = any(map(model_utils.is_infra_validated, input_dict["infra_blessing"]))
  return verdicts


def _card(input_dict: dict[str, list[Any]], plan_json: str, model: str) -> str:
  """The model card, in Markdown; "" without a plan."""
  from taskmix.report.gather import gather_card

  if not plan_json:
    return ""
  plan = from_json(Plan, plan_json)
  cascade = len(plan.config["stages"]) > 1
  detection = artifact_utils.get_single_uri(input_dict["evaluation"]) if cascade else ""
  places = Places(
    stage_channels.places(input_dict, plan.nets), detector=model if cascade else "", detection=detection
  )
  card, problems = gather_card(plan, places)
  for problem in problems:
    logging.warning("ModelPusher: of the model card, %s", problem)
  return card


def _model_uri(input_dict: dict[str, list[Any]]) -> str:
  """The files that ServingCheck asked, warm-up included; else the Trainer's."""
  for blessing in input_dict.get("infra_blessing", []):
    if blessing.get_int_custom_property("has_model"):
      return path_utils.stamped_model_path(blessing.uri)
  return served_model_uri(input_dict["model"])


def _metrics(input_dict: dict[str, list[Any]], net_json: str) -> dict[str, dict[str, float]]:
  """Of a net by its tasks, of a detector by what DetectionEvaluator measured; {} where nothing did."""
  from taskmix import evaluation

  evaluations = input_dict.get("evaluation")
  if not evaluations:
    return {}
  folder = artifact_utils.get_single_uri(evaluations)
  if net_json:
    return evaluation.read_metrics(Net.from_json(net_json), folder)
  path = os.path.join(folder, "metrics.json")
  if not fileio.exists(path):
    return {}
  with fileio.open(path, "r") as file:
    figures = json.load(file)["detectors"]["candidate"]
  settled = figures["operating_point"]
  found = {
    "average_precision": figures["average_precision"],
    "recall": settled["recall"],
    "precision": settled["precision"],
    "landmark_error": figures["landmarks"]["mean_error"],
  }
  return {"detector": {name: value for name, value in found.items() if value is not None}}


def _lineage(input_dict: dict[str, list[Any]], exec_properties: dict[str, Any]) -> dict[str, str]:
  """Every input's URI, the hash of the net, and what the pipeline adds."""
  lineage = {key: artifacts[0].uri for key, artifacts in sorted(input_dict.items()) if artifacts}
  net_json = exec_properties.get("net") or ""
  if net_json:
    lineage["net_hash"] = hashlib.blake2b(net_json.encode(), digest_size=8).hexdigest()
  return {**lineage, **json.loads(exec_properties["lineage"])}
