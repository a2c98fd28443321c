"""The work of CascadeAssembler."""

import os
import tempfile
from typing import Any

from absl import logging
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

from components import stage_models
from taskmix.spec import Net


class Executor(base_executor.BaseExecutor):
  """Assembles the nets and saves the detector."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Writes the SavedModel.

    Args:
      input_dict: "model_1" and, where they are, "model_2" and "model_3": Model;
        "examples": Examples, for a goal.
      output_dict: "model": Model.
      exec_properties: "goal": of the thresholds, or ""; "net": Net as JSON and
        "data_root": folder of its sources, for a goal; "code": a fingerprint, for
        the cache alone.

    Raises:
      ValueError: if a model is none of taskmix, its net has no face or box task,
        or no thresholds reach the goal.
    """
    from taskmix.faces.assembly import assemble

    detector = assemble(stage_models.uris(input_dict))
    target = path_utils.serving_model_dir(artifact_utils.get_single_uri(output_dict["model"]))
    with tempfile.TemporaryDirectory(prefix="taskmix-detector-") as scratch:
      local = os.path.join(scratch, "detector")
      detector.save(local)
      if exec_properties["goal"]:
        _tune(local, artifact_utils.get_single_uri(input_dict["examples"]), exec_properties)
      io_utils.copy_dir(local, target)


def _tune(detector: str, examples: str, exec_properties: dict[str, Any]) -> None:
  """Writes the thresholds that reach the goal on the photos held out."""
  from taskmix.faces.detection_evaluation.held_out import eval_ids, held_out
  from taskmix.faces.tuning import Goal, tune_model

  net = Net.from_json(exec_properties["net"])
  held = held_out(net, data_root=exec_properties["data_root"], ids=eval_ids(examples))
  tuned = tune_model(detector, held, Goal.parse(exec_properties["goal"]))
  logging.info("CascadeAssembler: %s", tuned)
