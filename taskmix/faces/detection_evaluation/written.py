"""A judgement as files: metrics.json, detections.json, a PNG for each curve, and worst.jpg."""

import dataclasses
import json

from taskmix.examples import storage
from taskmix.faces.detection_evaluation import plots
from taskmix.faces.detection_evaluation.held_out import HeldOut
from taskmix.faces.detection_evaluation.judgement import Judgement
from taskmix.faces.detection_evaluation.outcomes import photo_outcomes
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.sources.files import join

METRICS, DETECTIONS, WORST = "metrics.json", "detections.json", "worst.jpg"


def write(folder: str, judgement: Judgement, *, held: HeldOut, policy: DetectionPolicy) -> None:
  """Writes them into `folder`, which is made; local or remote.

  Args:
    judgement: of detectors.
    held: the photos, for pictures of the worst.
    policy: that they were judged by.
  """
  metrics = {
    "blessed": judgement.blessed,
    "verdicts": [dataclasses.asdict(verdict) for verdict in judgement.verdicts],
    "policy": dataclasses.asdict(policy),
    "detectors": judgement.figures,
  }
  pictures = plots.draw_curves(judgement.figures)
  pictures[WORST] = plots.draw_worst(held, judgement.found, min_face=policy.min_face)
  rows = photo_outcomes(held, judgement.found, min_face=policy.min_face, min_iou=policy.min_iou)
  texts = {METRICS: json.dumps(metrics, indent=1), DETECTIONS: json.dumps(rows)}
  storage.make_folder(folder)
  for name, content in {**{name: f"{text}\n".encode() for name, text in texts.items()}, **pictures}.items():
    storage.write_bytes(join(folder, name), content)
