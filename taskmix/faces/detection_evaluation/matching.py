"""Which detection found which face, photo by photo."""

import dataclasses
from typing import Literal

import numpy as np

from taskmix.faces import geometry

# What became of a detection.
HIT, FALSE, IGNORED = 1, 0, -1


@dataclasses.dataclass(frozen=True, eq=False)
class Faces:
  """The truth about one photo.

  Attributes:
    boxes: float32 [n, 4].
    ignore: bool [n]: finding such a face counts neither for nor against.
    landmarks: float32 [n, p, 2], NaN where a face has none; None for no points.
  """

  boxes: np.ndarray
  ignore: np.ndarray | None = None
  landmarks: np.ndarray | None = None

  def __post_init__(self):
    boxes = np.asarray(self.boxes, np.float32).reshape(-1, 4)
    object.__setattr__(self, "boxes", boxes)
    ignore = np.zeros(len(boxes), bool) if self.ignore is None else np.asarray(self.ignore, bool)
    if ignore.shape != (len(boxes),):
      raise ValueError(f"{len(boxes)} boxes, but ignore has shape {ignore.shape}")
    object.__setattr__(self, "ignore", ignore)

  @property
  def counted(self) -> np.ndarray:
    """Faces that a detector must find: bool [n]."""
    assert self.ignore is not None
    return ~self.ignore

  def at_least(self, side: float) -> "Faces":
    """The same faces, those whose shorter side is below `side` pixels ignored too."""
    small = geometry.sizes(self.boxes).min(axis=1, initial=np.inf) < side
    assert self.ignore is not None
    return dataclasses.replace(self, ignore=self.ignore | small)


@dataclasses.dataclass(frozen=True, eq=False)
class Found:
  """What a detector says of one photo.

  Attributes:
    boxes: float32 [m, 4].
    scores: float32 [m].
    landmarks: float32 [m, p, 2], or None.
  """

  boxes: np.ndarray
  scores: np.ndarray
  landmarks: np.ndarray | None = None

  def __post_init__(self):
    object.__setattr__(self, "boxes", np.asarray(self.boxes, np.float32).reshape(-1, 4))
    object.__setattr__(self, "scores", np.asarray(self.scores, np.float32).reshape(-1))
    if len(self.boxes) != len(self.scores):
      raise ValueError(f"{len(self.boxes)} boxes, but {len(self.scores)} scores")


@dataclasses.dataclass(frozen=True, eq=False)
class Match:
  """What became of each detection of one photo, in the order of `Found`.

  Attributes:
    outcome: int8 [m]: HIT, FALSE or IGNORED.
    face: int64 [m]: the face hit or ignored, -1 for none.
  """

  outcome: np.ndarray
  face: np.ndarray


def match(
  faces: Faces,
  found: Found,
  *,
  min_iou: float = 0.5,
  rule: Literal["wider", "coco"] = "wider",
  inclusive: bool = False,
) -> Match:
  """Pairs detections with faces, best score first.

  Under both rules a face is hit once, and further detections of it are false.

  - "wider", as the WIDER FACE evaluation does: a detection belongs to the face
    that it overlaps most, hit before or not.
  - "coco", as pycocotools does: a detection belongs to the face that it overlaps
    most among those not yet hit, to an ignored one only if no other is left.

  Args:
    faces: the truth.
    found: the detections.
    min_iou: least IoU of a hit, inclusive.
    rule: "wider" or "coco".
    inclusive: add one pixel to all sides before overlaps are taken, as WIDER's
      evaluation does; of weight for faces of a few pixels.

  Raises:
    ValueError: on an unknown rule.
  """
  if rule not in _RULES:
    raise ValueError(f"no matching rule {rule!r}; there is {', '.join(_RULES)}")
  outcome = np.full(len(found.boxes), FALSE, np.int8)
  face = np.full(len(found.boxes), -1, np.int64)
  if len(faces.boxes) and len(found.boxes):
    larger = np.array([0, 0, 1, 1] if inclusive else [0, 0, 0, 0], np.float32)
    iou = geometry.iou_matrix(found.boxes + larger, faces.boxes + larger)
    # Stable, so that equal scores keep the detector's order.
    order = np.argsort(-found.scores, kind="stable")
    _RULES[rule](iou, order, ~faces.counted, np.float32(min_iou), outcome, face)
  return Match(outcome, face)


def _wider(iou, order, ignore, min_iou, outcome, face) -> None:
  hit = np.zeros(len(ignore), bool)
  nearest = iou.argmax(axis=1)
  for index in order:
    best = nearest[index]
    if iou[index, best] < min_iou:
      continue
    if ignore[best]:
      outcome[index], face[index] = IGNORED, best
    elif not hit[best]:
      outcome[index], face[index] = HIT, best
      hit[best] = True


def _coco(iou, order, ignore, min_iou, outcome, face) -> None:
  free = np.ones(len(ignore), bool)
  for index in order:
    for group in (~ignore, ignore):
      candidates = np.where(free & group, iou[index], -1)
      # The last of equals, as pycocotools has it.
      best = len(candidates) - 1 - int(candidates[::-1].argmax())
      if candidates[best] >= min_iou:
        outcome[index], face[index] = IGNORED if ignore[best] else HIT, best
        free[best] = False
        break


_RULES = {"wider": _wider, "coco": _coco}
