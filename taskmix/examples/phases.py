"""Which photos train and which evaluate."""

from collections.abc import Sequence

import numpy as np

from taskmix.keys import stable_hash, unit_interval
from taskmix.spec import PHASES, Phases

TRAIN, EVAL = (PHASES.index(phase) for phase in ("train", "eval"))


def assign_phases(
  groups: np.ndarray, content: np.ndarray, *, wanted: np.ndarray, eval_share: float
) -> np.ndarray:
  """The phase of every picture, the same for all of a group.

  A group evaluates if any of it must (an official test set, a picture named in
  `Phases.eval_images`); else it trains if any of it must; else the hash of its
  pixels decides, so photos that are added later move none of the others.

  Args:
    groups: int64 [n], of `taskmix.examples.duplicates.groups`.
    content: uint64 [n], hash of each picture's pixels.
    wanted: int8 [n], the phase that a picture must have; -1 where any will do.
    eval_share: the fraction of hashes that evaluate.

  Returns:
    int8 [n], indices into PHASES.
  """
  phases = np.full(len(groups), -1, np.int8)
  order = np.argsort(groups, kind="stable")
  for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else []:
    demands = wanted[members]
    if (demands == EVAL).any():
      phase = EVAL
    elif (demands == TRAIN).any():
      phase = TRAIN
    else:
      # Not the group's first photo: another order of the list must not matter.
      position = unit_interval(stable_hash("phase", int(content[members].min())))
      phase = EVAL if position < eval_share else TRAIN
    phases[members] = phase
  return phases


def require_known(phases: Phases, image_ids: Sequence[str] | set[str]) -> None:
  """Raises ValueError if an eval image is in no source: a typo must not train on it."""
  unknown = sorted(set(phases.eval_images) - set(image_ids))
  if unknown:
    raise ValueError(
      f"eval_images names {', '.join(unknown[:5])}, which no source lists; "
      "ids are paths below the data folder"
    )
