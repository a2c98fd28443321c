"""`taskmix evaluate`: a model on annotated photos, by what the DAG judges it by.

a detector      DetectionEvaluator's figures on photos with every face marked
a net's model   Evaluator's metrics a task on what a config's sources give
"""

import dataclasses
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

from pipeline.config import Config
from taskmix.spec import Net, Phases, split_name


def is_detector(model: pathlib.Path) -> bool:
  """Whether the SavedModel at the folder, or in its latest version, is a whole detector.

  Raises:
    ValueError: if there is no SavedModel.
  """
  from taskmix.faces.detect import latest_version

  return not (latest_version(model) / "assets.extra" / "net.json").is_file()


def detector(
  model: pathlib.Path,
  *,
  config: Config,
  data: pathlib.Path,
  annotations: str,
  images: str,
  format: str,
  out: pathlib.Path | None = None,
) -> Mapping[str, Any]:
  """The figures of a detector at its own thresholds, and whether the config's bounds hold.

  Args:
    model: a detector's SavedModel, or the folder of its versions.
    config: its `detection` has the bounds.
    data: folder of the photos, of which none was trained on.
    annotations, images, format: as of `held_out.annotated`.
    out: folder for metrics.json, curves and the worst photos; None writes none.

  Raises:
    ValueError: if the model is no detector, or the annotations are unusable.
  """
  from taskmix.faces.detect import SavedDetector
  from taskmix.faces.detection_evaluation.held_out import annotated
  from taskmix.faces.detection_evaluation.judgement import CANDIDATE, judge
  from taskmix.faces.detection_evaluation.written import write

  held = annotated(format, annotations, images=images, data_root=str(data))
  judged = judge({CANDIDATE: SavedDetector(model)}, held, config.detection)
  if out is not None:
    write(str(out), judged, held=held, policy=config.detection)
  figures = judged.figures[CANDIDATE]
  settled, landmarks = figures["operating_point"], figures["landmarks"]
  return {
    "photos": len(held.faces),
    "faces": sum(int(faces.counted.sum()) for faces in held.faces.values()),
    "average_precision": figures["average_precision"],
    "recall": settled["recall"],
    "precision": settled["precision"],
    "landmark_error": landmarks["mean_error"],
    "blessed": judged.blessed,
    "failed": [str(verdict) for verdict in judged.verdicts if not verdict.holds],
  }


def net(model: pathlib.Path, *, config: Config, data: pathlib.Path) -> Mapping[str, Any]:
  """The metrics of a net's model, task by task, on all that the config's sources give.

  Args:
    model: a net's SavedModel as a run pushed or trained it, or the folder of its versions.
    config: its net of the model's name says where samples come from, how they are cut, and what
      bounds the tasks must keep.
    data: the data folder.

  Raises:
    ValueError: if the config has no such net, or the data cannot be read.
  """
  from taskmix import evaluation
  from taskmix.examples.convert import convert
  from taskmix.faces.detect import latest_version

  folder = latest_version(model)
  trained = Net.from_json(_net_json(folder))
  (*_, stage) = config.through(trained.name)
  wanted = _all_evaluate(dataclasses.replace(trained, sources=stage.net.sources, recipe=stage.net.recipe))
  with tempfile.TemporaryDirectory(prefix="taskmix-evaluate-") as scratch:
    examples = str(pathlib.Path(scratch, "examples"))
    made = convert(wanted, data_root=str(data), output=examples, conversion=config.conversion)
    results = str(pathlib.Path(scratch, "results"))
    evaluation.analyse(wanted, str(folder), examples=f"{examples}/Split-eval-*/*", results=results)
    metrics = evaluation.read_metrics(wanted, results)
  counts = {kind: made.counts[split_name("eval", kind)] for kind in wanted.mixture.names}
  failed = [
    f"{task.name} {bound.metric} is {value:.4f}, must be {bound.limits}"
    for task in stage.net.tasks
    for bound in task.bounds
    if not bound.holds(value := metrics.get(task.name, {}).get(bound.metric, float("nan")))
  ]
  return {"counts": counts, "metrics": metrics, "blessed": not failed, "failed": failed}


def _net_json(folder: pathlib.Path) -> str:
  import json

  return json.dumps(json.loads((folder / "assets.extra" / "net.json").read_text())["net"])


def _all_evaluate(net: Net) -> Net:
  """The same net with every photo held out."""
  held_out = tuple(dataclasses.replace(source, phase="eval") for source in net.sources)
  return dataclasses.replace(net, sources=held_out, phases=Phases())


def text(figures: Mapping[str, Any]) -> str:
  """The same to read."""
  lines = []
  for name, value in figures.items():
    if name == "metrics":
      for task, values in value.items():
        lines += [f"{task:<12}{metric:<24}{number:>10.4f}" for metric, number in values.items()]
    elif name == "counts":
      lines += [f"{kind:<12}{'examples':<24}{count:>10,}" for kind, count in value.items()]
    elif isinstance(value, float):
      lines.append(f"{name.replace('_', ' '):<36}{value:>10.4f}")
    elif isinstance(value, int) and not isinstance(value, bool):
      lines.append(f"{name:<36}{value:>10,}")
  verdict = "every bound holds" if figures["blessed"] else "bounds that do not hold:"
  return "\n".join([*lines, verdict, *(f"  {each}" for each in figures["failed"])])
