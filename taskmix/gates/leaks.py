"""Pictures that stand in two phases: a net must not be asked what it was taught.

Two independent proofs: over the fingerprints of the photos, that none of one
phase is the same picture as one of another; over the examples themselves, that
each photo's stand in the phase that its line says, and in no other.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from taskmix.examples.duplicates import Fingerprints, crossing_pairs, groups
from taskmix.gates.findings import NAMED, Finding
from taskmix.spec import PHASES

# Pictures compared one by one: some 15 s on a busy core, and room for the 12,880
# photos of WIDER FACE. Beyond, they are looked for as the conversion did it, which
# grows slower than the square of the photos.
_MOST_COMPARISONS = 30_000_000


def picture_leaks(
  image_ids: Sequence[str], phases: Sequence[str], prints: Fingerprints
) -> dict[str, list[tuple[int, int]]]:
  """Pairs of the same picture in two phases, by the type of finding.

  Args:
    image_ids, phases, prints: of n photos, as `taskmix.examples.manifest.read_photos`
      gives them; a photo of two sources is there twice.

  Returns:
    type -> pairs of indices, the one that trains first; each pair of photos once.
  """
  numbers = np.array([PHASES.index(phase) for phase in phases], np.int64)
  training = int((numbers == 0).sum())
  small = training * (len(numbers) - training) <= _MOST_COMPARISONS
  pairs = crossing_pairs(prints, numbers) if small else _crossing_groups(prints, numbers)
  found: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
  for pair in pairs:
    first, second = sorted(pair, key=lambda index: numbers[index])
    same = prints.content[first] == prints.content[second]
    type_ = "SAME_PICTURE_IN_TWO_PHASES" if same else "NEAR_DUPLICATE_IN_TWO_PHASES"
    found.setdefault(type_, {}).setdefault((image_ids[first], image_ids[second]), (first, second))
  return {type_: list(by_name.values()) for type_, by_name in found.items()}


def picture_findings(
  image_ids: Sequence[str], phases: Sequence[str], pairs: Mapping[str, Sequence[tuple[int, int]]]
) -> list[Finding]:
  """A finding a type, which names the photos and their phases."""
  return [
    Finding(
      type_,
      "",
      "",
      f"{_many(len(found), 'pair')} of photos with {_WORDS[type_]}, one in {PHASES[0]}, one in {PHASES[1]}",
      count=len(found),
      names=tuple(
        " and ".join(f"{image_ids[index]} ({phases[index]})" for index in pair) for pair in found[:NAMED]
      ),
    )
    for type_, found in sorted(pairs.items())
  ]


def phase_findings(seen: Mapping[str, set[str]], listed: Mapping[str, set[str]] | None) -> list[Finding]:
  """Photos whose examples stand in two phases, or not in the one that they should.

  Args:
    seen: image id -> the phases of its examples.
    listed: image id -> its phases by photos.jsonl; None where there is no such file.
  """
  both = [name for name, phases in seen.items() if len(phases) > 1]
  known = [] if listed is None else [name for name in seen if name in listed]
  wrong = [name for name in known if not seen[name] <= listed[name]] if listed else []
  unlisted = [] if listed is None else [name for name in seen if name not in listed]
  found = [
    _photos("PHOTO_IN_TWO_PHASES", "with examples in train and in eval", both, seen),
    _photos("PHOTO_IN_WRONG_PHASE", "with examples in another phase than photos.jsonl says", wrong, seen),
    _photos("PHOTO_UNLISTED", "with examples, but no line in photos.jsonl", unlisted, seen),
  ]
  return [finding for finding in found if finding.count]


_WORDS = {
  "SAME_PICTURE_IN_TWO_PHASES": "the same pixels",
  "NEAR_DUPLICATE_IN_TWO_PHASES": "nearly the same picture",
}


def _photos(type_: str, words: str, names: Sequence[str], seen: Mapping[str, set[str]]) -> Finding:
  phases = {name: ", ".join(sorted(seen[name], key=PHASES.index)) for name in sorted(names)[:NAMED]}
  return Finding(
    type_,
    "",
    "image_id",
    f"{_many(len(names), 'photo')} {words}",
    count=len(names),
    names=tuple(f"{name} ({where})" for name, where in phases.items()),
  )


def _many(count: int, what: str) -> str:
  return f"{count:,} {what}{'s' * (count > 1)}"


def _crossing_groups(prints: Fingerprints, phases: np.ndarray) -> list[tuple[int, int]]:
  """A pair for each group of the same picture that stands in two phases."""
  root = groups(prints)
  crossing = np.flatnonzero(phases != phases[root])
  return [(int(root[index]), int(index)) for index in crossing]
