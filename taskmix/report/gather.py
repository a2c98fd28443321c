"""A run's facts, from its artifacts and what its runner tells.

A report is wanted most where something went wrong, so no artifact that is missing
or broken keeps it from being written: what could not be read is a note on the page.
"""

import platform
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any, TypeVar

from taskmix import evaluation
from taskmix.report import card, facts, gather_data, gather_detector, gather_model
from taskmix.report.material import Journal, NetPlaces, Places, Plan
from taskmix.spec import Net

T = TypeVar("T")

PACKAGES = (
  "taskmix",
  "tensorflow",
  "keras",
  "tfx",
  "apache-beam",
  "tensorflow-transform",
  "tensorflow-data-validation",
  "tensorflow-model-analysis",
  "numpy",
  "opencv-python-headless",
)


class Notes:
  """Reads what can be read, and keeps why the rest could not."""

  def __init__(self) -> None:
    self.lines: list[str] = []

  def read(self, what: str, function: Callable[[], T], default: T) -> T:
    """`function()`, or `default` and a note if it raises."""
    try:
      return function()
    except Exception as error:
      lines = str(error).splitlines() or [""]
      self.lines.append(f"{what} cannot be shown: {type(error).__name__}: {lines[0][:300]}")
      return default


def gather(plan: Plan, places: Places, journal: Journal) -> facts.RunFacts:
  """All that a report shows; raises nothing for what an artifact lacks."""
  notes = Notes()
  nets = tuple(_net(plan, place, each, notes) for place, each in enumerate(places.nets))
  detector = _detector(plan, places, notes)
  served: tuple[facts.Served, ...] = ()
  if places.serving:
    served = notes.read(
      "what the serving check measured", lambda: gather_model.read_served(places.serving), ()
    )
  verdict = _verdict(plan, places, journal, nets, notes)
  written = card.model_card(plan.name, nets, detector, card.notes_of(plan.config))
  return facts.RunFacts(
    name=plan.name,
    run=journal.run,
    started=journal.started,
    seconds=journal.seconds,
    command=journal.command,
    data=journal.data or plan.data_root,
    verdict=verdict,
    steps=_steps(plan, journal),
    nets=nets,
    detector=detector,
    served=served,
    model_size=gather_model.folder_size(places.pushed or places.detector or places.nets[-1].model),
    lineage=tuple(_lineage(places, nets, notes)),
    config=plan.config,
    versions=versions(),
    card=written,
    notes=tuple(notes.lines),
  )


def gather_card(plan: Plan, places: Places) -> tuple[str, list[str]]:
  """The model card of what is about to be pushed, and what could not be read for it."""
  notes = Notes()
  nets = tuple(_net_of_card(plan, place, each, notes) for place, each in enumerate(places.nets))
  detector = _detector(plan, places, notes, pictures=False)
  return card.model_card(plan.name, nets, detector, card.notes_of(plan.config)), notes.lines


def versions() -> dict[str, str]:
  """Of Python, and of the packages that decide a result."""
  found = {"python": platform.python_version()}
  for package in PACKAGES:
    try:
      found[package] = metadata.version(package)
    except metadata.PackageNotFoundError:
      found[package] = "not installed"
  return found


def _net(plan: Plan, place: int, at: NetPlaces, notes: Notes) -> facts.Net:
  net = plan.stage_net(place)
  settings = plan.stage_training(place)
  told, read = _reader(net, notes)
  read("kinds", at.examples, "the crops", lambda: gather_data.read_kinds(net, at.examples))
  read("photos", at.examples, "the photos", lambda: gather_data.read_photos(at.examples, plan.data_root))
  read("columns", at.statistics, "the statistics", lambda: gather_data.read_columns(net, at.statistics))
  read("anomalies", at.anomalies, "the anomalies", lambda: gather_data.read_anomalies(net, at.anomalies))
  read("findings", at.gate_report, "the gate's findings", lambda: gather_data.read_findings(at.gate_report))
  read(
    "training", at.model_run, "the training", lambda: gather_model.read_training(net, settings, at.model_run)
  )
  read("metrics", at.evaluation, "the metrics", lambda: gather_model.read_metrics(net, at.evaluation))
  read("layers", at.model, "the layers", lambda: gather_model.read_layers(net))
  read("size", at.model, "the size", lambda: gather_model.folder_size(at.model))
  return facts.Net(net.name, net.input_size, net.backbone, **told)


def _net_of_card(plan: Plan, place: int, at: NetPlaces, notes: Notes) -> facts.Net:
  """The net without its pictures, and what else no card tells of."""
  net = plan.stage_net(place)
  told, read = _reader(net, notes)
  read("kinds", at.examples, "the counts", lambda: gather_data.read_kinds(net, at.examples, crops=0))
  read("photos", at.examples, "the photos", lambda: gather_data.read_photos(at.examples, "", gallery=0))
  read("metrics", at.evaluation, "the metrics", lambda: gather_model.read_metrics(net, at.evaluation))
  read("layers", at.evaluation, "the layers", lambda: gather_model.read_layers(net))
  return facts.Net(net.name, net.input_size, net.backbone, **told)


def _reader(net: Net, notes: Notes) -> tuple[dict[str, Any], Callable[..., None]]:
  """The fields of a net as they are read, and what reads one where its artifact is there."""
  told: dict[str, Any] = {"kinds": gather_data.planned_kinds(net)}

  def read(field: str, needed: str, what: str, function: Callable[[], Any]) -> None:
    value = notes.read(f"{what} of {net.name}", function, None) if needed else None
    if value is not None:
      told[field] = value
    if field == "layers" and value:
      told["parameters"] = sum(layer.parameters for layer in value)

  return told, read


def _detector(plan: Plan, places: Places, notes: Notes, *, pictures: bool = True) -> facts.Detector | None:
  if not places.detection:
    return None
  return notes.read(
    "the detector",
    lambda: gather_detector.read_detector(
      places.detection,
      goal=plan.config.get("goal", ""),
      thresholds=_thresholds(places, notes),
      data_root=plan.data_root,
      pictures=pictures,
    ),
    None,
  )


def _thresholds(places: Places, notes: Notes) -> tuple[float, ...]:
  from taskmix.faces.cascade import read_options

  if not places.detector:
    return ()
  return notes.read("the thresholds", lambda: tuple(read_options(places.detector).thresholds), ())


def _steps(plan: Plan, journal: Journal) -> tuple[facts.Step, ...]:
  done = {step.component: step for step in journal.steps}
  failed = journal.failure.component if journal.failure else ""
  return tuple(
    _step(name, upstream, done.get(name), failed, bool(journal.run)) for name, upstream in plan.dag
  )


def _step(name: str, upstream: tuple[str, ...], done: Any, failed: str, told: bool) -> facts.Step:
  if done is not None:
    return facts.Step(name, upstream, "cached" if done.state == "cached" else "done", done.seconds)
  if name == failed:
    return facts.Step(name, upstream, "failed")
  return facts.Step(name, upstream, "waiting" if told else "unknown")


def _verdict(
  plan: Plan, places: Places, journal: Journal, nets: Sequence[facts.Net], notes: Notes
) -> facts.Verdict:
  checks = tuple(_checks(plan, places, nets, notes))
  warnings = tuple(_warnings(plan, nets, checks, places, notes))
  if journal.failure:
    failure = journal.failure
    outcome = "stopped" if failure.by_gate else "failed"
    return facts.Verdict(outcome, (failure.message,), warnings, checks, component=failure.component)
  if places.pushed:
    return facts.Verdict("pushed", (), warnings, checks, places.pushed)
  reasons = tuple(_refusals(plan, places, checks, notes))
  if not reasons and not plan.whole:
    return facts.Verdict("blessed", (), warnings, checks)
  return facts.Verdict("refused", reasons, warnings, checks)


def _checks(plan: Plan, places: Places, nets: Sequence[facts.Net], notes: Notes) -> Iterator[facts.Check]:
  for place, net in enumerate(nets):
    if net.metrics:
      yield from gather_model.bound_checks(plan.stage_net(place), net.metrics, plan.evaluation_policy)
  if places.detection:
    yield from notes.read("the detector's bounds", lambda: gather_detector.read_checks(places.detection), ())


def _refusals(plan: Plan, places: Places, checks: Sequence[facts.Check], notes: Notes) -> Iterator[str]:
  """Why a run that went to its end pushed nothing, a line a gate and number."""
  for place, at in enumerate(places.nets):
    if at.evaluation:
      net = plan.stage_net(place)
      yield from notes.read(
        f"why {net.name} was refused", lambda net=net, at=at: _evaluator_refusals(net, at), ()
      )
  for check in checks:
    if check.gate == "DetectionEvaluator" and not check.holds and check.severity == "stop":
      yield f"{check.gate}: {check.name} is {check.value}, must be {check.bound}"
  yield from _serving_findings(places, "stop", notes)


def _evaluator_refusals(net: Net, at: NetPlaces) -> tuple[str, ...]:
  failures = evaluation.read_failures(net, at.evaluation)
  return tuple(f"Evaluator-{net.name}: {failure}" for failure in failures)


def _warnings(
  plan: Plan, nets: Sequence[facts.Net], checks: Sequence[facts.Check], places: Places, notes: Notes
) -> Iterator[str]:
  for net in nets:
    for finding in net.findings or ():
      if finding.severity == "warn":
        yield f"ExampleGate-{net.name}: {finding.text.splitlines()[0]}"
  for check in checks:
    if not check.holds and check.severity == "warn":
      yield f"{check.gate}: {check.name} is {check.value}, should be {check.bound}"
  yield from _serving_findings(places, "warn", notes)


def _serving_findings(places: Places, severity: str, notes: Notes) -> Iterator[str]:
  from taskmix.serving.check import read_report

  if not places.serving:
    return
  found = notes.read("the serving check", lambda: read_report(places.serving).findings, ())
  yield from (f"ServingCheck: {each}" for each in found if each.severity == severity)


def _lineage(places: Places, nets: Sequence[facts.Net], notes: Notes) -> Iterator[facts.Origin]:
  """From what is pushed back to the photos."""
  for component, kind, place in (
    ("ModelPusher", "pushed version", places.pushed),
    ("ServingCheck", "checked model", places.serving),
    ("CascadeAssembler", "detector", places.detector),
  ):
    if place:
      yield facts.Origin(component, kind, place)
  for net, at in reversed(list(zip(nets, places.nets, strict=True))):
    if at.model:
      yield facts.Origin(f"Trainer-{net.name}", "model", at.model)
    if at.examples:
      digest = notes.read(
        f"the digest of {net.name}'s examples", lambda at=at: gather_data.examples_digest(at.examples), ""
      )
      yield facts.Origin(f"examples of {net.name}", f"sha256 {digest}", at.examples)
  for net in nets[:1]:
    for source, known in (net.photos.sources if net.photos else {}).items():
      annotations = known.get("annotations_sha256", "")
      digest = f"annotations, sha256 {annotations}" if annotations else "no annotation file"
      yield facts.Origin(f"source {source}", digest, f"{known.get('photos', '?')} photos")
    if net.photos:
      yield facts.Origin("photos", f"sha256 {net.photos.fingerprint}", "ids, phases and pixels of all photos")
