"""What a run came to: counts, metrics, verdict, the pushed model."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from taskmix.spec import PHASES, Net, split_name

if TYPE_CHECKING:
  from tfx.types import Artifact

  from pipeline.local import Step


@dataclasses.dataclass(frozen=True)
class Summary:
  """A finished run.

  Attributes:
    counts: split -> examples.
    metrics: task -> metric -> value over the task's labelled eval samples.
    blessed: whether every gate blessed the model: every bound held, and a clean
      process answered.
    reasons: why not, one line each.
    warnings: what a policy let through.
    pushed: the folder of the pushed version, "" if none was.
    seconds: of the run.
    log: the file with everything that the libraries said.
  """

  counts: dict[str, int]
  metrics: dict[str, dict[str, float]]
  blessed: bool
  reasons: tuple[str, ...]
  warnings: tuple[str, ...]
  pushed: str
  seconds: float = 0.0
  log: str = ""


def summarise(net: Net, steps: Mapping[str, "Step"]) -> Summary:
  """Reads the artifacts of a finished run.

  Args:
    net: that was trained.
    steps: component id -> its step.
  """
  from taskmix import evaluation
  from taskmix.serving.check import read_report

  evaluation_uri = _output(steps, "Evaluator", "evaluation").uri
  within_bounds = os.path.exists(os.path.join(_output(steps, "Evaluator", "blessing").uri, "BLESSED"))
  served = read_report(_output(steps, "ServingCheck", "blessing").uri)
  pushed = _pushed_version(_output(steps, "ModelPusher", "pushed_model"))
  reasons = [f"Evaluator: {reason}" for reason in evaluation.read_failures(net, evaluation_uri)]
  reasons += [f"ServingCheck: {finding}" for finding in served.stops]
  blessed = within_bounds and served.blessed
  if blessed and not os.path.isdir(pushed):
    reasons.append(f"ModelPusher: the pushed version {pushed} is gone; delete the run folder to push anew")
  return Summary(
    counts=_split_counts(_output(steps, "StatisticsGen", "statistics").uri, net),
    metrics=evaluation.read_metrics(net, evaluation_uri),
    blessed=blessed and not reasons,
    reasons=tuple(reasons),
    warnings=tuple(f"ServingCheck: {found}" for found in served.findings if found.severity == "warn"),
    pushed=pushed,
  )


def _output(steps: Mapping[str, "Step"], component: str, key: str) -> "Artifact":
  (artifact,) = steps[component].outputs[key]
  return artifact


def _split_counts(uri: str, net: Net) -> dict[str, int]:
  from tensorflow_metadata.proto.v0 import statistics_pb2

  counts = {}
  for split in net.splits:
    path = pathlib.Path(uri, f"Split-{split}", "FeatureStats.pb")
    proto = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes())
    counts[split] = int(proto.datasets[0].num_examples) if proto.datasets else 0
  return counts


def _pushed_version(pushed: "Artifact") -> str:
  """The version's folder that the Pusher recorded; "" when it did not push."""
  if not pushed.get_int_custom_property("pushed"):
    return ""
  return pushed.get_string_custom_property("pushed_destination")


def text(net: Net, summary: Summary) -> str:
  """The lines that end a run."""
  lines = ["", "Samples             " + "".join(f"{phase:>10}" for phase in PHASES)]
  for kind in net.mixture.kinds:
    counts = "".join(f"{summary.counts[split_name(phase, kind.name)]:>10,}" for phase in PHASES)
    lines.append(f"  {kind.name:<18}{counts}   share {kind.share} of {net.mixture.total_share}")
  lines.append("Metrics on the held-out photos")
  for task in net.tasks:
    values = summary.metrics.get(task.name, {})
    bounds = {bound.metric: bound for bound in task.bounds}
    for metric in task.metrics:
      value = values.get(metric, math.nan)
      limits = f"   must be {bounds[metric].limits}" if metric in bounds else ""
      lines.append(f"  {task.name:<10}{metric:<22}{value:>10.4f}{limits}")
  if summary.blessed:
    lines.append("Blessed: every bound held, and a clean process answered as the Trainer did")
    lines.append(f"Pushed:  {summary.pushed}")
  else:
    lines.append("Not blessed, so not pushed:")
    lines += [f"  {reason}" for reason in summary.reasons]
  lines += [f"Warning: {warning}" for warning in summary.warnings]
  minutes, seconds = divmod(round(summary.seconds), 60)
  lines.append(f"Took {minutes} min {seconds} s.   Log: {summary.log}")
  lines.append("")
  lines.append("Next")
  if summary.pushed:
    lines.append(f"  saved_model_cli show --dir {summary.pushed} --all")
  lines.append(f"  tensorboard --logdir {pathlib.Path(summary.log).parent.parent / 'artifacts' / 'Trainer'}")
  lines.append("  taskmix run --config faces --data YOUR_FOLDER    (your own photos; see README.md)")
  return "\n".join(lines)
