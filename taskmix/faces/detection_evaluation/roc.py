"""ROC curves as FDDB draws them (Jain and Learned-Miller 2010).

At every threshold detections and faces are paired one to one so that the sum of
overlaps is largest; the *discrete* curve counts pairs that overlap by more than
half, the *continuous* one adds up the overlaps themselves. FDDB's regions are
ellipses; ours are boxes, so values compare with each other, not with its
published ones.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from taskmix.faces import geometry
from taskmix.faces.detection_evaluation.matching import Faces, Found


@dataclasses.dataclass(frozen=True, eq=False)
class Roc:
  """True positive rate against false positives as the threshold falls.

  Attributes:
    scores: float32 [k], thresholds, falling.
    false_positives: int64 [k], over all photos.
    discrete, continuous: float64 [k], true positive rates.
    faces: how many there are to find.
  """

  scores: np.ndarray
  false_positives: np.ndarray
  discrete: np.ndarray
  continuous: np.ndarray
  faces: int

  def at(self, false_positives: int) -> tuple[float, float]:
    """Discrete and continuous rate at no more than so many false positives."""
    within = np.flatnonzero(self.false_positives <= false_positives)
    if not len(within):
      return 0.0, 0.0
    return float(self.discrete[within].max()), float(self.continuous[within].max())


def fddb_roc(truth: Sequence[Faces], found: Sequence[Found], *, min_iou: float = 0.5) -> Roc:
  """The curves over all photos.

  Args:
    truth, found: one a photo, in the same order. A detection paired with an
      ignored face counts neither way.
    min_iou: a pair that overlaps by no more than this is none.
  """
  total = int(sum(faces.counted.sum() for faces in truth))
  # What changes in a photo as its next detection comes in, by that one's score.
  scores, changes = [], []
  for faces, detections in zip(truth, found, strict=True):
    order = np.argsort(-detections.scores, kind="stable")
    iou = geometry.iou_matrix(detections.boxes[order], faces.boxes)
    before = np.zeros(3)
    for count in range(1, len(order) + 1):
      after = _counts(iou[:count], faces, min_iou)
      scores.append(detections.scores[order[count - 1]])
      changes.append(after - before)
      before = after
  falling = np.argsort(-np.asarray(scores, np.float32), kind="stable")
  sums = np.cumsum(np.asarray(changes).reshape(-1, 3)[falling], axis=0)
  rates = sums[:, 1:] / max(total, 1)
  false = np.rint(sums[:, 0]).astype(np.int64)
  return Roc(np.asarray(scores, np.float32)[falling], false, rates[:, 0], rates[:, 1], total)


def _counts(iou: np.ndarray, faces: Faces, min_iou: float) -> np.ndarray:
  """False positives, pairs, and the sum of their overlaps: float64 [3]."""
  # Loaded here: a pipeline's launcher imports this package for its policy alone.
  from scipy.optimize import linear_sum_assignment

  overlap = np.where(iou > min_iou, iou, 0)
  rows, columns = linear_sum_assignment(-overlap)
  paired = overlap[rows, columns] > 0
  rows, columns = rows[paired], columns[paired]
  counted = faces.counted[columns]
  return np.array([len(iou) - len(rows), counted.sum(), overlap[rows, columns][counted].sum()], np.float64)
