"""Facts to one HTML page that needs nothing else: no network, no script, no font.

The templates lay out; what they lay out is put in order here.
"""

import dataclasses
import datetime
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from taskmix.report import card, charts, dag_drawing, facts, markdown

HEADLINES = {
  "pushed": "Pushed",
  "blessed": "Blessed, and not pushed",
  "refused": "Not blessed, so not pushed",
  "stopped": "Stopped",
  "failed": "Failed",
}

# Stands where a number could be.
NONE = "\N{EN DASH}"

# Photos listed by name on the page; the facts beside it have all.
_LISTED = 200


@dataclasses.dataclass(frozen=True)
class Chart:
  """A chart with its heading, the names of its lines or bars, and a word below it."""

  title: str
  names: Sequence[str]
  svg: Markup
  note: str = ""


def render(run: facts.RunFacts) -> str:
  """The report of a run as HTML."""
  return (
    environment()
    .get_template("report.html.j2")
    .render(
      run=run,
      headline=headline(run),
      summary=summary(run),
      numbers=list(key_numbers(run)),
      dag=[dag_drawing.draw(run.steps, net_names(run), standing=standing) for standing in (False, True)],
      slowest=max((step.seconds or 0 for step in run.steps), default=0),
      listed=_LISTED,
    )
  )


@functools.cache
def environment() -> jinja2.Environment:
  """The templates, with what they call."""
  made = jinja2.Environment(
    loader=jinja2.PackageLoader("taskmix.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
  )
  made.filters.update(
    number=number,
    signed=signed,
    share=share,
    seconds=seconds,
    size=size,
    moment=moment,
    pretty=pretty,
    markdown=markdown.to_html,
  )
  made.globals.update(
    STATES=dag_drawing.STATES,
    audit_words=audit_words,
    bar_chart=charts.bar_chart,
    columns_by_name=columns_by_name,
    curve_charts=curve_charts,
    detector_charts=detector_charts,
    histogram=charts.histogram,
    line_chart=charts.line_chart,
    metric_tables=metric_tables,
    slice_words=card.slice_words,
    zip=zip,
  )
  return made


def net_names(run: facts.RunFacts) -> list[str]:
  return [net.name for net in run.nets]


def headline(run: facts.RunFacts) -> str:
  verdict = run.verdict
  if verdict.outcome == "stopped":
    return f"{HEADLINES['stopped']} by {verdict.component}"
  if verdict.outcome == "failed":
    return f"{HEADLINES['failed']} in {verdict.component}"
  return HEADLINES[verdict.outcome]


def summary(run: facts.RunFacts) -> str:
  """A sentence below the headline."""
  verdict = run.verdict
  held = "every bound held" if not verdict.warnings else "a policy let the warnings below pass"
  if verdict.outcome == "pushed":
    return f"{held[0].upper()}{held[1:]}, and a clean process answered as the Trainer did."
  if verdict.outcome == "blessed":
    return f"{held[0].upper()}{held[1:]}. This was a part of the run, which pushes nothing."
  if verdict.outcome == "failed":
    return "A mistake or the machine ended the run; the same command goes on from what was done."
  broken = [check for check in verdict.checks if not check.holds and check.severity == "stop"]
  if broken:
    first = broken[0]
    more = f" {len(broken) - 1} more did not hold." if len(broken) > 1 else ""
    return f"{first.gate}: {first.name} is {first.value}, must be {first.bound}.{more}"
  return "A gate refused; its findings are below."


def key_numbers(run: facts.RunFacts) -> Iterator[tuple[str, str]]:
  """(label, value) of what a newcomer asks first."""
  if run.detector:
    numbers = run.detector.figures[0].numbers
    yield "average precision", number(numbers["average precision"])
    yield "recall / precision", f"{number(numbers['recall'])} / {number(numbers['precision'])}"
  else:
    for net in run.nets:
      overall = [metric for metric in net.metrics if not metric.column and metric.value is not None]
      for metric in overall[: 2 if len(run.nets) == 1 else 1]:
        name = (
          f"{metric.task} {metric.metric}"
          if len(run.nets) == 1
          else f"{net.name} {metric.task} {metric.metric}"
        )
        yield name.replace("_", " "), number(metric.value)
  photos = next((net.photos for net in run.nets if net.photos), None)
  if photos:
    yield "photos: train / held out", f"{photos.counts.get('train', 0):,} / {photos.counts.get('eval', 0):,}"
  examples = sum(kind.train + kind.eval for net in run.nets for kind in net.kinds)
  if examples:
    yield "examples", f"{examples:,}"
  if any(net.parameters for net in run.nets):
    yield "parameters", f"{sum(net.parameters or 0 for net in run.nets):,}"
  answers = [served.answer_seconds for served in run.served if served.answer_seconds is not None]
  if answers:
    yield "answer", seconds(min(answers))
  if run.seconds is not None:
    yield "took", seconds(run.seconds)


def curve_charts(training: facts.Training) -> list[Chart]:
  """A chart a task, and one for all accuracies."""
  steps = (0.0, float(max(training.steps, 1)))
  found = [
    Chart(
      f"{curves.task}: loss",
      [curve.name for curve in curves.losses],
      charts.line_chart(
        curves.losses, title=f"Loss of {curves.task}", x_label="step", y_label="loss", x_range=steps
      ),
    )
    for curves in training.curves
    if curves.losses
  ]
  accuracies = [
    facts.Curve(curves.task, metric.x, metric.y) for curves in training.curves for metric in curves.metrics
  ]
  if accuracies:
    title = "accuracy on the held-out samples"
    svg = charts.line_chart(
      accuracies, title=title, x_label="step", y_label="accuracy", x_range=steps, y_range=(0.0, 1.0)
    )
    found.append(Chart(title, [curve.name for curve in accuracies], svg))
  return found


def detector_charts(detector: facts.Detector) -> list[Chart]:
  """Precision-recall, recall by size, landmark errors, and the choice of the threshold."""
  found = [_precision_recall(detector.figures), _recall_by_size(detector.figures)]
  if any(each.landmark_error for each in detector.figures):
    found.append(_landmark_errors(detector.figures))
  return [*found, _thresholds(detector)]


def _precision_recall(figures: Sequence[facts.Figures]) -> Chart:
  svg = charts.line_chart(
    [each.precision_recall for each in figures],
    title="Precision over recall",
    x_label="recall",
    y_label="precision",
    x_range=(0.0, 1.0),
    y_range=(0.0, 1.05),
  )
  names = [f"{each.name}, AP {number(each.numbers['average precision'])}" for each in figures]
  note = "At the evaluation's low thresholds, so that the curve goes on to where precision drops."
  return Chart("precision and recall", names, svg, note)


def _recall_by_size(figures: Sequence[facts.Figures]) -> Chart:
  names = [each.name for each in figures]
  rows = [
    (f"{label} px ({faces})", [each.sizes[place][2] for each in figures])
    for place, (label, faces, _) in enumerate(figures[0].sizes)
  ]
  svg = charts.bar_chart(rows, title="Recall by the shorter side of the face", names=names)
  note = "By the face's shorter side in pixels; in brackets, how many such faces were held out."
  return Chart("recall by size of the face", names, svg, note)


def _landmark_errors(figures: Sequence[facts.Figures]) -> Chart:
  curves = [(each, each.landmark_error) for each in figures if each.landmark_error]
  svg = charts.line_chart(
    [curve for _, curve in curves],
    title="Share of faces by landmark error",
    x_label="error / distance between the eyes",
    y_label="share of faces",
    y_range=(0.0, 1.05),
  )
  names = [f"{each.name}, mean {number(each.numbers['landmark error'])}" for each, _ in curves]
  note = f"Of {number(curves[0][0].numbers['faces with landmarks'])} faces whose points are marked."
  return Chart("landmark error", names, svg, note)


def _thresholds(detector: facts.Detector) -> Chart:
  mine = detector.figures[0]
  last = detector.thresholds[-1] if detector.thresholds else None
  svg = charts.line_chart(
    mine.by_threshold,
    title="Precision and recall by the last net's threshold",
    x_label="threshold",
    y_label="share",
    x_range=_scores(mine, last),
    y_range=(0.0, 1.05),
    rule=last,
  )
  names = [curve.name for curve in mine.by_threshold]
  return Chart("choice of the last threshold", names, svg, _threshold_words(detector))


def _scores(figures: facts.Figures, last: float | None) -> tuple[float, float]:
  seen = [*figures.by_threshold[0].x, *([last] if last is not None else [])]
  return min(seen, default=0.0) - 0.01, 1.0


def _threshold_words(detector: facts.Detector) -> str:
  if not detector.thresholds:
    return ""
  chosen = f"chosen for {detector.goal}" if detector.goal else "those of the released detector"
  listed = ", ".join(f"{value:.3g}" for value in detector.thresholds)
  return f"The detector has {listed}, {chosen}; the upright line is the last of them."


def metric_tables(net: facts.Net) -> list[dict[str, Any]]:
  """A table a task: a row a slice; a metric each with the last blessed model's beside it."""
  tables = []
  for task in dict.fromkeys(metric.task for metric in net.metrics):
    mine = [metric for metric in net.metrics if metric.task == task]
    names = list(dict.fromkeys(metric.metric for metric in mine))
    whole = {metric.metric: metric for metric in mine if not metric.column}
    rows: dict[str, dict[str, facts.Metric]] = {}
    for metric in mine:
      rows.setdefault(card.slice_words(metric), {})[metric.metric] = metric
    tables.append(
      {
        "task": task,
        "metrics": names,
        "compared": any(metric.baseline is not None for metric in mine),
        "rows": [
          (words, [_cell(found.get(name), whole.get(name)) for name in names])
          for words, found in rows.items()
        ],
        "samples": [next(iter(found.values())).samples for found in rows.values()],
      }
    )
  return tables


def _cell(metric: facts.Metric | None, whole: facts.Metric | None) -> dict[str, Any]:
  """A metric's value, what it was, and whether it stands out."""
  cell = {"value": None, "baseline": None, "change": None, "better": None, "bound": "", "weak": False}
  if metric is None:
    return cell
  cell |= {"value": metric.value, "baseline": metric.baseline, "bound": metric.bound}
  if metric.value is not None and metric.baseline is not None:
    change = metric.value - metric.baseline
    cell |= {
      "change": change,
      "better": None if abs(change) < 5e-5 else (change > 0) == metric.higher_is_better,
    }
  if whole is not None and metric is not whole and metric.value is not None and whole.value is not None:
    cell["weak"] = card.is_weak(metric.value, whole.value, higher_is_better=bool(metric.higher_is_better))
  return cell


def columns_by_name(net: facts.Net) -> list[tuple[str, list[facts.Column]]]:
  """(column, its statistics in every split), in the order of the splits."""
  names = dict.fromkeys(column.name for column in net.columns)
  return [(name, [column for column in net.columns if column.name == name]) for name in names]


def audit_words(audit: facts.Audit) -> str:
  """What an audit comes to in a sentence."""
  steps = f"{audit.last - audit.first:,} batches (steps {audit.first:,} to {audit.last:,})"
  broken = [
    kind.name
    for kind in audit.kinds
    if not kind.least == kind.most == kind.wanted or kind.duplicates or kind.strangers
  ]
  if broken:
    return f"The contract was broken for {', '.join(broken)} in {steps}."
  return f"In every one of {steps} each kind had exactly its count, and no example came twice in an epoch."


def number(value: float | None) -> str:
  if value is None:
    return NONE
  if float(value).is_integer():
    return f"{value:,.0f}"
  return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def signed(value: float) -> str:
  """A change, with its sign."""
  return f"{value:+,.0f}" if float(value).is_integer() else f"{value:+.4f}"


def share(value: float | None) -> str:
  return NONE if value is None else f"{value:.1%}"


def seconds(value: float | None) -> str:
  """A duration in the unit that a person would take."""
  if value is None:
    return NONE
  if value < 1:
    return f"{value * 1000:.3g} ms"
  if value < 60:
    return f"{value:.1f} s"
  minutes, rest = divmod(round(value), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def size(value: int | None) -> str:
  if value is None:
    return NONE
  return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.1f} KiB"


def moment(value: str) -> str:
  """An ISO time as a person writes it; "" as it is."""
  if not value:
    return ""
  return f"{datetime.datetime.fromisoformat(value):%-d %B %Y, %H:%M}"


def pretty(value: Mapping[str, Any] | Sequence[Any]) -> Markup:
  return Markup.escape(json.dumps(value, indent=2, sort_keys=False))
