"""A net's training, its metrics and its size, from the artifacts of Trainer and Evaluator."""

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taskmix import evaluation
from taskmix.model.history import TOTAL
from taskmix.report import facts
from taskmix.report.gather_data import read_json
from taskmix.spec import Bound, Net, Task, Training

# As `taskmix.model.training` and `taskmix.evaluation` name them.
_HISTORY, _AUDIT, _COUNT = "history.json", "audit.json", "example_count"

# Points of a curve: more are not seen.
_POINTS = 240


def read_training(net: Net, settings: Training, model_run: str) -> facts.Training:
  """What the Trainer left: curves a task, what was drawn, how it went."""
  told = read_json(model_run, _HISTORY)
  records = told["records"]
  speeds = [record["steps_per_s"] for record in records if record["phase"] == "train"]
  words = {
    "batch size": f"{settings.batch_size:,}",
    "steps": f"{told['steps']:,}",
    "learning rate": f"{settings.learning_rate:g}, after a warm-up of {settings.warmup_steps} steps",
    "augmentation": ", ".join(settings.augment) or "none",
    "seed": str(settings.seed),
    "input": told["input_engine"],
    "computed on": told["compute"],
    "speed": f"{sorted(speeds)[len(speeds) // 2]:,.1f} steps/s (median)" if speeds else "not measured",
  }
  if told["resumed_at"]:
    words["taken up again at step"] = f"{told['resumed_at']:,}"
  names = [*(task.name for task in net.tasks), *([TOTAL] if len(net.tasks) > 1 else [])]
  curves = tuple(_task_curves(name, records) for name in names)
  audits = tuple(_audit(each) for each in read_json(model_run, _AUDIT)["runs"])
  return facts.Training(told["steps"], words, curves, audits)


def _task_curves(task: str, records: Sequence[Mapping[str, Any]]) -> facts.TaskCurves:
  def curve(phase: str, field: str, key: str) -> facts.Curve:
    rows = [row for row in records if row["phase"] == phase and key in row[field]]
    rows = thinned(rows, _POINTS)
    x = tuple(float(row["step"]) for row in rows)
    return facts.Curve(phase, x, tuple(facts.number(row[field][key]) for row in rows))

  losses = tuple(each for phase in ("train", "eval") if (each := curve(phase, "losses", task)).x)
  accuracy = curve("eval", "metrics", f"{task}_accuracy")
  return facts.TaskCurves(
    task, losses, (dataclasses.replace(accuracy, name="accuracy"),) if accuracy.x else ()
  )


def thinned(rows: Sequence[Any], most: int) -> list[Any]:
  """At most `most` of the rows, evenly, first and last among them."""
  if len(rows) <= most:
    return list(rows)
  return [rows[round(place * (len(rows) - 1) / (most - 1))] for place in range(most)]


def _audit(told: Mapping[str, Any]) -> facts.Audit:
  kinds = tuple(
    facts.AuditedKind(
      name,
      wanted=kind["wanted"],
      least=kind["min"],
      most=kind["max"],
      size=kind["size"],
      epochs=kind["epochs"],
      coverage=kind["coverage"],
      duplicates=kind["duplicates"],
      strangers=kind["strangers"],
    )
    for name, kind in told["kinds"].items()
  )
  return facts.Audit(told["first_step"], told["steps"], kinds)


def read_metrics(net: Net, folder: str) -> tuple[facts.Metric, ...]:
  """Every metric in every slice that labels its task, beside the last blessed model's."""
  ours = evaluation.read_slices(net, folder)
  theirs = evaluation.read_slices(net, folder, baseline=True)
  return tuple(_metrics(net, ours, theirs))


def _metrics(
  net: Net,
  ours: Mapping[tuple[str, str], evaluation.Metrics],
  theirs: Mapping[tuple[str, str], evaluation.Metrics],
) -> Iterator[facts.Metric]:
  for task in net.tasks:
    bounds = {bound.metric: bound for bound in task.bounds}
    for (column, name), metrics in ours.items():
      samples = facts.number(metrics[task.name].get(_COUNT))
      if not samples:
        continue
      before = theirs.get((column, name), {}).get(task.name, {})
      for metric in task.metrics:
        bound = bounds.get(metric)
        yield facts.Metric(
          task.name,
          metric,
          column,
          name,
          samples,
          value=_measured(metric, metrics[task.name].get(metric)),
          baseline=_measured(metric, before.get(metric)),
          bound=bound.limits if bound and (column, name) == evaluation.OVERALL else "",
          higher_is_better=not metric.startswith("mean_") if bound is None else bound.higher_is_better,
        )


def _measured(metric: str, value: float | None) -> float | None:
  # TFMA gives an AUC of 0 to a slice that holds one class alone, where there is none.
  return None if metric == "auc" and value == 0 else facts.number(value)


def bound_checks(
  net: Net, metrics: Sequence[facts.Metric], policy: evaluation.EvaluationPolicy
) -> tuple[facts.Check, ...]:
  """Every bound of the net's tasks against what was measured over all samples."""
  measured = {(each.task, each.metric): each for each in metrics if not each.column}
  return tuple(
    check
    for task in net.tasks
    for bound in task.bounds
    for check in _checks(net, task, bound, measured.get((task.name, bound.metric)), policy)
  )


def _checks(
  net: Net, task: Task, bound: Bound, found: facts.Metric | None, policy: evaluation.EvaluationPolicy
) -> Iterator[facts.Check]:
  gate, name = f"Evaluator-{net.name}", f"{task.name} {bound.metric}"
  value = math.nan if found is None or found.value is None else found.value
  severity = "warn" if "bounds" in policy.warn else "stop"
  yield facts.Check(gate, name, _words(value), bound.limits, bound.holds(value), severity)
  if bound.max_worsening is not None and found is not None and found.baseline is not None:
    worse = bound.worsening(value, found.baseline)
    yield facts.Check(
      gate,
      f"{name} against the last blessed",
      f"{_words(value)}, was {_words(found.baseline)}",
      f"worse by at most {bound.max_worsening:g}",
      worse <= bound.max_worsening,
      "warn" if "worsening" in policy.warn else "stop",
    )


def _words(value: float) -> str:
  return "not measured" if math.isnan(value) else f"{value:.4f}"


def read_layers(net: Net) -> tuple[facts.Layer, ...]:
  """The net's layers, as they are built."""
  from taskmix.model.build import build

  return tuple(
    facts.Layer(layer.name, type(layer).__name__, _shape(layer), int(layer.count_params()))
    for layer in build(net).layers
  )


def _shape(layer: Any) -> str:
  """Of one sample's output; "" where there are several."""
  shape = getattr(layer.output, "shape", None)
  return "" if shape is None else " x ".join(str(side) for side in shape[1:])


def folder_size(folder: str) -> int | None:
  """Bytes of a local folder's files; None elsewhere."""
  if "://" in folder or not os.path.isdir(folder):
    return None
  files = (os.path.join(root, name) for root, _, names in os.walk(folder) for name in names)
  return sum(os.path.getsize(path) for path in files)


def read_served(folder: str) -> tuple[facts.Served, ...]:
  """What the serving check measured, a row a kind of server."""
  told = read_json(folder, "report.json")
  asked = sum(told["asked"].values())
  return tuple(
    facts.Served(server, each.get("load_seconds"), each.get("answer_seconds"), each.get("memory_mib"), asked)
    for server, each in told["measured"].items()
  )
