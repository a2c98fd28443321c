"""A detector's figures on held-out photos, beside those of others, against bounds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from taskmix.faces.detection_evaluation.held_out import Detect, HeldOut, detect_all
from taskmix.faces.detection_evaluation.landmarks import landmark_errors
from taskmix.faces.detection_evaluation.matching import Faces, Found, match
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.faces.detection_evaluation.summary import evaluate, landmark_summary

CANDIDATE, BASELINE, REFERENCE = "candidate", "baseline", "reference"

# Boxes that are derived from points are tighter or looser than drawn ones; a
# detection of that face still overlaps its box by this much.
_POINTS_IOU = 0.3


@dataclasses.dataclass(frozen=True)
class Verdict:
  """One bound and what was measured; `value` is None where nothing could be.

  `severity` is "warn" where the policy lets it pass though it does not hold.
  """

  name: str
  value: float | None
  bound: float
  holds: bool
  severity: str = "stop"

  def __str__(self) -> str:
    value = "not measured" if self.value is None else f"{self.value:.4f}"
    return f"{self.name}: {value}, bound {self.bound:.4f}{'' if self.holds else ', FAILED'}"


@dataclasses.dataclass(frozen=True)
class Judgement:
  """What became of a detector.

  Attributes:
    figures: name of a detector -> what `measure` gives.
    verdicts: one a bound.
    found: detections of the candidate at its own thresholds, by photo.
  """

  figures: Mapping[str, Mapping[str, Any]]
  verdicts: tuple[Verdict, ...]
  found: Mapping[str, Found]

  @property
  def blessed(self) -> bool:
    return all(verdict.holds or verdict.severity == "warn" for verdict in self.verdicts)


def judge(
  detectors: Mapping[str, Detect],
  held: HeldOut,
  policy: DetectionPolicy,
  *,
  wider: Mapping[str, Mapping[str, Faces]] | None = None,
) -> Judgement:
  """Measures every detector on the same photos and holds the candidate to the bounds.

  Args:
    detectors: "candidate", and "baseline" and "reference" where there are any.
    held: the photos.
    policy: the bounds.
    wider: setting -> image id -> truth of the official lists, for those of the
      photos that are WIDER's validation photos; see `wider_truth`.
  """
  figures, found = {}, {}
  for name, detector in detectors.items():
    figures[name], found[name] = measure(detector, held, policy, wider=wider or {})
  return Judgement(figures, tuple(_verdicts(figures, policy)), found[CANDIDATE])


def measure(
  detector: Detect,
  held: HeldOut,
  policy: DetectionPolicy,
  *,
  wider: Mapping[str, Mapping[str, Faces]],
) -> tuple[dict[str, Any], dict[str, Found]]:
  """Figures of one detector, and its detections at its own thresholds.

  Returns:
    `evaluate`'s figures at the policy's thresholds; under "operating_point" the
    recall, precision and counts at the stored ones; under "landmarks" the errors
    at the stored ones; under "wider" the official APs; and the detections.
  """
  from taskmix.faces.cascade import Options

  low = Options(policy.thresholds, policy.min_face, policy.factor)
  searched = detect_all(detector, held, held.faces, low, max_pixels=policy.max_pixels)
  own = detect_all(detector, held, held.images, max_pixels=policy.max_pixels)
  figures = evaluate(held.faces, searched, min_side=policy.min_face, min_iou=policy.min_iou)
  settled = evaluate(
    held.faces, {each: own[each] for each in held.faces}, min_side=policy.min_face, min_iou=policy.min_iou
  )
  names = ("recall", "precision", "hits", "false_positives", "recall_by_size")
  figures["operating_point"] = {name: settled[name] for name in names}
  figures["landmarks"] = landmark_summary(_point_errors(held, own))
  figures["wider"] = {
    setting: evaluate(truth, {each: searched[each] for each in truth}, official=True)["average_precision"]
    for setting, truth in wider.items()
  }
  return figures, own


def _point_errors(held: HeldOut, found: Mapping[str, Found]):
  truth, detections = list(held.points.values()), [found[each] for each in held.points]
  matches = [match(*pair, min_iou=_POINTS_IOU) for pair in zip(truth, detections, strict=True)]
  return landmark_errors(truth, detections, matches)


def wider_truth(lists: Mapping[str, Faces], held: HeldOut) -> dict[str, Faces]:
  """An official list's truth for the held-out photos that it names, by image id.

  Args:
    lists: "event/photo.jpg" -> Faces, of `read_val_lists`.
    held: the photos; an id's last two parts are event and photo.

  Raises:
    ValueError: if the list names none of them.
  """
  named = {each: "/".join(each.split("/")[-2:]) for each in held.faces}
  truth = {each: lists[name] for each, name in named.items() if name in lists}
  if not truth:
    raise ValueError("WIDER's validation lists name none of the eval photos; leave the lists out")
  return truth


def _verdicts(figures: Mapping[str, Mapping[str, Any]], policy: DetectionPolicy) -> list[Verdict]:
  mine = figures[CANDIDATE]
  ap, settled = mine["average_precision"], mine["operating_point"]
  verdicts = {
    "min_ap": _least("average precision", ap, policy.min_ap),
    "min_recall": _least("recall", settled["recall"], policy.min_recall),
    "min_precision": _least("precision", settled["precision"], policy.min_precision),
  }
  if policy.max_nme is not None:
    error = mine["landmarks"]["mean_error"]
    held = error is not None and error <= policy.max_nme
    verdicts["max_nme"] = Verdict("landmark error", error, policy.max_nme, held)
  if BASELINE in figures and (before := figures[BASELINE]["average_precision"]) is not None:
    bound = max(before - policy.max_worsening, 0.0)
    verdicts["max_worsening"] = _least("average precision against the last blessed", ap, bound)
  if REFERENCE in figures and (released := figures[REFERENCE]["average_precision"]) is not None:
    bound = released * policy.min_share_of_reference
    verdicts["min_share_of_reference"] = _least("average precision against the reference", ap, bound)
  return [
    dataclasses.replace(verdict, severity="warn" if name in policy.warn else "stop")
    for name, verdict in verdicts.items()
  ]


def _least(name: str, value: float | None, bound: float) -> Verdict:
  # Nothing asked for is held by nothing measured.
  return Verdict(name, value, bound, bound == 0 or (value is not None and value >= bound))
