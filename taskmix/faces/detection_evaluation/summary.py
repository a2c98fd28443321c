"""All figures of a detector at once, as plain numbers for JSON."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from taskmix.faces.detection_evaluation.curves import average_precision, precision_recall, recall_by_size
from taskmix.faces.detection_evaluation.landmarks import LandmarkErrors, landmark_errors
from taskmix.faces.detection_evaluation.matching import FALSE, HIT, Faces, Found, match
from taskmix.faces.detection_evaluation.roc import fddb_roc
from taskmix.faces.detection_evaluation.wider import WIDER_STEPS

# Smallest face that counts where no official list says which ones do.
MIN_SIDE = 20.0

# Points kept of each curve.
_CURVE_POINTS = 200

# Where the cumulative curve of landmark errors is read: up to twice a failure.
_ERROR_LIMITS = np.linspace(0, 0.2, 41)


def evaluate(
  truth: Mapping[str, Faces],
  found: Mapping[str, Found],
  *,
  min_side: float = MIN_SIDE,
  min_iou: float = 0.5,
  official: bool = False,
) -> dict[str, Any]:
  """AP, curves, recall by size, ROC and landmark errors.

  Args:
    truth: image id -> faces.
    found: image id -> detections; a photo without an entry has none.
    min_side: faces with a shorter side below this many pixels are ignored (but in
      the recall by size).
    min_iou: least overlap of a hit.
    official: to the letter of WIDER's evaluation: 1,000 thresholds, inclusive
      boxes, and `truth` alone says what counts (`min_side` is not used).

  Returns:
    Numbers, lists and dicts; NaN becomes None.

  Raises:
    ValueError: for detections of a photo that `truth` does not have.
  """
  unknown = sorted(set(found) - set(truth))
  if unknown:
    raise ValueError(f"detections of {len(unknown)} photos that have no truth, such as {unknown[0]!r}")
  all_faces = list(truth.values())
  min_side = 0.0 if official else min_side
  counted = [faces.at_least(min_side) for faces in all_faces]
  nothing = Found(np.zeros((0, 4)), np.zeros(0))
  detections = [found.get(image_id, nothing) for image_id in truth]
  matches = [
    match(*pair, min_iou=min_iou, inclusive=official) for pair in zip(counted, detections, strict=True)
  ]
  curve = precision_recall(counted, detections, matches, steps=WIDER_STEPS if official else None)
  every_size = [
    match(*pair, min_iou=min_iou, inclusive=official) for pair in zip(all_faces, detections, strict=True)
  ]
  sizes = recall_by_size(all_faces, detections, every_size)
  roc = fddb_roc(counted, detections, min_iou=min_iou)
  errors = landmark_errors(counted, detections, matches)
  outcome = np.concatenate([np.zeros(0, np.int8), *(each.outcome for each in matches)])
  return _plain(
    {
      "photos": len(truth),
      "faces": curve.faces,
      "min_side": min_side,
      "min_iou": min_iou,
      "average_precision": average_precision(curve),
      "recall": curve.recall[-1] if len(curve.recall) else 0.0,
      "precision": curve.precision[-1] if len(curve.precision) else None,
      "hits": int((outcome == HIT).sum()),
      "false_positives": int((outcome == FALSE).sum()),
      "precision_recall": _thinned(score=curve.scores, precision=curve.precision, recall=curve.recall),
      "recall_by_size": [vars(each) for each in sizes],
      "roc": _thinned(
        score=roc.scores,
        false_positives=roc.false_positives,
        discrete=roc.discrete,
        continuous=roc.continuous,
      ),
      "landmarks": landmark_summary(errors),
    }
  )


def landmark_summary(errors: LandmarkErrors) -> dict[str, Any]:
  """Mean, failures and the cumulative curve; NaN becomes None."""
  return _plain(
    {
      "faces": len(errors.errors),
      "mean_error": errors.mean,
      "failure_rate": errors.failure_rate,
      "cumulative": {"error": _ERROR_LIMITS, "share": errors.cumulative(_ERROR_LIMITS)},
    }
  )


def _thinned(**columns: np.ndarray) -> dict[str, np.ndarray]:
  """At most `_CURVE_POINTS` of the rows, first and last among them."""
  count = len(next(iter(columns.values())))
  at = np.unique(np.linspace(0, max(count - 1, 0), min(count, _CURVE_POINTS)).round().astype(int))
  return {name: values[at[:count]] for name, values in columns.items()}


def _plain(value: Any) -> Any:
  """The same in JSON's types."""
  if isinstance(value, dict):
    return {name: _plain(each) for name, each in value.items()}
  if isinstance(value, (list, tuple, np.ndarray)):
    return [_plain(each) for each in value]
  if isinstance(value, (float, np.floating)):
    # JSON has neither; the open end of the last size range is None.
    return round(float(value), 6) if math.isfinite(value) else None
  return int(value) if isinstance(value, np.integer) else value
