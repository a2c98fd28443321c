"""Precision, recall and AP by hand, and AP against pycocotools."""

import contextlib
import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.faces.detection_evaluation import (
  FALSE,
  HIT,
  IGNORED,
  Faces,
  Found,
  average_precision,
  match,
  precision_recall,
  recall_by_size,
)

TWO_FACES = Faces(np.array([[0, 0, 10, 10], [50, 50, 80, 80]]))
# Hit, false alarm, hit.
THREE = Found(np.array([[0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 80, 80]]), np.array([0.9, 0.8, 0.7]))


def curve_of(faces: list[Faces], found: list[Found], *, steps: int | None = None):
  matches = [match(*pair) for pair in zip(faces, found, strict=True)]
  return precision_recall(faces, found, matches, steps=steps)


def test_three_detections_by_hand():
  curve = curve_of([TWO_FACES], [THREE])
  np.testing.assert_allclose(curve.precision, [1, 1 / 2, 2 / 3])
  np.testing.assert_allclose(curve.recall, [1 / 2, 1 / 2, 1])
  # Half of the faces at precision 1, the other half at 2/3.
  assert average_precision(curve) == pytest.approx(1 / 2 + 1 / 2 * 2 / 3)


def test_scores_are_ranked_over_all_photos():
  other = Found(np.array([[0.0, 0, 9, 9]]), np.array([0.95]))
  curve = curve_of([TWO_FACES, Faces(np.zeros((0, 4)))], [THREE, other])
  np.testing.assert_allclose(curve.scores, [0.95, 0.9, 0.8, 0.7])
  np.testing.assert_allclose(curve.precision, [0, 1 / 2, 1 / 3, 2 / 4])
  assert average_precision(curve) == pytest.approx(1 / 2 * 1 / 2 + 1 / 2 * 1 / 2)


def test_a_face_is_hit_once_and_its_second_detection_is_false():
  found = Found(np.array([[0, 0, 10, 10], [0, 0, 10, 9]]), np.array([0.6, 0.9]))
  for rule in ("wider", "coco"):
    assert match(TWO_FACES, found, rule=rule).outcome.tolist() == [FALSE, HIT]


def test_an_iou_of_exactly_the_least_is_a_hit():
  # 50 of 100 pixels shared.
  found = Found(np.array([[0, 0, 5, 10]]), np.array([0.6]))
  assert match(TWO_FACES, found).outcome.tolist() == [HIT]
  assert match(TWO_FACES, found, min_iou=0.51).outcome.tolist() == [FALSE]


def test_an_ignored_face_counts_neither_way():
  faces = Faces(TWO_FACES.boxes, np.array([True, False]))
  assert match(faces, THREE).outcome.tolist() == [IGNORED, FALSE, HIT]
  curve = curve_of([faces], [THREE])
  assert curve.faces == 1
  np.testing.assert_allclose(curve.precision, [0, 1 / 2])
  assert TWO_FACES.at_least(10).counted.tolist() == [True, True]
  assert TWO_FACES.at_least(10.5).counted.tolist() == [False, True]


def test_no_detections_and_no_faces():
  nothing, nobody = Found(np.zeros((0, 4)), np.zeros(0)), Faces(np.zeros((0, 4)))
  assert average_precision(curve_of([TWO_FACES], [nothing])) == 0
  assert math.isnan(average_precision(curve_of([nobody], [THREE])))


def test_steps_thin_the_curve_but_keep_its_end():
  curve = curve_of([TWO_FACES], [THREE], steps=1000)
  assert len(curve.precision) == 1000
  assert (curve.precision[-1], curve.recall[-1]) == (pytest.approx(2 / 3), 1)


def test_recall_by_size_by_hand():
  # Sides 10 and 30; the smaller is not hit.
  found = Found(np.array([[50, 50, 80, 80]]), np.array([0.7]))
  ranges = recall_by_size([TWO_FACES], [found], [match(TWO_FACES, found)])
  told = {(each.low, each.high): (each.faces, each.recall) for each in ranges}
  assert told[10, 20] == (1, 0)
  assert told[20, 40] == (1, 1)
  assert told[40, 80][0] == 0
  assert math.isnan(told[40, 80][1])
  assert recall_by_size([TWO_FACES], [found], [match(TWO_FACES, found)], min_score=0.8)[2].recall == 0


@st.composite
def photos(draw):
  """Faces, some ignored, and detections near them and elsewhere; no two score the same."""
  rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
  truth, found = [], []
  for _ in range(draw(st.integers(1, 4))):
    corners = rng.integers(0, 60, (rng.integers(0, 7), 2))
    boxes = np.concatenate([corners, corners + rng.integers(8, 30, corners.shape)], axis=1)
    truth.append(Faces(boxes, rng.random(len(boxes)) < draw(st.sampled_from([0.0, 0.3]))))
    near = np.repeat(boxes, 2, axis=0) + rng.integers(-4, 5, (2 * len(boxes), 4))
    corners = rng.integers(0, 60, (rng.integers(0, 4), 2))
    detections = np.concatenate([near, np.concatenate([corners, corners + 12], axis=1)])
    detections[:, 2:] = np.maximum(detections[:, 2:], detections[:, :2] + 1)
    found.append(Found(detections, rng.permutation(1000)[: len(detections)] / 1000))
  scores = np.concatenate([each.scores for each in found])
  distinct = rng.permutation(len(scores)).astype(np.float32) / 512
  ends = np.cumsum([len(each.scores) for each in found])[:-1]
  return truth, [Found(f.boxes, s) for f, s in zip(found, np.split(distinct, ends), strict=True)]


def coco_ap(truth: list[Faces], found: list[Found]) -> float:
  """AP at IoU 0.5 and 101 points of recall, by pycocotools; -1 without faces."""
  from pycocotools.coco import COCO
  from pycocotools.cocoeval import COCOeval

  def entries(photo: int, boxes: np.ndarray):
    for box in boxes.astype(np.float64):
      wide, high = box[2] - box[0], box[3] - box[1]
      yield {
        "image_id": photo,
        "category_id": 1,
        "bbox": [box[0], box[1], wide, high],
        "area": wide * high,
      }

  annotations = [
    # An ignored face that is no crowd: found once, as ours.
    {**entry, "id": 0, "iscrowd": 0, "ignore": int(ignored)}
    for photo, faces in enumerate(truth, start=1)
    for entry, ignored in zip(entries(photo, faces.boxes), ~faces.counted, strict=True)
  ]
  for number, annotation in enumerate(annotations, start=1):
    annotation["id"] = number
  results = [
    {**entry, "score": float(score)}
    for photo, each in enumerate(found, start=1)
    for entry, score in zip(entries(photo, each.boxes), each.scores, strict=True)
  ]
  with contextlib.redirect_stdout(io.StringIO()):
    coco = COCO()
    coco.dataset = {
      "images": [{"id": photo} for photo in range(1, len(truth) + 1)],
      "annotations": annotations,
      "categories": [{"id": 1}],
    }
    coco.createIndex()
    evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
    evaluation.params.iouThrs = np.array([0.5])
    evaluation.params.maxDets = [1000]
    evaluation.params.areaRng = [[0, 1e10]]
    evaluation.params.areaRngLbl = ["all"]
    evaluation._prepare = _keeping_ignore(evaluation)
    evaluation.evaluate()
    evaluation.accumulate()
  precision = evaluation.eval["precision"][0, :, 0, 0, 0]
  return float(precision.mean())


def _keeping_ignore(evaluation):
  """pycocotools overwrites `ignore` by `iscrowd`; this puts ours back."""
  prepare = evaluation._prepare

  def prepared():
    kept = {a["id"]: a["ignore"] for a in evaluation.cocoGt.dataset["annotations"]}
    prepare()
    for entries in evaluation._gts.values():
      for entry in entries:
        entry["ignore"] = kept[entry["id"]]

  return prepared


@given(drawn=photos())
@settings(max_examples=40, deadline=None)
def test_ap_is_that_of_pycocotools(drawn):
  truth, found = drawn
  if not sum(faces.counted.sum() for faces in truth) or not sum(len(each.scores) for each in found):
    return
  matches = [match(*pair, rule="coco") for pair in zip(truth, found, strict=True)]
  ours = average_precision(precision_recall(truth, found, matches), points=101)
  assert ours == pytest.approx(coco_ap(truth, found), abs=1e-9)


def test_wrong_lengths_and_rules_are_refused():
  with pytest.raises(ValueError, match="2 boxes, but ignore"):
    Faces(TWO_FACES.boxes, np.array([True]))
  with pytest.raises(ValueError, match="1 boxes, but 2 scores"):
    Found(np.zeros((1, 4)), np.zeros(2))
  with pytest.raises(ValueError, match="wider, coco"):
    match(TWO_FACES, THREE, rule="voc")  # pyright: ignore[reportArgumentType]
