"""The work of CascadeAssembler."""

import os
import tempfile
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

from components import stage_models


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
      input_dict: "model_1" and, where they are, "model_2" and "model_3": Model.
      output_dict: "model": Model.
      exec_properties: "code": a fingerprint, for the cache alone.

    Raises:
      ValueError: if a model is none of taskmix, or its net has no face or box task.
    """
    from taskmix.faces.assembly import assemble

    detector = assemble(stage_models.uris(input_dict))
    target = path_utils.serving_model_dir(artifact_utils.get_single_uri(output_dict["model"]))
    with tempfile.TemporaryDirectory(prefix="taskmix-detector-") as scratch:
      local = os.path.join(scratch, "detector")
      detector.save(local)
      io_utils.copy_dir(local, target)
