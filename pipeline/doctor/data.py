"""The config's photos: counts a kind, and how long the ratio holds.

Samples of whole images are counted as the readers list them. How many crops a photo
gives only cutting tells: some photos of each source, spread over it, are cut as a
conversion would, and stand for the rest.
"""

import collections
import dataclasses
import functools
import os
import pathlib
import pickle
import tempfile
from collections.abc import Iterator, Sequence

from pipeline.config import Config, Stage, schema_path
from pipeline.doctor.check import Check, guarded
from taskmix import sources
from taskmix.examples.cutting import Cutter, Unit, read_report
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import is_remote
from taskmix.spec import PHASES, Conversion, Net, Source

# Photos of a source that are cut.
_CUT = 24
# Whose files are looked for.
_STATTED = 5000
# As often as this, few photos are learnt by heart.
_MANY_EPOCHS = 200


@dataclasses.dataclass(frozen=True)
class Estimate:
  """Examples of a kind and a phase; `exact` if they were counted."""

  examples: float
  exact: bool


def checks(config: Config, data: pathlib.Path) -> Iterator[Check]:
  """Every check of the config on the data folder."""
  if not data.is_dir():
    yield Check("data folder", "error", f"{data} is not there", "give the folder of your photos with --data")
    return
  yield Check("data folder", "ok", str(data))
  listed: dict[Source, list[AnnotatedImage]] = {}
  for source in dict.fromkeys(source for net in config.nets for source in net.sources):
    remedy = "mend what is named; docs/formats.md tells what the format holds"
    check = functools.partial(_source, source, data, config, listed)
    yield from guarded(f"source {source.name}", check, remedy=remedy)
  for stage in config.stages:
    if all(source in listed for source in stage.net.sources):
      check = functools.partial(_net, stage, config, listed)
      yield from guarded(f"net {stage.net.name}", check, remedy="see docs/formats.md")


def _source(
  source: Source, data: pathlib.Path, config: Config, listed: dict[Source, list[AnnotatedImage]]
) -> Iterator[Check]:
  """What a source lists; the images go into `listed`."""
  name = f"source {source.name}"
  images = list(sources.read(source, str(data)))
  if not images:
    yield Check(name, "error", f"lists no photo ({source.annotations or source.images})", "check its paths")
    return
  listed[source] = images
  found = f"{len(images):,} photos as {source.format}"
  if faces := sum(len(image.boxes) for image in images):
    found += f", {faces:,} faces"
  local = [image.path for image in _spread(images, _STATTED) if not is_remote(image.path)]
  missing = [path for path in local if not os.path.isfile(path)]
  if not missing:
    yield Check(name, "ok", found)
    return
  share = len(missing) / len(local)
  state = "error" if share > config.conversion.max_bad_fraction else "warning"
  found += f"; {len(missing):,} of {len(local):,} looked for are not there, such as {missing[0]}"
  yield Check(name, state, found, "check Source.images, the folder that the list's paths start from")


def _net(stage: Stage, config: Config, listed: dict[Source, list[AnnotatedImage]]) -> Iterator[Check]:
  """The schema, the files to start from, and the ratio of one net."""
  net = stage.net
  yield _schema(config, net)
  for name in ("init_weights", "pretrained"):
    path = getattr(stage.training, name)
    if path and path != "random" and not os.path.exists(path):
      yield Check(f"net {net.name}", "error", f"no {name} {path}", f"--set {net.name}.train.{name}=FILE")
  counts, bad = estimates(net, config.conversion, listed)
  if bad:
    some = "; ".join(bad[:3])
    most = f"{config.conversion.max_bad_fraction:g}"
    remedy = f"they are quarantined; past conversion.max_bad_fraction {most} the run stops"
    yield Check(f"net {net.name}", "warning", f"{len(bad)} bad photos among those cut: {some}", remedy)
  mined = net.recipe is not None and config.nets.index(net) > 0
  for kind, drawn in net.mixture.counts(stage.training.batch_size).items():
    by_iou = net.kind(kind).min_iou is not None
    yield ratio(stage, kind, drawn, counts[kind], mined=mined and by_iou)


def _schema(config: Config, net: Net) -> Check:
  from taskmix import schema

  path, name = schema_path(config, net), f"schema of {net.name}"
  remedy = "taskmix schema --config CONFIG --write, then review it"
  if not path.is_file():
    return Check(name, "error", f"no {path}", remedy)
  if wrong := schema.differences(schema.read_schema(path), net):
    return Check(name, "error", f"{path}: {wrong[0]}", remedy)
  return Check(name, "ok", str(path))


def ratio(stage: Stage, kind: str, drawn: int, counts: dict[str, Estimate], *, mined: bool = False) -> Check:
  """Whether a kind has enough examples for the training.

  Args:
    stage: net and training.
    kind: whose.
    drawn: examples of it in a batch.
    counts: phase -> examples.
    mined: whether the nets before this one add to it.
  """
  train, held_out = (counts[phase] for phase in PHASES)
  name = f"net {stage.net.name}, {kind}"
  sign = "" if train.exact else "about "
  found = f"{sign}{train.examples:,.0f} to train, {held_out.examples:,.0f} to evaluate; {drawn} a batch"
  found += " (and what the nets before take for faces)" if mined else ""
  more = "add photos that give it, or lower its share"
  if train.examples < 1:
    return Check(name, "error", found, f"the ratio cannot be held: {more}")
  epochs = stage.training.steps * drawn / train.examples
  found += f": each seen {epochs:,.1f} times in {stage.training.steps:,} steps"
  short = stage.net.kind(kind).when_short
  if epochs > 1 and short != "repeat":
    ends = int(train.examples // drawn)
    state = "error" if short == "error" else "warning"
    return Check(name, state, f"{found}; it ends at step {ends:,} (when_short={short!r})", more)
  if held_out.examples < 1:
    remedy = "none evaluates: raise Phases.eval_share, or name photos in Phases.eval_images"
    return Check(name, "warning", found, remedy)
  if epochs > _MANY_EPOCHS:
    return Check(name, "warning", found, f"learnt by heart? {more}, or lower --set train.steps")
  return Check(name, "ok", found)


def estimates(
  net: Net, conversion: Conversion, listed: dict[Source, list[AnnotatedImage]]
) -> tuple[dict[str, dict[str, Estimate]], list[str]]:
  """Kind -> phase -> examples, and the photos that are bad among those that were cut."""
  totals: dict[str, dict[str, float]] = {kind: dict.fromkeys(PHASES, 0.0) for kind in net.mixture.names}
  exact, bad = True, []
  for source in net.sources:
    images = listed[source]
    if all(image.kind for image in images):
      made = collections.Counter(image.kind for image in images if image.kind in source.kinds)
    else:
      made, reasons, all_cut = _cut(net, source, images, conversion)
      exact, bad = exact and all_cut, bad + reasons
    for kind, number in made.items():
      for phase, share in _shares(net, source).items():
        totals[kind][phase] += number * share
    exact = exact and bool(source.phase)
  counts = {
    kind: {phase: Estimate(number, exact) for phase, number in phases.items()}
    for kind, phases in totals.items()
  }
  return counts, bad


def _shares(net: Net, source: Source) -> dict[str, float]:
  """Phase -> the share of the source's photos that go there."""
  held_out = {"train": 0.0, "eval": 1.0}.get(source.phase, net.phases.eval_share)
  return {"train": 1 - held_out, "eval": held_out}


def _cut(
  net: Net, source: Source, images: Sequence[AnnotatedImage], conversion: Conversion
) -> tuple[dict[str, float], list[str], bool]:
  """Kind -> examples in all, told from some; the bad photos with reasons; whether all were cut."""
  some = _spread(images, _CUT)
  with tempfile.TemporaryDirectory(prefix="taskmix-doctor-") as folder:
    path = pathlib.Path(folder, "photos")
    size = path.write_bytes(pickle.dumps(some))
    unit = Unit("unit", str(path), (0, size), source.name, 0, len(some))
    report = read_report(Cutter(net, conversion, folder)(unit))
  made: collections.Counter[str] = collections.Counter()
  for run in report.runs:
    made[run.kind] += run.examples
  bad = [f"{report.image_ids[index]}: {reason}" for index, reason in report.reasons.items()]
  scale = len(images) / len(some)
  return {kind: number * scale for kind, number in made.items()}, bad, len(some) == len(images)


def _spread(images: Sequence, most: int) -> list:
  """At most so many, evenly over all."""
  if len(images) <= most:
    return list(images)
  return [images[place * len(images) // most] for place in range(most)]
