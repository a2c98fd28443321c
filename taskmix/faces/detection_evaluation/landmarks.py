"""How far predicted points lie from marked ones."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from taskmix.faces.detection_evaluation.matching import HIT, Faces, Found, Match

# Errors above this share of the distance between the eyes are failures (300-W).
FAILURE = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class LandmarkErrors:
  """Normalised mean errors of the faces hit.

  Attributes:
    errors: float64 [n], rising: the mean distance of a face's points from the
      marked ones over the distance between its eyes.
  """

  errors: np.ndarray

  @property
  def mean(self) -> float:
    return float(self.errors.mean()) if len(self.errors) else float("nan")

  @property
  def failure_rate(self) -> float:
    """The share of faces with an error above `FAILURE`."""
    return float((self.errors > FAILURE).mean()) if len(self.errors) else float("nan")

  def cumulative(self, limits: np.ndarray) -> np.ndarray:
    """The share of faces whose error is at most each limit: float64, as `limits`."""
    return np.searchsorted(self.errors, limits, side="right") / max(len(self.errors), 1)


def landmark_errors(
  truth: Sequence[Faces], found: Sequence[Found], matches: Sequence[Match]
) -> LandmarkErrors:
  """The errors over all photos, of hits whose face has its points marked.

  Points are in the order of `taskmix.faces.geometry`: the first two are the eyes.
  """
  errors = [np.zeros(0)]
  for faces, detections, matched in zip(truth, found, matches, strict=True):
    if faces.landmarks is None or detections.landmarks is None:
      continue
    hits = np.flatnonzero(matched.outcome == HIT)
    marked = faces.landmarks[matched.face[hits]].astype(np.float64)
    errors.append(normalized_errors(marked, detections.landmarks[hits]))
  joined = np.concatenate(errors)
  return LandmarkErrors(np.sort(joined[np.isfinite(joined)]))


def normalized_errors(marked: np.ndarray, predicted: np.ndarray) -> np.ndarray:
  """Mean distance of the points of each face, over the distance between its eyes.

  Args:
    marked: [n, p, 2]; NaN where a point is not marked.
    predicted: [n, p, 2], same frame.

  Returns:
    float64 [n]; NaN where a point is not marked, or both eyes are one point.
  """
  marked = np.asarray(marked, np.float64)
  distances = np.linalg.norm(marked - predicted, axis=2).mean(axis=1)
  eyes = np.linalg.norm(marked[:, 0] - marked[:, 1], axis=1)
  return np.divide(distances, eyes, out=np.full(len(marked), np.nan), where=eyes > 0)
