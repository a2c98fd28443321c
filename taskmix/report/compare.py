"""What changed from one run to another: in data, config, metrics, the model, the versions."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taskmix.report import charts, facts, page

GROUPS = ("result", "data", "config", "metrics", "detector", "model", "versions")

# Photos that are named, of those that came or went.
_NAMED = 5


@dataclasses.dataclass(frozen=True)
class Difference:
  """Something that is not the same in both runs.

  Attributes:
    group: of GROUPS.
    what: for a person.
    before, after: as words; "" where the run has none.
    change: the difference of two numbers, as words; "" of anything else.
    better: whether it is for the better; None where nobody says.
  """

  group: str
  what: str
  before: str
  after: str
  change: str = ""
  better: bool | None = None


def compare(before: facts.RunFacts, after: facts.RunFacts) -> tuple[Difference, ...]:
  """All differences, in the order of GROUPS; () for runs that are the same."""
  return (
    *_words("result", _result(before), _result(after)),
    *_data(before, after),
    *_words("config", flat(before.config), flat(after.config)),
    *_numbers("metrics", _metrics(before), _metrics(after)),
    *_numbers("detector", _detector(before), _detector(after)),
    *_words("detector", _thresholds(before), _thresholds(after)),
    *_numbers("model", _model(before), _model(after)),
    *_words("versions", before.versions, after.versions),
  )


def flat(value: Any, path: str = "") -> dict[str, str]:
  """Nested plain data as path -> word; members of a list go by their names where they have some.

  >>> flat({"stages": [{"net": {"name": "pnet", "size": 12}}]})
  {'stages[pnet].net.name': 'pnet', 'stages[pnet].net.size': '12'}
  """
  if isinstance(value, Mapping):
    members = [(f"{path}.{key}" if path else str(key), each) for key, each in value.items()]
  elif isinstance(value, (list, tuple)) and any(isinstance(each, (Mapping, list, tuple)) for each in value):
    members = [(f"{path}[{_name(each, place)}]", each) for place, each in enumerate(value)]
  elif isinstance(value, (list, tuple)):
    return {path: ", ".join(map(str, value))}
  else:
    return {path: str(value)}
  return {key: word for name, each in members for key, word in flat(each, name).items()}


def _name(member: Any, place: int) -> str:
  if isinstance(member, Mapping):
    inner = member.get("net")
    named = member.get("name") or (inner.get("name") if isinstance(inner, Mapping) else None)
    return str(named or member.get("metric") or place)
  return str(place)


def _result(run: facts.RunFacts) -> dict[str, str]:
  return {"verdict": page.headline(run)}


def _words(group: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
  for what in dict.fromkeys((*before, *after)):
    old, new = before.get(what, ""), after.get(what, "")
    if old != new:
      yield Difference(group, what, old, new)


@dataclasses.dataclass(frozen=True)
class _Number:
  """A number, and whether more of it is better."""

  value: float | None
  higher_is_better: bool | None = None


def _numbers(group: str, before: Mapping[str, _Number], after: Mapping[str, _Number]) -> Iterator[Difference]:
  for what in dict.fromkeys((*before, *after)):
    old, new = before.get(what, _Number(None)), after.get(what, _Number(None))
    if old.value == new.value:
      continue
    change, better = "", None
    if old.value is not None and new.value is not None:
      change = page.signed(new.value - old.value)
      better = None if new.higher_is_better is None else (new.value > old.value) == new.higher_is_better
    yield Difference(group, what, page.number(old.value), page.number(new.value), change, better)


def _data(before: facts.RunFacts, after: facts.RunFacts) -> Iterator[Difference]:
  yield from _numbers("data", _counts(before), _counts(after))
  yield from _words("data", _sources(before), _sources(after))
  old, new = _listed(before), _listed(after)
  if old and new:
    yield from _photos(old, new)


def _counts(run: facts.RunFacts) -> dict[str, _Number]:
  found = {}
  for net in run.nets:
    if net.photos:
      found |= {f"{net.name}: photos, {name}": _Number(value) for name, value in net.photos.counts.items()}
      found |= {f"{net.name}: faces, {name}": _Number(value) for name, value in net.photos.faces.items()}
    for kind in net.kinds:
      found[f"{net.name}: {kind.name} examples to train on"] = _Number(kind.train)
      found[f"{net.name}: {kind.name} examples held out"] = _Number(kind.eval)
  return found


def _sources(run: facts.RunFacts) -> dict[str, str]:
  """The annotations' hashes, of the first net: all read the same sources."""
  photos = next((net.photos for net in run.nets if net.photos), None)
  return {
    f"annotations of {name}": known.get("annotations_sha256", "")[:16]
    for name, known in (photos.sources if photos else {}).items()
  }


def _listed(run: facts.RunFacts) -> Mapping[str, str]:
  return next((net.photos.listed for net in run.nets if net.photos), {})


def _photos(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Difference]:
  both = sorted(old.keys() & new.keys())
  for what, names, before in (
    ("photos that are gone", sorted(old.keys() - new.keys()), True),
    ("photos that are new", sorted(new.keys() - old.keys()), False),
    (
      "photos with other pixels",
      [name for name in both if old[name].split()[1] != new[name].split()[1]],
      False,
    ),
    (
      "photos that changed from train to held out, or back",
      [name for name in both if old[name].split()[0] != new[name].split()[0]],
      False,
    ),
  ):
    if names:
      listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
      words = f"{len(names)}: {listed}"
      yield Difference("data", what, words if before else "", "" if before else words)


def _metrics(run: facts.RunFacts) -> dict[str, _Number]:
  return {
    _metric_name(net, metric): _Number(metric.value, metric.higher_is_better)
    for net in run.nets
    for metric in net.metrics
  }


def _metric_name(net: facts.Net, metric: facts.Metric) -> str:
  where = f" ({metric.column} {metric.slice})" if metric.column else ""
  return f"{net.name}: {metric.task} {metric.metric.replace('_', ' ')}{where}"


# Of a detector's numbers, those of which less is better, and those that are counts.
_LESS_IS_BETTER = ("landmark error", "landmark failures", "false alarms")
_COUNTS = ("photos", "faces", "faces with landmarks")


def _detector(run: facts.RunFacts) -> dict[str, _Number]:
  if run.detector is None:
    return {}
  return {
    name: _Number(value, None if name in _COUNTS else name not in _LESS_IS_BETTER)
    for name, value in run.detector.figures[0].numbers.items()
  }


def _thresholds(run: facts.RunFacts) -> dict[str, str]:
  if run.detector is None:
    return {}
  return {"thresholds": ", ".join(f"{value:.4g}" for value in run.detector.thresholds)}


def _model(run: facts.RunFacts) -> dict[str, _Number]:
  found = {f"{net.name}: parameters": _Number(net.parameters) for net in run.nets}
  for served in run.served:
    found[f"{served.server}: seconds an answer"] = _Number(served.answer_seconds, False)
    found[f"{served.server}: MiB of memory"] = _Number(served.memory_mib, False)
  return found | {"bytes of the SavedModel": _Number(run.model_size)}


def text(before: facts.RunFacts, after: facts.RunFacts) -> str:
  """The differences as a plain table for a terminal."""
  found = compare(before, after)
  lines = [f"{name_of(before)}  ->  {name_of(after)}"]
  for group in GROUPS:
    mine = [each for each in found if each.group == group]
    if mine:
      lines += ["", group, *_aligned(mine)]
  return "\n".join([*lines, "", f"{len(found)} differences" if found else "nothing differs"])


def _aligned(differences: Sequence[Difference]) -> Iterator[str]:
  rows = [(each.what, each.before or "none", each.after or "none", _change(each)) for each in differences]
  widths = [min(max(len(row[column]) for row in rows), 60) for column in range(3)]
  for row in rows:
    cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
    yield f"  {'  '.join([*cells, row[3]])}".rstrip()


def _change(each: Difference) -> str:
  return each.change + {None: "", True: " better", False: " worse"}[each.better]


def name_of(run: facts.RunFacts) -> str:
  return f"{run.name} {run.run}".strip()


def render(before: facts.RunFacts, after: facts.RunFacts) -> str:
  """The differences as one HTML page."""
  found = compare(before, after)
  return (
    page.environment()
    .get_template("compare.html.j2")
    .render(
      before=before,
      after=after,
      names=(name_of(before), name_of(after)),
      headlines=(page.headline(before), page.headline(after)),
      groups=[(group, [each for each in found if each.group == group]) for group in GROUPS],
      charts=list(_charts(before, after)),
    )
  )


def _charts(before: facts.RunFacts, after: facts.RunFacts) -> Iterator[page.Chart]:
  """The held-out losses of tasks that both learnt, and the detectors' precision and recall."""
  names = [name_of(before), name_of(after)]
  for net in before.nets:
    other = next((each for each in after.nets if each.name == net.name), None)
    if net.training is None or other is None or other.training is None:
      continue
    theirs = {curves.task: curves for curves in other.training.curves}
    for curves in net.training.curves:
      lines = [_held_out(curves), _held_out(theirs[curves.task]) if curves.task in theirs else None]
      if all(lines):
        shown = [
          dataclasses.replace(line, name=name) for line, name in zip(lines, names, strict=True) if line
        ]
        title = f"{net.name} {curves.task}: loss on the held-out samples"
        svg = charts.line_chart(shown, title=title, x_label="step", y_label="loss")
        yield page.Chart(title, names, svg)
  if before.detector and after.detector:
    curves = [run.detector.figures[0].precision_recall for run in (before, after) if run.detector]
    svg = charts.line_chart(
      [dataclasses.replace(curve, name=name) for curve, name in zip(curves, names, strict=True)],
      title="Precision over recall",
      x_label="recall",
      y_label="precision",
      x_range=(0.0, 1.0),
      y_range=(0.0, 1.05),
    )
    yield page.Chart("detector: precision and recall", names, svg)


def _held_out(curves: facts.TaskCurves) -> facts.Curve | None:
  return next((curve for curve in curves.losses if curve.name == "eval"), None)
