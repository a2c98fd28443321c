"""Which photos train and which evaluate."""

import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from taskmix.keys import stable_hash, unit_interval
from taskmix.spec import PHASES, Phases

TRAIN, EVAL = (PHASES.index(phase) for phase in ("train", "eval"))


def assign_phases(
  groups: np.ndarray,
  content: np.ndarray,
  *,
  wanted: np.ndarray,
  eval_share: float,
  strata: np.ndarray | None = None,
) -> np.ndarray:
  """The phase of every picture, the same for all of a group.

  A group evaluates if any of it must (an official test set, a picture named in
  `Phases.eval_images`); else it trains if any of it must; else the hash of its
  pixels decides, so photos that are added later move none of the others. With
  strata, the groups with the lowest hashes evaluate, as many as make up the share
  of each stratum's free pictures.

  Args:
    groups: int64 [n], of `taskmix.examples.duplicates.groups`.
    content: uint64 [n], hash of each picture's pixels.
    wanted: int8 [n], the phase that a picture must have; -1 where any will do.
    eval_share: the fraction of hashes, or of each stratum, that evaluates.
    strata: int [n], the stratum of each picture; None for no strata. A group is in
      that of its first picture.

  Returns:
    int8 [n], indices into PHASES.
  """
  phases = np.full(len(groups), -1, np.int8)
  free = []
  for members in _members(groups):
    demands = wanted[members]
    if (demands == EVAL).any():
      phases[members] = EVAL
    elif (demands == TRAIN).any():
      phases[members] = TRAIN
    else:
      free.append(members)
  # Not the group's first photo: another order of the list must not matter.
  places = [unit_interval(stable_hash("phase", int(content[members].min()))) for members in free]
  if strata is None:
    chosen = [place < eval_share for place in places]
  else:
    chosen = _lowest(
      places, [len(members) for members in free], [strata[each[0]] for each in free], eval_share
    )
  for members, evaluates in zip(free, chosen, strict=True):
    phases[members] = EVAL if evaluates else TRAIN
  return phases


def join_by_name(groups: np.ndarray, image_ids: Sequence[str], pattern: str) -> np.ndarray:
  """The groups, with those joined whose image ids hold the same text by `pattern`.

  >>> join_by_name(np.array([0, 1, 2]), ["ann/1.jpg", "ben/1.jpg", "ann/2.jpg"], "^([^/]+)/")
  array([0, 1, 0])

  Args:
    groups: int64 [n]. image_ids: of the same pictures.
    pattern: see `taskmix.spec.Phases`; "" joins none.

  Raises:
    ValueError: for an id in which the pattern finds nothing: a typo would split a group.
  """
  if not pattern:
    return groups
  root: dict[object, int] = {}
  joined = np.arange(len(groups))

  def find(index: int) -> int:
    while joined[index] != index:
      index = int(joined[index])
    return index

  for index, (group, image_id) in enumerate(zip(groups.tolist(), image_ids, strict=True)):
    for key in (group, _group_name(image_id, pattern)):
      first, second = sorted((find(root.setdefault(key, index)), find(index)))
      joined[second] = first
  return np.array([find(index) for index in range(len(groups))], np.int64)


def _group_name(image_id: str, pattern: str) -> str:
  found = re.search(pattern, image_id)
  if found is None:
    raise ValueError(f"the group pattern {pattern!r} finds nothing in the image id {image_id!r}")
  return found.group(1 if found.re.groups else 0)


def _members(groups: np.ndarray) -> Iterator[np.ndarray]:
  order = np.argsort(groups, kind="stable")
  edges = np.flatnonzero(np.diff(groups[order])) + 1
  for low, high in itertools.pairwise([0, *edges.tolist(), len(order)]):
    if low < high:
      yield order[low:high]


def _lowest(places: Sequence[float], sizes: Sequence[int], strata: Sequence[int], share: float) -> list[bool]:
  """Whether each group is among its stratum's lowest that make up the share, to the nearest."""
  chosen = [False] * len(places)
  for stratum in set(strata):
    ours = sorted((place, index) for index, place in enumerate(places) if strata[index] == stratum)
    left = round(share * sum(sizes[index] for _, index in ours))
    for _, index in ours:
      # One more group is one too many where it overshoots by more than it is short without.
      if sizes[index] > 2 * left:
        break
      chosen[index] = True
      left -= sizes[index]
  return chosen


def require_known(phases: Phases, image_ids: Sequence[str] | set[str]) -> None:
  """Raises ValueError if an eval image is in no source: a typo must not train on it."""
  unknown = sorted(set(phases.eval_images) - set(image_ids))
  if unknown:
    raise ValueError(
      f"eval_images names {', '.join(unknown[:5])}, which no source lists; "
      "ids are paths below the data folder"
    )
