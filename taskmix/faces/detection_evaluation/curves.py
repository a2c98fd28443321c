"""Precision and recall over all photos, and recall by the size of a face."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from taskmix.faces import geometry
from taskmix.faces.detection_evaluation.matching import HIT, IGNORED, Faces, Found, Match

# Shorter sides in pixels: WIDER's smallest, a P-Net cell at min_face 20, doublings.
SIZE_EDGES = (0, 10, 20, 40, 80, 160, np.inf)


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
  """Precision against recall as the score's threshold falls.

  Attributes:
    scores: float32 [k], thresholds, falling.
    precision, recall: float64 [k], of the detections from that score on.
    faces: how many there are to find.
  """

  scores: np.ndarray
  precision: np.ndarray
  recall: np.ndarray
  faces: int


@dataclasses.dataclass(frozen=True)
class SizeRecall:
  """Recall of faces whose shorter side is at least `low` and below `high` pixels."""

  low: float
  high: float
  faces: int
  recall: float


def precision_recall(
  truth: Sequence[Faces], found: Sequence[Found], matches: Sequence[Match], *, steps: int | None = None
) -> Curve:
  """The curve over all photos.

  Args:
    truth, found, matches: one a photo, in the same order.
    steps: None gives a point for every detection. A number gives so many
      thresholds evenly over the range of the scores, as WIDER's evaluation has it
      (1,000).
  """
  total = int(sum(faces.counted.sum() for faces in truth))
  scores = _joined([each.scores for each in found], np.float32)
  outcome = _joined([each.outcome for each in matches], np.int8)
  order = np.argsort(-scores, kind="stable")
  order = order[outcome[order] != IGNORED]
  scores, hits = scores[order], np.cumsum(outcome[order] == HIT)
  counts = np.arange(1, len(scores) + 1)
  if steps is not None and len(scores):
    scores, hits, counts = _at_steps(scores, hits, counts, steps)
  precision = np.divide(hits, counts, out=np.zeros(len(hits)), where=counts > 0)
  return Curve(scores, precision, hits / max(total, 1), total)


def _at_steps(scores, hits, counts, steps: int):
  """The curve's points at the thresholds 1 - k / steps of the scores' range."""
  low, high = scores.min(), scores.max()
  thresholds = high - (high - low) * np.arange(1, steps + 1) / steps
  at = np.searchsorted(-scores, -thresholds.astype(np.float32), side="right") - 1
  reached = at >= 0
  at = np.maximum(at, 0)
  return thresholds.astype(np.float32), np.where(reached, hits[at], 0), np.where(reached, counts[at], 0)


def average_precision(curve: Curve, *, points: int | None = None) -> float:
  """Area under the curve, precision made monotonous (VOC 2010; WIDER FACE).

  Args:
    curve: of `precision_recall`.
    points: None takes every step of recall; 101 samples recall as COCO does.
  """
  if not curve.faces:
    return float("nan")
  best = np.maximum.accumulate(curve.precision[::-1])[::-1]
  if points is not None:
    at = np.searchsorted(curve.recall, np.linspace(0, 1, points), side="left")
    return float(np.append(best, 0)[at].mean()) if len(best) else 0.0
  gained = np.diff(np.concatenate([[0], curve.recall]))
  return float((gained * best).sum())


def recall_by_size(
  truth: Sequence[Faces],
  found: Sequence[Found],
  matches: Sequence[Match],
  *,
  min_score: float = 0.0,
  edges: Sequence[float] = SIZE_EDGES,
) -> tuple[SizeRecall, ...]:
  """Recall in each range of sizes, of the detections that score at least `min_score`.

  Ignored faces are left out; a range without faces has recall NaN.
  """
  sides, hit = [], []
  for faces, detections, matched in zip(truth, found, matches, strict=True):
    was_hit = np.zeros(len(faces.boxes), bool)
    was_hit[matched.face[(matched.outcome == HIT) & (detections.scores >= min_score)]] = True
    sides.append(geometry.sizes(faces.boxes).min(axis=1, initial=np.inf)[faces.counted])
    hit.append(was_hit[faces.counted])
  side, was = _joined(sides, np.float32), _joined(hit, bool)
  ranges = []
  for low, high in itertools.pairwise(edges):
    inside = (side >= low) & (side < high)
    count = int(inside.sum())
    recall = float(was[inside].mean()) if count else float("nan")
    ranges.append(SizeRecall(float(low), float(high), count, recall))
  return tuple(ranges)


def _joined(parts: Sequence[np.ndarray], dtype) -> np.ndarray:
  return np.concatenate([np.zeros(0, dtype), *parts])
