"""One pass over a conversion's shards, and all that a gate asks of them.

Every record is read, for its photo and its phase; of each split, so many as the
policy says are checked column against column. Memory: a batch, the photos' names,
and the first examples of each finding.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from taskmix.examples import manifest as manifests
from taskmix.examples import storage
from taskmix.examples.codec import Sample
from taskmix.examples.sharding import split_folder
from taskmix.gates import leaks, shards
from taskmix.gates.findings import NAMED, Evidence, Example, Finding
from taskmix.gates.labels import LabelCheck, sample_of
from taskmix.gates.policy import OWN_TYPES, GatePolicy
from taskmix.sources.files import join
from taskmix.spec import IMAGE_ID, Column, Net, split_parts


def check_examples(folder: str, net: Net, policy: GatePolicy) -> list[Evidence]:
  """What is wrong with a conversion, by its own files alone.

  Args:
    folder: of the conversion: manifest.json, photos.jsonl, Split-*/.
    net: that it was made for.
    policy: how much is looked at; it judges nothing here.
  """
  files = shards.shard_files(folder, net.splits)
  seen = _Seen()
  found: list[Evidence] = []
  for split in net.splits:
    found += _check_split(folder, split, files[split], net, policy, seen)
  found += _check_photos(folder, net, files, seen, pictured=policy.pictured)
  if not storage.exists(join(folder, manifests.MANIFEST)):
    return [*found, Evidence(_missing(folder, manifests.MANIFEST))]
  manifest = manifests.read_manifest(folder)
  findings = shards.manifest_findings(folder, manifest, files, seen.counts)
  return [*found, *map(Evidence, findings)]


@dataclasses.dataclass
class _Seen:
  """What the pass has met.

  Attributes:
    phases: image id -> phases of its examples.
    counts: (split, file name) -> its examples.
  """

  phases: dict[str, set[str]] = dataclasses.field(default_factory=dict)
  counts: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)


def _check_split(
  folder: str, split: str, names: Sequence[str], net: Net, policy: GatePolicy, seen: _Seen
) -> Iterator[Evidence]:
  phase, kind = split_parts(split)
  check = LabelCheck(net, split, kind, pictured=policy.pictured)
  unreadable, damaged = _Names("EXAMPLE_UNREADABLE", split), _Names("SHARD_DAMAGED", split)
  for name in names:
    # A shard is ordered by hash, so its first records are a random sample of it.
    wanted = -(-policy.examples_per_split // len(names))
    try:
      for first, records in shards.record_batches(join(folder, split_folder(split), name)):
        checked = records[: max(0, wanted - first)]
        for columns, part, start in (
          (net.columns, checked, first),
          (_IMAGE_ID_ALONE, records[len(checked) :], first + len(checked)),
        ):
          batch, at, broken = shards.parse(columns, part)
          unreadable.add(f"{name} record {start + index}: {why}" for index, why in broken.items())
          for image_id in set(batch[IMAGE_ID]):
            seen.phases.setdefault(image_id, set()).add(phase)
          if columns is not _IMAGE_ID_ALONE:
            check.add(batch, name, at + start)
        seen.counts[split, name] = first + len(records)
      seen.counts.setdefault((split, name), 0)
    except shards.UNREADABLE as error:
      seen.counts.pop((split, name), None)
      damaged.add([f"{name}: {error}"])
  yield from unreadable.evidence()
  yield from damaged.evidence()
  yield from check.evidence()


_IMAGE_ID_ALONE = (Column(IMAGE_ID, "string"),)


class _Names:
  """Counts what is wrong and keeps the first names."""

  def __init__(self, type_: str, split: str):
    self._type, self._split, self._count = type_, split, 0
    self._names: list[str] = []

  def add(self, names: Iterable[str]) -> None:
    for name in names:
      self._count += 1
      if len(self._names) < NAMED:
        self._names.append(name)

  def evidence(self) -> Iterator[Evidence]:
    if self._count:
      words = OWN_TYPES[self._type]
      yield Evidence(Finding(self._type, self._split, "", words, count=self._count, names=tuple(self._names)))


def _check_photos(
  folder: str, net: Net, files: Mapping[str, Sequence[str]], seen: _Seen, *, pictured: int
) -> list[Evidence]:
  """Photos that stand in two phases, by their examples and by their fingerprints."""
  if not storage.exists(join(folder, manifests.PHOTOS)):
    findings = leaks.phase_findings(seen.phases, None)
    return [*map(Evidence, findings), Evidence(_missing(folder, manifests.PHOTOS))]
  image_ids, phases, prints = manifests.read_photos(folder)
  listed: dict[str, set[str]] = {}
  for image_id, phase in zip(image_ids, phases, strict=True):
    listed.setdefault(image_id, set()).add(phase)
  pairs = leaks.picture_leaks(image_ids, phases, prints)
  found = [Evidence(finding) for finding in leaks.phase_findings(seen.phases, listed)]
  for finding in leaks.picture_findings(image_ids, phases, pairs):
    names = [image_ids[index] for pair in pairs[finding.type] for index in pair][: pictured // 2 * 2]
    found.append(Evidence(finding, _first_examples(folder, net, files, names)))
  return found


def _first_examples(
  folder: str, net: Net, files: Mapping[str, Sequence[str]], image_ids: Sequence[str]
) -> tuple[tuple[Example, Sample], ...]:
  """An example of each photo that has one, in the order of `image_ids`; of a face, if there is one."""
  found: dict[str, tuple[Example, Sample]] = {}
  wanted = set(image_ids)
  # A background tells a person little about which photo it is.
  faces_first = sorted(files, key=lambda name: net.kind(split_parts(name)[1]).min_iou == 0)
  places = [(split, name) for split in faces_first for name in files[split]]
  for split, name in places:
    if len(found) == len(wanted):
      break
    for first, records in _readable_batches(join(folder, split_folder(split), name)):
      batch, at, _ = shards.parse(net.columns, records)
      for row, image_id in enumerate(batch[IMAGE_ID]):
        if image_id in wanted and image_id not in found:
          found[image_id] = (Example(split, name, int(first + at[row]), image_id), sample_of(batch, row))
  return tuple(found[image_id] for image_id in image_ids if image_id in found)


def _readable_batches(path: str) -> Iterator[tuple[int, list[bytes]]]:
  """As `shards.record_batches`, up to where the file is damaged: that is a finding already."""
  try:
    yield from shards.record_batches(path)
  except shards.UNREADABLE:
    return


def _missing(folder: str, name: str) -> Finding:
  return Finding("MANIFEST_MISSING", "", "", f"no {name} beside the examples in {folder}: {_UNCHECKED[name]}")


_UNCHECKED = {
  manifests.MANIFEST: "whether the shards are those that were written cannot be checked",
  manifests.PHOTOS: "whether train and eval share a picture cannot be checked",
}
