"""Which model a new one is compared with."""

import json
import os
from typing import Any

import ml_metadata as mlmd
from absl import logging
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import LatestBlessedModelStrategy
from tfx.dsl.io import fileio
from tfx.types import Artifact
from tfx.utils import path_utils

from components.lineage import written_by

CANDIDATE = "candidate"


class LastOtherBlessedModel(LatestBlessedModelStrategy):
  """The latest blessed model that is not the candidate itself.

      Resolver(
        strategy_class=LastOtherBlessedModel,
        config={"producer": "Trainer-pnet"},
        model=Channel(type=Model),
        model_blessing=Channel(type=ModelBlessing),
        candidate=trainer.outputs["model"],
      )

  TFX's own strategy gives, to a run that takes its model from the cache, that
  very model as the baseline: a comparison with itself, and a new input that
  makes the Evaluator run again. And it takes the latest of whatever net, also one
  whose files are gone, or that was asked another question (another input size or
  other tasks under the same name): an evaluation would die of either.
  """

  def __init__(self, producer: str):
    """Takes the id of the component whose models count."""
    self._producer = producer

  def resolve_artifacts(
    self, store: mlmd.MetadataStore, input_dict: dict[str, list[Artifact]]
  ) -> dict[str, list[Artifact]] | None:
    """Of the candidates under "model" and "model_blessing"; empty lists where none is blessed."""
    candidates = {artifact.id for artifact in input_dict[CANDIDATE]}
    left = [
      model
      for model in input_dict["model"]
      if model.id not in candidates and written_by(store, model.id, self._producer)
    ]
    while True:
      others = {"model": left, "model_blessing": input_dict["model_blessing"]}
      found = super().resolve_artifacts(store, others)
      if not found or not found["model"]:
        return {"model": [], "model_blessing": [], CANDIDATE: input_dict[CANDIDATE]}
      (model,) = found["model"]
      reason = _not_comparable(model, input_dict[CANDIDATE])
      if not reason:
        return {**found, CANDIDATE: input_dict[CANDIDATE]}
      logging.warning("The blessed model in %s is no baseline: %s", model.uri, reason)
      left = [other for other in left if other.id != model.id]


def _not_comparable(model: Artifact, candidates: list[Artifact]) -> str:
  """Why an evaluation cannot ask this model what it asks the candidate; "" if it can."""
  if not fileio.exists(os.path.join(_saved_model(model), "saved_model.pb")):
    return "its files are gone"
  before = _questions(model)
  for candidate in candidates:
    now = _questions(candidate)
    # What taskmix did not export, and a whole detector, has no net beside it.
    if before and now and before != now:
      return "its net has another input or other tasks"
  return ""


def _questions(model: Artifact) -> dict[str, Any]:
  """What a net takes and answers, from the file beside its graph; {} where there is none."""
  path = os.path.join(_saved_model(model), "assets.extra", "net.json")
  if not fileio.exists(path):
    return {}
  with fileio.open(path, "r") as file:
    net = json.load(file)["net"]
  return {
    "input_size": net["input_size"],
    "tasks": {
      task["name"]: [task["target"][key] for key in ("name", "dtype", "shape", "classes")]
      for task in net["tasks"]
    },
    "context": {column["name"]: [column["dtype"], column["shape"]] for column in net["context"]},
  }


def _saved_model(model: Artifact) -> str:
  return path_utils.serving_model_path(model.uri, path_utils.is_old_model_artifact(model))
