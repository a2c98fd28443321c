"""What a run came to: counts, metrics, verdict, the pushed model."""

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.config import node_id
from taskmix.evaluation import EvaluationPolicy
from taskmix.gates import findings
from taskmix.spec import PHASES, Net, split_name

if TYPE_CHECKING:
  from tfx.types import Artifact

  from pipeline.local import Step


_DETECTION = "DetectionEvaluator"


@dataclasses.dataclass(frozen=True)
class NetSummary:
  """What became of one net.

  Attributes:
    net: that was trained.
    counts: split -> examples.
    metrics: task -> metric -> value over the task's labelled eval samples.
  """

  net: Net
  counts: dict[str, int]
  metrics: dict[str, dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Summary:
  """A finished run.

  Attributes:
    nets: in their order.
    blessed: whether every gate blessed what was made: every bound held, and, of
      a whole run, a clean process answered.
    reasons: why not, one line each.
    warnings: what a policy let through, each with its gate.
    pushed: the folder of the pushed version, "" if none was.
    whole: whether the run went on to the push; False for a part of one.
    detection: name -> figure of the detector on the held-out photos; of a cascade.
    look_at: where the reasons are told in full; folders and files.
    picture: held-out photos with what the pushed detector found, "" for none.
    seconds: of the run.
    log: the file with everything that the libraries said.
    report: the page that shows all of this, "" for none.
  """

  nets: tuple[NetSummary, ...]
  blessed: bool
  reasons: tuple[str, ...]
  warnings: tuple[str, ...]
  pushed: str
  whole: bool = True
  detection: Mapping[str, float] = dataclasses.field(default_factory=dict)
  look_at: tuple[str, ...] = ()
  picture: str = ""
  seconds: float = 0.0
  log: str = ""
  report: str = ""


def summarise(
  nets: Sequence[Net],
  steps: Mapping[str, "Step"],
  *,
  policy: EvaluationPolicy = EvaluationPolicy(),  # noqa: B008 - frozen
) -> Summary:
  """Reads the artifacts of a finished run.

  Args:
    nets: that were trained.
    steps: component id -> its step.
    policy: by which their metrics were judged.
  """
  reasons, warnings, look_at = [], [], []
  for net in nets:
    warnings += _gate_warnings(net, steps)
    warnings += _evaluation_warnings(net, steps, policy)
    if refusals := _refusals(net, steps):
      reasons += refusals
      look_at.append(_output(steps, node_id("Evaluator", net), "evaluation").uri)
  whole = "ModelPusher" in steps
  pushed, detection = "", {}
  if _DETECTION in steps:
    detection, failures, let_pass = _detection(_output(steps, _DETECTION, "evaluation").uri)
    reasons += [f"{_DETECTION}: {failure}" for failure in failures]
    warnings += [f"{_DETECTION}: {warning}" for warning in let_pass]
    if failures:
      look_at.append(_output(steps, _DETECTION, "evaluation").uri)
  if whole:
    from taskmix.serving.check import read_report

    report = _output(steps, "ServingCheck", "blessing").uri
    served = read_report(report)
    reasons += [f"ServingCheck: {finding}" for finding in served.stops]
    if served.stops:
      look_at.append(os.path.join(report, "report.json"))
    warnings += [f"ServingCheck: {found}" for found in served.findings if found.severity == "warn"]
    pushed = _pushed_version(_output(steps, "ModelPusher", "pushed_model"))
    if not reasons and not os.path.isdir(pushed):
      reasons.append(f"ModelPusher: the pushed version {pushed} is gone; delete the run folder to push anew")
  return Summary(
    nets=tuple(_net_summary(net, steps) for net in nets),
    blessed=not reasons,
    reasons=tuple(reasons),
    warnings=tuple(warnings),
    pushed=pushed,
    whole=whole,
    detection=detection,
    look_at=tuple(look_at),
  )


def counts_of(step: "Step", nets: Sequence[Net]) -> str:
  """What a component left, in a few words; "" where its own progress has told, or nothing is to be told."""
  name, _, of = step.component.partition("-")
  net = next((net for net in nets if net.name == of), None)
  if name in ("CropExampleGen", "HardExampleGen"):
    return _made(step.outputs["examples"][0].uri, step)
  if name == "StatisticsGen" and net:
    examples = sum(_split_counts(step.outputs["statistics"][0].uri, net).values())
    return f"{examples:,} examples{_rate(examples, step)}"
  if name in ("Evaluator", _DETECTION):
    blessed = os.path.exists(os.path.join(step.outputs["blessing"][0].uri, "BLESSED"))
    return "blessed" if blessed else "not blessed"
  return ""


def _made(uri: str, step: "Step") -> str:
  """Examples and photos of a conversion."""
  from taskmix.examples.manifest import read_manifest

  manifest = read_manifest(uri)
  examples, photos = sum(manifest.counts.values()), manifest.photos
  bad = f", {photos['quarantined']:,} quarantined" if photos["quarantined"] else ""
  return f"{examples:,} examples of {photos['all']:,} photos{bad}{_rate(photos['all'], step, unit='photos')}"


def _rate(done: int, step: "Step", *, unit: str = "examples") -> str:
  """ ", 120 photos/s" of a component that ran."""
  return "" if step.cached else f", {done / max(step.seconds, 1e-9):,.0f} {unit}/s"


def _gate_warnings(net: Net, steps: Mapping[str, "Step"]) -> list[str]:
  """What the ExampleGate found and its policy let pass, without the names of each."""
  component = node_id("ExampleGate", net)
  report = os.path.join(_output(steps, component, "report").uri, "report.json")
  found = findings.read_report(report)
  return [f"{component}: {str(finding).splitlines()[0]} (all in {report})" for finding in found]


def _evaluation_warnings(net: Net, steps: Mapping[str, "Step"], policy: EvaluationPolicy) -> list[str]:
  from taskmix import evaluation

  component = node_id("Evaluator", net)
  found = evaluation.read_warnings(net, _output(steps, component, "evaluation").uri, policy)
  return [f"{component}: {warning}" for warning in found]


def _detection(uri: str) -> tuple[dict[str, float], list[str], list[str]]:
  """The detector's figures, the bounds that refused it, and those that a policy let pass."""
  judged = json.loads(pathlib.Path(uri, "metrics.json").read_text())
  figures = judged["detectors"]["candidate"]
  settled, landmarks = figures["operating_point"], figures["landmarks"]
  found = {
    "average precision": figures["average_precision"],
    "recall": settled["recall"],
    "precision": settled["precision"],
    "landmark error": landmarks["mean_error"],
  }
  broken: dict[str, list[str]] = {"stop": [], "warn": []}
  for verdict in judged["verdicts"]:
    if not verdict["holds"]:
      line = f"{verdict['name']} is {_number(verdict['value'])}, bound {verdict['bound']:g}"
      broken[verdict["severity"]].append(line)
  figures = {name: math.nan if value is None else value for name, value in found.items()}
  return figures, broken["stop"], broken["warn"]


def _number(value: float | None) -> str:
  return "not measured" if value is None else f"{value:.4f}"


def _refusals(net: Net, steps: Mapping[str, "Step"]) -> list[str]:
  """Why the Evaluator did not bless the net."""
  from taskmix import evaluation

  component = node_id("Evaluator", net)
  if os.path.exists(os.path.join(_output(steps, component, "blessing").uri, "BLESSED")):
    return []
  failures = evaluation.read_failures(net, _output(steps, component, "evaluation").uri)
  return [f"{component}: {failure}" for failure in failures]


def _net_summary(net: Net, steps: Mapping[str, "Step"]) -> NetSummary:
  from taskmix import evaluation

  return NetSummary(
    net,
    counts=_split_counts(_output(steps, node_id("StatisticsGen", net), "statistics").uri, net),
    metrics=evaluation.read_metrics(net, _output(steps, node_id("Evaluator", net), "evaluation").uri),
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


def text(summary: Summary) -> str:
  """The lines that end a run."""
  lines: list[str] = []
  for each in summary.nets:
    lines += ["", *_net_lines(each)]
  lines.append("")
  if summary.detection:
    lines.append("detector on the held-out photos")
    lines += [f"  {name:<32}{value:>10.4f}" for name, value in summary.detection.items()]
    lines.append("")
  lines += [f"Warning: {warning}" for warning in summary.warnings]
  minutes, seconds = divmod(round(summary.seconds), 60)
  took = f"Took {minutes} min {seconds} s.   Log: {summary.log}"
  if summary.report:
    took = f"Report:  {summary.report}\n{took}"
  if not summary.blessed:
    # Last, so that it stands where a person looks, and where a CI log is cut.
    reasons = [f"  {reason}" for reason in summary.reasons]
    look_at = [f"Look at {place}" for place in summary.look_at]
    return "\n".join([*lines, took, "", "Not blessed, so not pushed:", *reasons, *look_at])
  lines += _verdict(summary)
  if summary.picture:
    lines.append(f"Picture: {summary.picture}")
  return "\n".join([*lines, took, "", "Next", *_next_commands(summary)])


def as_json(summary: Summary) -> dict[str, Any]:
  """The same for machines; figures that are not there are NaN."""
  fields = {field.name: getattr(summary, field.name) for field in dataclasses.fields(summary)}
  nets = {each.net.name: {"counts": each.counts, "metrics": each.metrics} for each in summary.nets}
  return {**fields, "nets": nets, "detection": dict(summary.detection)}


def _verdict(summary: Summary) -> list[str]:
  """Of a run that nothing refused."""
  held = "every bound held" if not summary.warnings else "a policy let the warnings above pass"
  if not summary.whole:
    return [f"Blessed: {held}. This was a part of the run: nothing is pushed"]
  return [f"Blessed: {held}, and a clean process answered as the Trainer did", f"Pushed:  {summary.pushed}"]


def _net_lines(summary: NetSummary) -> list[str]:
  net = summary.net
  lines = [f"{net.name:<20}" + "".join(f"{phase:>10}" for phase in PHASES)]
  for kind in net.mixture.kinds:
    counts = "".join(f"{summary.counts[split_name(phase, kind.name)]:>10,}" for phase in PHASES)
    lines.append(f"  {kind.name:<18}{counts}   share {kind.share} of {net.mixture.total_share}")
  lines.append("  on the held-out photos")
  for task in net.tasks:
    values = summary.metrics.get(task.name, {})
    bounds = {bound.metric: bound for bound in task.bounds}
    for metric in task.metrics:
      value = values.get(metric, math.nan)
      limits = f"   must be {bounds[metric].limits}" if metric in bounds else ""
      lines.append(f"  {task.name:<10}{metric:<22}{value:>10.4f}{limits}")
  return lines


def _next_commands(summary: Summary) -> list[str]:
  commands = []
  if summary.picture:
    commands.append(f"  taskmix detect {pathlib.Path(summary.pushed).parent} YOUR_PHOTO.jpg --out drawn")
  if summary.pushed:
    commands.append(f"  saved_model_cli show --dir {summary.pushed} --all")
  artifacts = pathlib.Path(summary.log).parent.parent / "artifacts"
  logs = ",".join(f"{each.net.name}:{artifacts / node_id('Trainer', each.net)}" for each in summary.nets)
  commands.append(f"  tensorboard --logdir_spec {logs}")
  commands.append("  taskmix run --config faces --data YOUR_FOLDER    (your own photos; see README.md)")
  return commands
