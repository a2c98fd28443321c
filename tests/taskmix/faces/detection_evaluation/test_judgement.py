"""A detector's verdict: photos held out, bounds, the last blessed one, official lists."""

import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

from taskmix.faces.cascade import Options
from taskmix.faces.detection_evaluation import Faces, plots
from taskmix.faces.detection_evaluation.held_out import HeldOut, annotated, detect_all, held_out
from taskmix.faces.detection_evaluation.judgement import judge, wider_truth
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.nets.mtcnn import PNET
from taskmix.sources.annotated import AnnotatedImage
from taskmix.spec import Source

SOURCES = (
  Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
  Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
)
NET = dataclasses.replace(PNET, sources=SOURCES)
IDS = ("photos/skimage_astronaut.jpg", "photos/faceapi_sample4.jpg")


class Oracle:
  """Finds what it was told, by the photo's top left pixel; scores fall from 0.9 by 0.1."""

  def __init__(self, boxes, *, shift=0.0):
    self.boxes, self.shift, self.asked = boxes, shift, []

  def __call__(self, photo, options=None):
    self.asked.append(options)
    boxes = np.asarray(self.boxes[int(photo[0, 0, 0])], np.float32).reshape(-1, 4)
    points = np.tile((boxes[:, None, :2] + boxes[:, None, 2:]) / 2, (1, 5, 1)) + self.shift
    return {"boxes": boxes, "scores": 0.9 - 0.1 * np.arange(len(boxes)), "landmarks": points}


@pytest.fixture
def held(tmp_path):
  """Two photos, 0 and 1; one large face in 0, a large and a small one in 1; points in 0."""
  images = {}
  for number, name in enumerate(("1--Parade/a.png", "1--Parade/b.png")):
    path = tmp_path / f"{number}.png"
    Image.new("RGB", (120, 90), (number, 0, 0)).save(path)
    images[name] = AnnotatedImage(name, str(path))
  points = np.full((1, 5, 2), 30.0)
  points[0, 0, 0] = 20.0
  first = Faces(np.array([[10, 10, 50, 50]]), None, points)
  second = Faces(np.array([[60, 20, 100, 60], [5, 5, 15, 15]]))
  return HeldOut(images, {"1--Parade/a.png": first, "1--Parade/b.png": second}, {"1--Parade/a.png": first})


PERFECT = {0: [[10, 10, 50, 50]], 1: [[60, 20, 100, 60]]}
HALF = {0: [[10, 10, 50, 50]], 1: []}


def test_a_perfect_detector_passes_and_small_faces_count_for_nothing(held):
  judgement = judge({"candidate": Oracle(PERFECT)}, held, DetectionPolicy(min_ap=1.0, min_recall=1.0))
  assert judgement.blessed
  figures = judgement.figures["candidate"]
  assert figures["faces"] == 2 and figures["average_precision"] == 1.0
  assert figures["operating_point"]["precision"] == 1.0


def test_ap_is_taken_at_the_policys_thresholds_and_recall_at_the_models_own(held):
  oracle = Oracle(PERFECT)
  judge({"candidate": oracle}, held, DetectionPolicy(thresholds=(0.1, 0.2, 0.3), min_face=24.0))
  assert oracle.asked == [Options((0.1, 0.2, 0.3), 24.0)] * 2 + [None] * 2


@pytest.mark.parametrize(
  ("bounds", "failed"),
  [
    ({"min_ap": 0.5, "min_recall": 0.5}, []),
    ({"min_ap": 0.51}, ["average precision"]),
    ({"min_recall": 0.51}, ["recall"]),
    ({"min_precision": 1.0}, []),
    # Points lie at (30, 30): 10 px off for the first, eyes 10 px apart: 10 / 5 / 10.
    ({"max_nme": 0.2}, []),
    ({"max_nme": 0.19}, ["landmark error"]),
  ],
)
def test_bounds_hold_where_they_are_met_exactly(held, bounds, failed):
  judgement = judge({"candidate": Oracle(HALF)}, held, DetectionPolicy(**bounds))
  assert [verdict.name for verdict in judgement.verdicts if not verdict.holds] == failed
  assert judgement.blessed == (not failed)


def test_a_bound_on_what_could_not_be_measured_fails(held):
  nothing = Oracle({0: [], 1: []})
  judgement = judge({"candidate": nothing}, held, DetectionPolicy(max_nme=0.1, min_precision=0.1))
  assert [str(each) for each in judgement.verdicts if not each.holds] == [
    "precision: not measured, bound 0.1000, FAILED",
    "landmark error: not measured, bound 0.1000, FAILED",
  ]


def test_a_detector_worse_than_the_last_blessed_one_fails(held):
  both = {"candidate": Oracle(HALF), "baseline": Oracle(PERFECT)}
  assert judge(both, held, DetectionPolicy(max_worsening=0.5)).blessed
  assert not judge(both, held, DetectionPolicy(max_worsening=0.49)).blessed


def test_a_detector_is_held_to_a_share_of_the_reference(held):
  both = {"candidate": Oracle(HALF), "reference": Oracle(PERFECT)}
  assert judge(both, held, DetectionPolicy(min_share_of_reference=0.5)).blessed
  assert not judge(both, held, DetectionPolicy(min_share_of_reference=0.51)).blessed


def test_a_policy_turns_a_bound_into_a_warning(held):
  both = {"candidate": Oracle(HALF), "baseline": Oracle(PERFECT)}
  lenient = DetectionPolicy(max_worsening=0.1, warn=("max_worsening",))
  judgement = judge(both, held, lenient)
  assert judgement.blessed
  (warned,) = [verdict for verdict in judgement.verdicts if not verdict.holds]
  assert (warned.name, warned.severity) == ("average precision against the last blessed", "warn")
  assert not judge(both, held, dataclasses.replace(lenient, min_ap=0.9)).blessed
  with pytest.raises(ValueError, match="no bound on a detector ap; there is min_ap, min_recall"):
    DetectionPolicy(warn=("ap",))


def test_official_lists_say_what_counts(held):
  # In this setting the large face of the second photo is ignored and the small one counts.
  lists = {
    "1--Parade/a.png": Faces(np.array([[10, 10, 50, 50]])),
    "1--Parade/b.png": Faces(np.array([[60, 20, 100, 60], [5, 5, 15, 15]]), np.array([True, False])),
    "2--Else/c.png": Faces(np.array([[0, 0, 9, 9]])),
  }
  truth = wider_truth(lists, held)
  assert set(truth) == set(held.faces)
  judgement = judge({"candidate": Oracle(PERFECT)}, held, DetectionPolicy(), wider={"hard": truth})
  assert judgement.figures["candidate"]["wider"] == {"hard": 0.5}


def test_official_lists_of_other_photos_are_refused(held):
  with pytest.raises(ValueError, match="name none of the eval photos"):
    wider_truth({"2--Else/c.png": Faces(np.zeros((0, 4)))}, held)


def test_truth_comes_from_the_nets_sources(demo):
  held = held_out(NET, data_root=str(demo), ids=IDS)
  assert sorted(held.images) == sorted(held.faces) == sorted(IDS)
  assert len(held.faces["photos/faceapi_sample4.jpg"].boxes) > 1
  assert held.pixels(IDS[0]).shape == (512, 512, 3)
  points = held.points["photos/skimage_astronaut.jpg"].landmarks
  assert points is not None and np.isfinite(points).any()


def test_sources_that_mark_some_faces_give_points_alone(demo):
  points = dataclasses.replace(NET, sources=SOURCES[1:])
  with pytest.raises(
    ValueError, match=r"none of the 2 eval photos has all its faces marked \(sources none\)"
  ):
    held_out(points, data_root=str(demo), ids=IDS)


def test_all_photos_of_one_file(demo):
  held = annotated("wider_face", "bbx_gt.txt", data_root=str(demo))
  assert len(held.faces) == len(held.images) > 50
  with pytest.raises(ValueError, match="no format 'wide_face'"):
    annotated("wide_face", "bbx_gt.txt", data_root=str(demo))


def test_photos_are_answered_in_their_order(held):
  found = detect_all(Oracle(PERFECT), held, held.images)
  assert [each.boxes[0, 0] for each in found.values()] == [10, 60]


def test_plots_and_the_worst_photos_first(held):
  judgement = judge({"candidate": Oracle(HALF), "baseline": Oracle(PERFECT)}, held, DetectionPolicy())
  drawn = plots.draw_curves(judgement.figures)
  assert set(drawn) == {"precision_recall.png", "recall_by_size.png", "roc.png", "landmark_error.png"}
  assert all(Image.open(io.BytesIO(each)).size == (900, 600) for each in drawn.values())
  sheet = np.asarray(Image.open(io.BytesIO(plots.draw_worst(held, judgement.found, side=120))))
  assert sheet.shape == (120, 240, 3)
  # The missed face of the second photo comes first, in yellow: its left edge at x 60.
  assert sheet[40, 60, 0] > 180 and sheet[40, 60, 1] > 150 and sheet[40, 60, 2] < 90


@pytest.mark.parametrize(
  "wrong",
  [
    {"min_ap": 1.5},
    {"min_recall": -0.1},
    {"max_nme": 0.0},
    {"min_iou": 1.0},
    {"thresholds": (0.1, 0.2, 1.3)},
  ],
)
def test_a_policy_checks_itself(wrong):
  with pytest.raises(ValueError, match="|".join(wrong)):
    DetectionPolicy(**wrong)
