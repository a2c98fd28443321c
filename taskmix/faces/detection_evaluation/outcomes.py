"""What became of each detection on each held-out photo, as plain data for JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from taskmix.faces.detection_evaluation.held_out import HeldOut
from taskmix.faces.detection_evaluation.matching import FALSE, HIT, IGNORED, Faces, Found, match

# What a detection is called; "unjudged" on photos of which not every face is marked.
NAMES = {HIT: "hit", FALSE: "false", IGNORED: "ignored"}
UNJUDGED = "unjudged"


def photo_outcomes(
  held: HeldOut, found: Mapping[str, Found], *, min_face: float = 20.0, min_iou: float = 0.5
) -> list[dict[str, Any]]:
  """A row a photo, those with most misses and false alarms first.

  Args:
    held: the photos and their truth.
    found: image id -> detections at the detector's own thresholds.
    min_face: smaller faces count neither for nor against, in pixels.
    min_iou: least overlap of a hit.

  Returns:
    Rows of "image_id"; "found": a dict a detection with "box" (pixels), "score",
    "points" and "outcome"; "missed": the boxes of faces that none hit.
  """
  rows = [_row(image_id, held.faces.get(image_id), found[image_id], min_face, min_iou) for image_id in found]
  return sorted(rows, key=lambda row: (-faults(row), row["image_id"]))


def faults(row: Mapping[str, Any]) -> int:
  """Misses and false alarms of a row."""
  return len(row["missed"]) + sum(each["outcome"] == NAMES[FALSE] for each in row["found"])


def _row(
  image_id: str, truth: Faces | None, detections: Found, min_face: float, min_iou: float
) -> dict[str, Any]:
  outcomes, missed = [UNJUDGED] * len(detections.boxes), np.zeros((0, 4))
  if truth is not None:
    faces = truth.at_least(min_face)
    matched = match(faces, detections, min_iou=min_iou)
    left = faces.counted.copy()
    left[matched.face[matched.outcome == HIT]] = False
    outcomes, missed = [NAMES[int(each)] for each in matched.outcome], faces.boxes[left]
  points = detections.landmarks
  return {
    "image_id": image_id,
    "found": [
      {
        "box": np.round(box, 1).tolist(),
        "score": round(float(score), 4),
        "points": [] if points is None else np.round(points[index], 1).tolist(),
        "outcome": outcome,
      }
      for index, (box, score, outcome) in enumerate(
        zip(detections.boxes, detections.scores, outcomes, strict=True)
      )
    ],
    "missed": np.round(missed, 1).tolist(),
  }
