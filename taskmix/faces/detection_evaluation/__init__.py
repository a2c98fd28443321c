"""How good a face detector is: plain NumPy, no matter what made the detections.

Faces, Found (one a photo) -> matching.match -> Matches
  curves.precision_recall, average_precision, recall_by_size
  roc.fddb_roc             landmarks.landmark_errors
wider.read_val_lists: the official easy, medium and hard lists

held_out.held_out (photos and truth of a run) -> judgement.judge -> plots.draw_curves
"""

from taskmix.faces.detection_evaluation.curves import (
  Curve,
  SizeRecall,
  average_precision,
  precision_recall,
  recall_by_size,
)
from taskmix.faces.detection_evaluation.landmarks import LandmarkErrors, landmark_errors
from taskmix.faces.detection_evaluation.matching import (
  FALSE,
  HIT,
  IGNORED,
  Faces,
  Found,
  Match,
  match,
)
from taskmix.faces.detection_evaluation.roc import Roc, fddb_roc
from taskmix.faces.detection_evaluation.summary import evaluate
from taskmix.faces.detection_evaluation.wider import WIDER_SETTINGS, read_val_lists

__all__ = [
  "FALSE",
  "HIT",
  "IGNORED",
  "WIDER_SETTINGS",
  "Curve",
  "Faces",
  "Found",
  "LandmarkErrors",
  "Match",
  "Roc",
  "SizeRecall",
  "average_precision",
  "evaluate",
  "fddb_roc",
  "landmark_errors",
  "match",
  "precision_recall",
  "read_val_lists",
  "recall_by_size",
]
