"""The work of ModelGate."""

import json
import os
from typing import Any

from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import io_utils

from taskmix import evaluation
from taskmix.gates import GateError
from taskmix.spec import Net

REPORT = "report.json"


class Executor(base_executor.BaseExecutor):
  """Says that the net is blessed, or stops the run with what it fell short of."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Writes the report; raises GateError if the blessing is none.

    Args:
      input_dict: "blessing": ModelBlessing; "evaluation": ModelEvaluation.
      output_dict: "report": GateReport.
      exec_properties: "net": Net as JSON.
    """
    net = Net.from_json(exec_properties["net"])
    folder = artifact_utils.get_single_uri(input_dict["evaluation"])
    blessed = model_utils.is_model_blessed(artifact_utils.get_single_instance(input_dict["blessing"]))
    if not blessed:
      raise GateError(refusal(net, evaluation.read_failures(net, folder), folder))
    report = os.path.join(artifact_utils.get_single_uri(output_dict["report"]), REPORT)
    io_utils.write_string_file(report, json.dumps({"net": net.name, "blessed": True}))


def refusal(net: Net, failures: list[str], folder: str) -> str:
  """What a stopped run ends with: the gate, each number against its bound, where to look."""
  lines = "".join(f"\n  {failure}" for failure in failures)
  return (
    f"Evaluator-{net.name} did not bless the net {net.name}, so nothing is built on it:{lines}\n"
    f"  Look at the evaluation in {folder}; train longer, or change the bounds of the net's tasks."
  )
