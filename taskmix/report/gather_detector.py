"""What a cascade's detector does on the held-out photos, from DetectionEvaluator's artifact."""

from collections.abc import Mapping, Sequence
from typing import Any

from taskmix.examples import photos
from taskmix.faces.detection_evaluation.outcomes import faults
from taskmix.report import facts, pictures
from taskmix.report.gather_data import read_json
from taskmix.report.gather_model import thinned
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import join

# Photos with what was found, and those with most faults.
_EXAMPLES, _WORST = 6, 6

_POINTS, _MAX_PIXELS = 160, 100_000_000


def read_detector(
  detection: str, *, goal: str, thresholds: Sequence[float], data_root: str, pictures: bool = True
) -> facts.Detector:
  """Figures of every detector that was measured, and photos of the candidate's.

  Args:
    detection: folder of the evaluation.
    goal: of the thresholds.
    thresholds: stored in the detector.
    data_root: folder that image ids start from.
    pictures: with photos.
  """
  told = read_json(detection, "metrics.json")
  rows = read_json(detection, "detections.json") if pictures else []
  worst = [row for row in rows if faults(row)][:_WORST]
  # The worst come first: of the others, those with most faces show most.
  fine = sorted((row for row in rows if row not in worst), key=lambda row: -len(row["found"]))
  return facts.Detector(
    figures=tuple(_figures(name, each) for name, each in told["detectors"].items()),
    thresholds=tuple(thresholds),
    goal=goal,
    examples=tuple(_photo(row, data_root) for row in fine[:_EXAMPLES]),
    worst=tuple(_photo(row, data_root) for row in worst),
  )


def read_checks(detection: str) -> tuple[facts.Check, ...]:
  """The bounds of the detector's policy against what was measured."""
  verdicts = read_json(detection, "metrics.json")["verdicts"]
  return tuple(
    facts.Check(
      "DetectionEvaluator",
      verdict["name"],
      "not measured" if verdict["value"] is None else f"{verdict['value']:.4f}",
      f"{'at most' if verdict['name'] == 'landmark error' else 'at least'} {verdict['bound']:.4g}",
      verdict["holds"],
      verdict["severity"],
    )
    for verdict in verdicts
    # A bound of 0 asks for nothing.
    if verdict["bound"]
  )


def _figures(name: str, told: Mapping[str, Any]) -> facts.Figures:
  settled, landmarks, curve = told["operating_point"], told["landmarks"], told["precision_recall"]
  points = thinned(list(zip(curve["score"], curve["precision"], curve["recall"], strict=True)), _POINTS)
  by_score = sorted(points)
  scores = tuple(score for score, _, _ in by_score)
  errors = landmarks["cumulative"]
  wider = {f"AP of WIDER FACE {setting}": value for setting, value in told.get("wider", {}).items()}
  return facts.Figures(
    name,
    numbers={
      "average precision": told["average_precision"],
      **wider,
      "recall": settled["recall"],
      "precision": settled["precision"],
      "faces found": settled["hits"],
      "false alarms": settled["false_positives"],
      "photos": told["photos"],
      "faces": told["faces"],
      "landmark error": landmarks["mean_error"],
      "landmark failures": landmarks["failure_rate"],
      "faces with landmarks": landmarks["faces"],
    },
    precision_recall=facts.Curve(
      name, tuple(recall for _, _, recall in points), tuple(precision for _, precision, _ in points)
    ),
    by_threshold=(
      facts.Curve("precision", scores, tuple(precision for _, precision, _ in by_score)),
      facts.Curve("recall", scores, tuple(recall for _, _, recall in by_score)),
    ),
    sizes=tuple((_range(size), size["faces"], size["recall"]) for size in settled["recall_by_size"]),
    landmark_error=facts.Curve(name, tuple(errors["error"]), tuple(errors["share"]))
    if landmarks["faces"]
    else None,
  )


def _range(size: Mapping[str, Any]) -> str:
  low, high = size["low"], size["high"]
  return f"{low:.0f} and over" if high is None else f"{low:.0f} to {high:.0f}"


def _photo(row: Mapping[str, Any], data_root: str) -> facts.Picture:
  marks = [
    facts.Mark(
      each["outcome"],
      tuple(each["box"]),
      f"{each['score']:.2f}",
      tuple((x, y) for x, y in each["points"]),
    )
    for each in row["found"]
  ]
  marks += [facts.Mark("missed", tuple(box)) for box in row["missed"]]
  caption = f"{row['image_id']}: {_words(row)}"
  image = AnnotatedImage(row["image_id"], join(data_root, row["image_id"]))
  try:
    pixels = photos.load(image, max_pixels=_MAX_PIXELS)
  except photos.BadPhotoError as error:
    return facts.Picture("", 4, 3, f"{caption} (the photo cannot be read: {error})", caption)
  return pictures.embed(pixels, caption, caption=caption, marks=marks)


def _words(row: Mapping[str, Any]) -> str:
  outcomes = [each["outcome"] for each in row["found"]]
  parts = [
    (outcomes.count("hit"), "found"),
    (outcomes.count("unjudged"), "found, not judged"),
    (len(row["missed"]), "missed"),
    (outcomes.count("false"), "false"),
    (outcomes.count("ignored"), "too small to count"),
  ]
  return ", ".join(f"{count} {word}" for count, word in parts if count) or "no faces, none found"
