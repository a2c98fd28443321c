"""Everything that a report shows, as frozen plain data: JSON-able, and comparable.

`gather` reads it from a run's artifacts; `page`, `compare` and `tracking` know
nothing but it, so that a report can be rendered anew, and runs compared, without
the artifacts. Numbers that were not measured are None; times are seconds.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, Literal

import pydantic

Outcome = Literal["pushed", "blessed", "refused", "stopped", "failed"]
State = Literal["done", "cached", "failed", "waiting", "unknown"]


@dataclasses.dataclass(frozen=True)
class Mark:
  """Something drawn over a picture, in its pixels.

  Attributes:
    kind: "hit", "false", "missed", "ignored", "unjudged".
    box: x1 y1 x2 y2.
    label: such as the score.
    points: x, y each.
  """

  kind: str
  box: tuple[float, float, float, float]
  label: str = ""
  points: tuple[tuple[float, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class Picture:
  """A picture as it is embedded.

  Attributes:
    source: a data: URI; "" where there is none to show.
    width, height: pixels.
    text: what it shows, for who cannot see it.
    caption: below it.
    marks: drawn over it.
  """

  source: str
  width: int
  height: int
  text: str
  caption: str = ""
  marks: tuple[Mark, ...] = ()


@dataclasses.dataclass(frozen=True)
class Step:
  """A component of the run.

  Attributes:
    name: its id in the pipeline.
    upstream: the ids of those whose outputs it waits for.
    state: "waiting" was never reached; "unknown" where the runner tells nothing.
    seconds: that it took.
  """

  name: str
  upstream: tuple[str, ...] = ()
  state: State = "unknown"
  seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Check:
  """A number against its bound.

  Attributes:
    gate: the component that checks.
    name: of the number: "face accuracy".
    value: what was measured, in words.
    bound: what is demanded, in words.
    holds: whether it does.
    severity: "warn" where a policy lets it pass though it does not hold.
  """

  gate: str
  name: str
  value: str
  bound: str
  holds: bool
  severity: Literal["stop", "warn"] = "stop"


@dataclasses.dataclass(frozen=True)
class Verdict:
  """What the run came to.

  Attributes:
    outcome: "blessed" is a part of a run that nothing refused; "stopped" by a
      gate, "failed" by an error; "refused": it went to its end, and pushed nothing.
    reasons: why nothing was pushed, as the gates say it; may have several lines each.
    warnings: what a policy let pass.
    checks: all numbers that were held against a bound.
    pushed: the folder of the pushed version, "" if none was.
    component: that stopped the run; "" if none did.
  """

  outcome: Outcome
  reasons: tuple[str, ...] = ()
  warnings: tuple[str, ...] = ()
  checks: tuple[Check, ...] = ()
  pushed: str = ""
  component: str = ""


@dataclasses.dataclass(frozen=True)
class Kind:
  """A kind of sample.

  Attributes:
    share: of the ratio.
    train, eval: examples.
    labels: the tasks that learn from it.
    crops: some of its examples, with what they label drawn in.
  """

  name: str
  share: int
  train: int
  eval: int
  labels: tuple[str, ...]
  crops: tuple[Picture, ...] = ()


@dataclasses.dataclass(frozen=True)
class Column:
  """A column's statistics in one split.

  Attributes:
    missing: examples without it.
    values: "mean", "deviation", "least", "median" and "most" of a number;
      "unique", how many there are, of a text.
    histogram: (low, high, count) of each bucket; () of a text.
  """

  split: str
  name: str
  examples: int
  missing: int
  values: Mapping[str, float]
  histogram: tuple[tuple[float, float, float], ...] = ()


@dataclasses.dataclass(frozen=True)
class Finding:
  """What a gate saw in the data.

  Attributes:
    severity: "stop", "warn" or "allow".
    text: the finding, the first names of what is wrong included.
    picture: of the examples.
  """

  severity: str
  text: str
  picture: Picture | None = None


@dataclasses.dataclass(frozen=True)
class AuditedKind:
  """What was drawn of a kind; see `taskmix.mixing.audit`."""

  name: str
  wanted: int
  least: int | None
  most: int | None
  size: int
  epochs: float
  coverage: float | None
  duplicates: int
  strangers: int


@dataclasses.dataclass(frozen=True)
class Audit:
  """What one run of a training drew: steps `first` to `last` - 1."""

  first: int
  last: int
  kinds: tuple[AuditedKind, ...]


@dataclasses.dataclass(frozen=True)
class Curve:
  """A line of a chart: points by rising x; None is a gap."""

  name: str
  x: tuple[float, ...]
  y: tuple[float | None, ...]


@dataclasses.dataclass(frozen=True)
class TaskCurves:
  """A task over the steps of its training: losses of train and eval, and an accuracy."""

  task: str
  losses: tuple[Curve, ...]
  metrics: tuple[Curve, ...] = ()


@dataclasses.dataclass(frozen=True)
class Training:
  """How a net was trained.

  Attributes:
    settings: name -> value, as words.
  """

  steps: int
  settings: Mapping[str, str]
  curves: tuple[TaskCurves, ...]
  audits: tuple[Audit, ...]


@dataclasses.dataclass(frozen=True)
class Metric:
  """A metric of a task in a slice.

  Attributes:
    column, slice: "" and "" are all samples.
    samples: that label the task there.
    baseline: the last blessed model's.
    bound: what is demanded, in words; of all samples alone.
    higher_is_better: None where nobody says.
  """

  task: str
  metric: str
  column: str
  slice: str
  samples: float | None
  value: float | None
  baseline: float | None = None
  bound: str = ""
  higher_is_better: bool | None = None


@dataclasses.dataclass(frozen=True)
class Layer:
  """A layer of a net."""

  name: str
  kind: str
  shape: str
  parameters: int


@dataclasses.dataclass(frozen=True)
class Photos:
  """The photos that examples were made from.

  Attributes:
    counts: "all", "train", "eval", "quarantined", "same_content".
    faces: "all", "quarantined"; {} where there are no faces.
    quarantine: reason -> how often.
    gallery: some of what was quarantined.
    sources: name -> what is known of it, as words.
    fingerprint: a hash over the ids, phases and contents of all photos.
    listed: image id -> "phase content-hash"; {} where they are too many to list.
  """

  counts: Mapping[str, int]
  faces: Mapping[str, int]
  quarantine: Mapping[str, int]
  gallery: tuple[Picture, ...]
  sources: Mapping[str, Mapping[str, str]]
  fingerprint: str
  listed: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Net:
  """A net of the run; what its components did not come to is None or empty."""

  name: str
  input_size: tuple[int, int, int]
  backbone: str
  kinds: tuple[Kind, ...]
  photos: Photos | None = None
  columns: tuple[Column, ...] = ()
  anomalies: tuple[str, ...] | None = None
  findings: tuple[Finding, ...] | None = None
  training: Training | None = None
  metrics: tuple[Metric, ...] = ()
  parameters: int | None = None
  layers: tuple[Layer, ...] = ()
  size: int | None = None


@dataclasses.dataclass(frozen=True)
class Figures:
  """What a detector comes to on the held-out photos.

  Attributes:
    name: "candidate", "baseline" or "reference".
    numbers: name -> value.
    precision_recall: x recall, y precision.
    by_threshold: precision and recall over the last score's threshold.
    sizes: (label, faces, recall) by the face's shorter side.
    landmark_error: x error, y share of the faces.
  """

  name: str
  numbers: Mapping[str, float | None]
  precision_recall: Curve
  by_threshold: tuple[Curve, ...]
  sizes: tuple[tuple[str, int, float | None], ...]
  landmark_error: Curve | None = None


@dataclasses.dataclass(frozen=True)
class Detector:
  """A cascade's detector on the held-out photos.

  Attributes:
    figures: the candidate's first.
    thresholds: stored in it.
    goal: that they were chosen for; "" are the release's.
    examples: photos with what was found.
    worst: those with most misses and false alarms.
  """

  figures: tuple[Figures, ...]
  thresholds: tuple[float, ...] = ()
  goal: str = ""
  examples: tuple[Picture, ...] = ()
  worst: tuple[Picture, ...] = ()


@dataclasses.dataclass(frozen=True)
class Served:
  """What the serving check measured, by one kind of server; None was not measured."""

  server: str
  load_seconds: float | None
  answer_seconds: float | None
  memory_mib: float | None
  asked: int


@dataclasses.dataclass(frozen=True)
class Origin:
  """Something that the model was made from, the nearest first."""

  component: str
  kind: str
  place: str


@dataclasses.dataclass(frozen=True)
class RunFacts:
  """A run.

  Attributes:
    name: of the config.
    run: names the run in its folder.
    started: ISO 8601.
    seconds: until the report was written.
    command: that repeats the run.
    data: the data folder.
    config: as plain data.
    versions: package -> version.
    lineage: of what was, or would have been, pushed.
    card: the model card, in Markdown; "" without a model.
    notes: what the report could not read, and why.
  """

  name: str
  run: str
  started: str
  seconds: float | None
  command: str
  data: str
  verdict: Verdict
  steps: tuple[Step, ...]
  nets: tuple[Net, ...]
  detector: Detector | None
  served: tuple[Served, ...]
  model_size: int | None
  lineage: tuple[Origin, ...]
  config: Mapping[str, Any]
  versions: Mapping[str, str]
  card: str = ""
  notes: tuple[str, ...] = ()

  def to_json(self) -> str:
    return json.dumps(dataclasses.asdict(self), allow_nan=False) + "\n"

  @classmethod
  def from_json(cls, text: str) -> "RunFacts":
    """The facts of `to_json`; raises ValueError on ill-typed fields."""
    return pydantic.TypeAdapter(cls).validate_json(text)


def number(value: object) -> float | None:
  """A float that JSON has, or None for NaN, infinity and None."""
  if not isinstance(value, (int, float)):
    return None
  return float(value) if math.isfinite(value) else None
