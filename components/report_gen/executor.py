"""The work of ReportGen."""

import dataclasses
import os
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components import stage_channels
from components.serving_check.executor import served_model_uri
from taskmix.report import CARD, FACTS, REPORT, page
from taskmix.report.gather import gather
from taskmix.report.material import Journal, Places, Plan
from taskmix.spec import from_json


class Executor(base_executor.BaseExecutor):
  """Reads every artifact that is there, and renders what it tells."""

  def Do(
    self,
    input_dict: dict[str, list[Any]],
    output_dict: dict[str, list[Any]],
    exec_properties: dict[str, Any],
  ) -> None:
    """Writes the report.

    Args:
      input_dict: those of `stage_channels`, and "detector", "detection",
        "serving" and "pushed"; all optional.
      output_dict: "report": RunReport.
      exec_properties: "plan": Plan as JSON; "journal": file of a Journal, or "";
        "latest": file to write the page to as well, or "".
    """
    plan = from_json(Plan, exec_properties["plan"])
    journal = _journal(exec_properties["journal"])
    facts = gather(plan, _places(input_dict, plan, journal), journal)
    folder = artifact_utils.get_single_uri(output_dict["report"])
    html = page.render(facts)
    fileio.makedirs(folder)
    io_utils.write_string_file(os.path.join(folder, REPORT), html)
    io_utils.write_string_file(os.path.join(folder, FACTS), facts.to_json())
    if facts.card:
      io_utils.write_string_file(os.path.join(folder, CARD), facts.card)
    if exec_properties["latest"]:
      fileio.makedirs(os.path.dirname(exec_properties["latest"]))
      io_utils.write_string_file(exec_properties["latest"], html)


def _journal(path: str) -> Journal:
  if not path:
    return Journal()
  with fileio.open(path, "r") as file:
    return from_json(Journal, file.read())


def _places(input_dict: dict[str, list[Any]], plan: Plan, journal: Journal) -> Places:
  nets = stage_channels.places(input_dict, plan.nets)
  failure = journal.failure
  if failure and failure.where:
    # TFX removes what a failed component wrote; the gate's report lies elsewhere.
    names = [f"ExampleGate-{plan.stage_net(place).name}" for place in range(plan.nets)]
    nets = tuple(
      dataclasses.replace(each, gate_report=failure.where) if name == failure.component else each
      for name, each in zip(names, nets, strict=True)
    )
  return Places(
    nets,
    detector=served_model_uri(input_dict["detector"]) if input_dict.get("detector") else "",
    detection=_uri(input_dict, "detection"),
    serving=_uri(input_dict, "serving"),
    pushed=_pushed(input_dict),
  )


def _uri(input_dict: dict[str, list[Any]], key: str) -> str:
  return artifact_utils.get_single_uri(input_dict[key]) if input_dict.get(key) else ""


def _pushed(input_dict: dict[str, list[Any]]) -> str:
  """The pushed version; "" where a gate kept the ModelPusher from pushing."""
  if not input_dict.get("pushed"):
    return ""
  pushed = artifact_utils.get_single_instance(input_dict["pushed"])
  if not pushed.get_int_custom_property("pushed"):
    return ""
  return pushed.get_string_custom_property("pushed_destination")
