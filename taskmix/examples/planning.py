"""From every unit's report to the list of shards: who trains, who evaluates, what goes where."""

import dataclasses
import json
import pickle
from collections.abc import Iterator, Sequence

import numpy as np

from taskmix.examples import manifest, storage
from taskmix.examples.cutting import UnitReport, read_report
from taskmix.examples.duplicates import Fingerprints, groups
from taskmix.examples.phases import assign_phases, join_by_name, require_known
from taskmix.examples.sharding import BUCKETS, bucket_histogram, shard_bounds, shard_count, shard_name
from taskmix.examples.spill import Run, read_index
from taskmix.sources.files import join, read_bytes
from taskmix.spec import PHASES, Conversion, Net, split_name


@dataclasses.dataclass(frozen=True)
class ShardTask:
  """One shard to write.

  Attributes:
    split, name: where it goes.
    phase, kind: of its examples; `phase` an index into PHASES.
    low, high: its stretch of key buckets, the last exclusive.
    plan: path of the pickled PlanFile.
  """

  split: str
  name: str
  phase: int
  kind: str
  low: int
  high: int
  plan: str


@dataclasses.dataclass(frozen=True)
class SheetTask:
  """The contact sheets to draw; all in one task, for a worker's first costs as much as the next three.

  Attributes:
    stretches: kind -> what holds the first `tiles` examples of its train split, or all.
    totals: kind -> examples of the split.
    tiles: examples to draw, a kind.
  """

  stretches: dict[str, ShardTask]
  totals: dict[str, int]
  tiles: int = 24


@dataclasses.dataclass(frozen=True, eq=False)
class PlanFile:
  """What every shard's writer needs.

  Attributes:
    phases: int8 [photos], index into PHASES; -1 for quarantined photos.
    runs: of all units.
  """

  phases: np.ndarray
  runs: list[Run]


@dataclasses.dataclass(frozen=True)
class Planner:
  """Plans from the reports; picklable.

  Attributes:
    net, conversion: as of the cutting.
    folder: work folder for the plan.
    output: unpublished folder of the result, for photos.jsonl and quarantine.jsonl.
  """

  net: Net
  conversion: Conversion
  folder: str
  output: str

  def __call__(self, paths: Sequence[str]) -> list[ShardTask | SheetTask]:
    """The sheets to draw and the shards to write, in this order.

    Args:
      paths: of every unit's report, in any order.

    Raises:
      ValueError: if too many photos are bad, none is there, or an eval image is
        in no source.
    """
    # By name, which is listing order: results must not depend on who was first.
    paths = sorted(paths)
    phases = self._phases(paths)
    plan = join(self.folder, "plan")
    runs = [run for report in _reports(paths) for run in report.runs]
    storage.write_bytes(plan, pickle.dumps(PlanFile(phases, runs)))
    return list(self._outputs(plan, phases, runs))

  def _phases(self, paths: Sequence[str]) -> np.ndarray:
    """int8 [photos]; writes photos.jsonl and quarantine.jsonl on the way."""
    _write_quarantine(join(self.output, manifest.QUARANTINE), paths)
    self._stop_if_bad(paths)
    prints = Fingerprints.join([report.prints for report in _reports(paths)])
    good = np.concatenate([report.good for report in _reports(paths)])
    names = [name for report in _reports(paths) for name in report.image_ids] if self.net.phases.group else []
    names = [name for name, is_good in zip(names, good, strict=False) if is_good]
    phases = np.full(len(good), -1, np.int8)
    phases[good] = assign_phases(
      join_by_name(groups(prints), names, self.net.phases.group),
      prints.content,
      wanted=self._wanted(paths)[good],
      eval_share=self.net.phases.eval_share,
      strata=self._strata(paths, len(good))[good] if self.net.phases.stratified else None,
    )
    _write_photos(join(self.output, manifest.PHOTOS), paths, phases)
    return phases

  def _wanted(self, paths: Sequence[str]) -> np.ndarray:
    """int8 [photos], the phase that a photo must have, -1 where any will do."""
    by_source = {source.name: source.phase for source in self.net.sources}
    named, seen, wanted = set(self.net.phases.eval_images), set(), []
    for report in _reports(paths):
      phase = by_source[report.unit.source]
      default = PHASES.index(phase) if phase else -1
      wanted += [PHASES.index("eval") if name in named else default for name in report.image_ids]
      seen |= named.intersection(report.image_ids)
    require_known(self.net.phases, seen)
    return np.array(wanted, np.int8)

  def _strata(self, paths: Sequence[str], count: int) -> np.ndarray:
    """int8 [photos], the last kind in the mixture that each gave an example of; -1 for none."""
    strata = np.full(count, -1, np.int8)
    for report in _reports(paths):
      for run in report.runs:
        photos = read_index(run)["photo"]
        strata[photos] = np.maximum(strata[photos], self.net.mixture.names.index(run.kind))
    return strata

  def _stop_if_bad(self, paths: Sequence[str]) -> None:
    total = sum(len(report.image_ids) for report in _reports(paths))
    bad = [
      f"{report.image_ids[index]}: {reason}"
      for report in _reports(paths)
      for index, reason in report.reasons.items()
    ]
    if total == len(bad) or len(bad) > self.conversion.max_bad_fraction * total:
      shown = "".join(f"\n  {line}" for line in bad[:10]) + ("\n  ..." if len(bad) > 10 else "")
      raise ValueError(
        f"{len(bad)} of {total} photos are bad, more than max_bad_fraction = "
        f"{self.conversion.max_bad_fraction:g} allows; mend them or raise it:{shown}"
      )

  def _outputs(self, plan: str, phases: np.ndarray, runs: Sequence[Run]) -> Iterator[ShardTask | SheetTask]:
    """The sheets come first: they take longest, so no core is left with them at the end."""
    shards: list[ShardTask] = []
    stretches, totals = {}, {}
    for kind in self.net.mixture.names:
      counts, sizes = _histograms([run for run in runs if run.kind == kind], phases)
      for phase in range(len(PHASES)):
        shards += self._shards(plan, phase, kind, counts[phase], int(sizes[phase].sum()))
      upto = np.cumsum(counts[PHASES.index("train")])
      stretches[kind] = _first_examples(shards[-1], upto, SheetTask.tiles)
      totals[kind] = int(upto[-1])
    yield SheetTask(stretches, totals)
    yield from shards

  def _shards(self, plan: str, phase: int, kind: str, counts: np.ndarray, size: int) -> Iterator[ShardTask]:
    """Of one split: `counts` of its buckets and bytes in all."""
    number = shard_count(int(counts.sum()), size, self.conversion)
    edges = shard_bounds(counts, number)
    for index in range(number):
      name = shard_name(index, number, compression=self.conversion.compression)
      split = split_name(PHASES[phase], kind)
      yield ShardTask(split, name, phase, kind, edges[index], edges[index + 1], plan)


def _first_examples(shard: ShardTask, upto: np.ndarray, count: int) -> ShardTask:
  """The first examples of a kind's train split.

  Args:
    shard: any of the kind's.
    upto: int64 [BUCKETS], examples in each bucket of the split and those before it.
    count: how many are wanted at least, if there are as many.
  """
  high = min(BUCKETS, int(np.searchsorted(upto, count)) + 1)
  return dataclasses.replace(shard, phase=PHASES.index("train"), low=0, high=high)


def read_plan(path: str) -> PlanFile:
  return pickle.loads(read_bytes(path))


def _reports(paths: Sequence[str]) -> Iterator[UnitReport]:
  """One at a time: all of them together are what a million photos would not leave room for."""
  return map(read_report, paths)


# Runs counted at once: a call a run costs as much as the counting.
_RUNS_A_COUNT = 64


def _histograms(runs: Sequence[Run], phases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Examples and bytes of one kind: int64 [phases, BUCKETS] each."""
  counts = np.zeros((len(PHASES), BUCKETS), np.int64)
  sizes = np.zeros_like(counts)
  for first in range(0, len(runs), _RUNS_A_COUNT):
    index = np.concatenate([read_index(run) for run in runs[first : first + _RUNS_A_COUNT]])
    phase_of = phases[index["photo"]]
    for phase in range(len(PHASES)):
      ours = index[phase_of == phase]
      counts[phase] += bucket_histogram(ours["key"])
      sizes[phase] += bucket_histogram(ours["key"], ours["size"])
  return counts, sizes


def _write_quarantine(path: str, paths: Sequence[str]) -> None:
  with storage.create(path) as file:
    for report in _reports(paths):
      for index, image_id in enumerate(report.image_ids):
        entry = {"image_id": image_id, "source": report.unit.source}
        if index in report.reasons:
          file.write(_json_line({**entry, "face": None, "reason": report.reasons[index]}))
        for face, reason in report.bad_faces.get(index, {}).items():
          file.write(_json_line({**entry, "face": face, "reason": reason}))


def _json_line(entry: dict) -> bytes:
  return json.dumps(entry).encode() + b"\n"


def _write_photos(path: str, paths: Sequence[str], phases: np.ndarray) -> None:
  with storage.create(path) as file:
    place = 0
    for report in _reports(paths):
      for number, index in enumerate(np.flatnonzero(report.good)):
        phase = PHASES[phases[place + index]]
        image_id = report.image_ids[index]
        file.write(manifest.photo_line(image_id, report.unit.source, phase, report.prints, number))
      place += len(report.good)
