"""The model card: what a model is for, what it was made from, how good it is, where it ends.

(Mitchell et al. 2019, arXiv 1810.03993.) Written beside the pushed model, from the
artifacts alone, and from the few words that only a person knows.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pydantic

from taskmix.report import facts
from taskmix.spec import from_json

# Below these the figures of a slice, or of all, are rough.
_FEW_SAMPLES, _FEW_PHOTOS = 100, 100


@dataclasses.dataclass(frozen=True)
class CardNotes:
  """What a model card says that no artifact knows.

  Attributes:
    intended_use: what the model is made for.
    out_of_scope: what it must not be used for.
    data_licence: of the photos and annotations.
    limits: what is known of its failures beyond the figures.
    contact: whom to ask.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  intended_use: str = ""
  out_of_scope: str = ""
  data_licence: str = ""
  limits: tuple[str, ...] = ()
  contact: str = ""


_UNSAID = "Not said: fill in `card` in the config."


def notes_of(config: Mapping[str, Any]) -> CardNotes:
  """Of a config as plain data."""
  return from_json(CardNotes, json.dumps(config.get("card") or {}))


def model_card(
  name: str, nets: Sequence[facts.Net], detector: facts.Detector | None, notes: CardNotes
) -> str:
  """The card in Markdown; equal inputs give equal text. "" where no net was evaluated.

  Args:
    name: of the config.
    nets: with photos and metrics.
    detector: of a cascade.
    notes: what a person says.
  """
  if not any(net.metrics for net in nets):
    return ""
  sections = (
    ("Intended use", _use(notes)),
    ("Model", _model(nets, detector)),
    ("Data", _data(nets, notes)),
    ("Figures", _figures(nets, detector)),
    ("Limits", _limits(nets, detector, notes)),
  )
  lines = [f"# Model card: {name}"]
  for title, body in sections:
    lines += ["", f"## {title}", "", *body]
  return "\n".join(lines).rstrip() + "\n"


def _use(notes: CardNotes) -> Iterator[str]:
  yield notes.intended_use or _UNSAID
  if notes.out_of_scope:
    yield from ("", f"Out of scope: {notes.out_of_scope}")
  if notes.contact:
    yield from ("", f"Contact: {notes.contact}")


def _model(nets: Sequence[facts.Net], detector: facts.Detector | None) -> Iterator[str]:
  if detector is not None:
    yield f"A detector of {len(nets)} nets, each of which passes on what the next looks at."
    if detector.thresholds:
      goal = f", chosen for {detector.goal}" if detector.goal else ""
      yield f"Thresholds {', '.join(f'{value:g}' for value in detector.thresholds)}{goal}."
    yield ""
  yield from _table(
    ("net", "input", "parameters", "tasks", "trained on"),
    [
      (
        net.name,
        " x ".join(str(side) for side in net.input_size),
        "" if net.parameters is None else f"{net.parameters:,}",
        ", ".join(dict.fromkeys(metric.task for metric in net.metrics)),
        ", ".join(f"{kind.train:,} {kind.name}" for kind in net.kinds),
      )
      for net in nets
    ],
  )


def _data(nets: Sequence[facts.Net], notes: CardNotes) -> Iterator[str]:
  yield f"Licence: {notes.data_licence or _UNSAID}"
  photos = next((net.photos for net in nets if net.photos), None)
  if photos is None:
    return
  counts = photos.counts
  yield ""
  yield (
    f"{counts.get('all', 0):,} photos: {counts.get('train', 0):,} train, {counts.get('eval', 0):,} evaluate, "
    f"{counts.get('quarantined', 0):,} left out. No photo is in both."
  )
  yield ""
  yield from _table(
    ("source", "format", "photos", "SHA-256 of the annotations"),
    [
      (name, known.get("format", ""), known.get("photos", ""), known.get("annotations_sha256", ""))
      for name, known in photos.sources.items()
    ],
  )
  yield from ("", f"SHA-256 of all photos' ids, phases and pixels: {photos.fingerprint}")


def _figures(nets: Sequence[facts.Net], detector: facts.Detector | None) -> Iterator[str]:
  if detector is not None:
    numbers = detector.figures[0].numbers
    yield "The detector on the held-out photos:"
    yield ""
    yield from _table(("figure", "value"), [(name, _number(value)) for name, value in numbers.items()])
    yield ""
    yield from _table(
      ("shorter side of the face, pixels", "faces", "recall"),
      [(label, str(faces), _number(recall)) for label, faces, recall in detector.figures[0].sizes],
    )
    yield ""
  for net in nets:
    if net.metrics:
      yield f"{net.name} on the held-out samples, by slice:"
      yield ""
      yield from _table(
        ("task", "metric", "slice", "samples", "value", "must be"),
        [
          (
            metric.task,
            metric.metric,
            slice_words(metric),
            f"{metric.samples:,.0f}",
            _number(metric.value),
            metric.bound,
          )
          for metric in net.metrics
        ],
      )
      yield ""


def _limits(nets: Sequence[facts.Net], detector: facts.Detector | None, notes: CardNotes) -> Iterator[str]:
  lines = [*notes.limits]
  photos = next((net.photos for net in nets if net.photos), None)
  if photos and photos.counts.get("eval", 0) < _FEW_PHOTOS:
    lines.append(
      f"The figures come from {photos.counts.get('eval', 0)} held-out photos alone, so they are rough."
    )
  if detector is not None:
    none = [label for label, faces, _ in detector.figures[0].sizes if not faces]
    if none:
      lines.append(
        f"No held-out face has a shorter side of {', '.join(none)} pixels: nothing is known there."
      )
  for net in nets:
    lines += _weak_slices(net)
  for line in lines or ["None is known beyond the figures."]:
    yield f"- {line}"


def _weak_slices(net: facts.Net) -> Iterator[str]:
  """Slices that are clearly worse than the whole, or have too few samples to tell."""
  whole = {(metric.task, metric.metric): metric for metric in net.metrics if not metric.column}
  few: dict[str, float] = {}
  for metric in net.metrics:
    overall = whole.get((metric.task, metric.metric))
    if not metric.column or overall is None or metric.value is None or overall.value is None:
      continue
    if (metric.samples or 0) < _FEW_SAMPLES:
      few[slice_words(metric)] = metric.samples or 0
    elif is_weak(metric.value, overall.value, higher_is_better=bool(metric.higher_is_better)):
      yield (
        f"{net.name}: {metric.task} {metric.metric} is {metric.value:.3f} where {slice_words(metric)}, "
        f"{overall.value:.3f} overall."
      )
  if few:
    listed = ", ".join(f"{name} ({count:.0f})" for name, count in few.items())
    yield f"{net.name}: too few held-out samples to tell where {listed}."


def is_weak(value: float, overall: float, *, higher_is_better: bool) -> bool:
  """Whether a slice is worse than the whole by a quarter of its error, or of itself."""
  if higher_is_better:
    return (1 - value) > 1.25 * (1 - overall) + 0.005
  return value > 1.25 * overall


def slice_words(metric: facts.Metric) -> str:
  return f"{metric.column} is {metric.slice}" if metric.column else "all"


def _number(value: float | None) -> str:
  if value is None:
    return "not measured"
  return f"{value:,.0f}" if float(value).is_integer() and abs(value) > 1 else f"{value:.4f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
  yield f"| {' | '.join(header)} |"
  yield f"|{' --- |' * len(header)}"
  for row in rows:
    yield f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |"
