"""Columns that contradict each other are found, and honest crops are not accused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmix.faces import geometry
from taskmix.gates.labels import LabelCheck, rules_of
from taskmix.nets.cifar10 import CNN
from taskmix.nets.mtcnn import PNET

EYES_UP = np.array([[0.3, 0.3], [0.7, 0.3], [0.5, 0.5], [0.35, 0.75], [0.65, 0.75]], np.float32)


def _batch(kind: str, /, rows: int = 3, **columns) -> dict:
  """Sound examples of one kind of P-Net, with some columns replaced."""
  crop = np.array([10, 10, 30, 30], np.float32)
  # Against a crop of 20: the face [10, 10, 28, 26] has IoU 18 * 16 / 400 = 0.72;
  # [10, 10, 22, 26] has 12 * 16 / 400 = 0.48.
  offsets = {"pos": [0, 0, -0.1, -0.2], "part": [0, 0, -0.4, -0.2]}.get(kind, [0, 0, 0, 0])
  one = {
    "image": np.zeros(PNET.input_size, np.uint8),
    "kind": kind,
    "image_id": "photos/a.jpg",
    "face": int(kind == "pos"),
    "box_offsets": np.array(offsets, np.float32),
    "landmarks": EYES_UP.ravel() if kind == "landmark" else np.zeros(10, np.float32),
    "crop": crop,
    "iou": np.float32({"neg": 0.1, "pos": 0.72, "part": 0.48, "landmark": 0.9}[kind]),
    "face_size": np.float32(16),
  }
  dtypes = {"kind": object, "image_id": object}
  return {name: np.array([columns.get(name, value)] * rows, dtypes.get(name)) for name, value in one.items()}


def _types(kind: str, batch: dict, net=PNET) -> list[str]:
  check = LabelCheck(net, f"train-{kind}", kind, pictured=2)
  check.add(batch, "data_tfrecord-00000-of-00001", np.arange(len(batch["kind"])))
  return [evidence.finding.type for evidence in check.evidence()]


@pytest.mark.parametrize("kind", PNET.mixture.names)
def test_sound_examples_are_no_finding(kind):
  assert _types(kind, _batch(kind)) == []


@pytest.mark.parametrize(
  ("kind", "columns", "found"),
  [
    ("neg", {"kind": "pos"}, ["KIND_NOT_OF_SPLIT"]),
    ("neg", {"face": 1}, ["LABEL_NOT_OF_KIND"]),
    ("pos", {"face": 0}, ["LABEL_NOT_OF_KIND"]),
    ("neg", {"iou": np.float32(0.3)}, ["IOU_OUTSIDE_KIND"]),
    ("part", {"iou": np.float32(0.66)}, ["IOU_OUTSIDE_KIND", "IOU_NOT_OF_BOX"]),
    ("pos", {"iou": np.float32(0.8)}, ["IOU_NOT_OF_BOX"]),
    ("pos", {"iou": np.float32(np.nan)}, ["NOT_FINITE"]),
    ("pos", {"box_offsets": np.full(4, np.nan, np.float32)}, ["NOT_FINITE"]),
    ("landmark", {"landmarks": np.full(10, np.inf, np.float32)}, ["NOT_FINITE", "POINT_OUTSIDE_CROP"]),
    # No width; the IoU is 0 then.
    ("pos", {"box_offsets": np.float32([0.5, 0, -0.5, 0])}, ["BOX_WITHOUT_AREA", "IOU_NOT_OF_BOX"]),
    # Wholly right of the crop.
    ("pos", {"box_offsets": np.float32([1, 0, 1, 0])}, ["BOX_OUT_OF_REACH", "IOU_NOT_OF_BOX"]),
    # A face of 4.2 times the crop's side round it: no IoU of 0.4 is so far out.
    (
      "part",
      {"box_offsets": np.float32([-1.6, -1.6, 1.6, 1.6])},
      ["BOX_OUT_OF_REACH", "IOU_NOT_OF_BOX"],
    ),
    ("landmark", {"landmarks": (EYES_UP + np.float32([0.31, 0])).ravel()}, ["POINT_OUTSIDE_CROP"]),
  ],
)
def test_a_contradiction_is_found(kind, columns, found):
  assert _types(kind, _batch(kind, **columns)) == found


def test_the_boundaries_of_a_kind_are_those_of_its_definition():
  assert _types("part", _batch("part", iou=np.float32(0.48))) == []
  for iou, kind in ((0.4, "part"), (0.65, "part")):
    assert "IOU_OUTSIDE_KIND" not in _types(kind, _batch(kind, iou=np.float32(iou)))
  assert "IOU_OUTSIDE_KIND" in _types("pos", _batch("pos", iou=np.float32(0.65)))


def test_points_mirrored_and_not_swapped_are_found():
  mirrored = EYES_UP * [-1, 1] + [1, 0]
  assert _types("landmark", _batch("landmark", landmarks=mirrored.ravel())) == ["EYES_SWAPPED"]


@given(st.floats(-180, 180), st.booleans())
def test_turned_and_rightly_mirrored_faces_have_their_eyes_in_place(angle, mirrored):
  points = EYES_UP[None] * 0.5 + 0.25  # so that none leaves the crop
  points = geometry.mirror_landmarks(points) if mirrored else points
  points = geometry.turn_landmarks(points, np.array([angle]))
  assert _types("landmark", _batch("landmark", landmarks=points.ravel())) == []


@given(
  st.tuples(*[st.floats(0, 3000)] * 2),
  st.floats(12, 900),
  st.tuples(*[st.floats(-0.2, 0.2)] * 2),
  st.floats(0.85, 1.2),
  st.booleans(),
)
def test_whatever_the_geometry_gives_is_no_finding(corner, side, shift, scale, mirrored):
  x, y = corner
  crop = np.array([[x, y, x + side, y + side]], np.float32)
  centre, half = np.array([x, y]) + side / 2 + np.array(shift) * side, side * scale / 2
  face = np.concatenate([centre - half, centre + half]).astype(np.float32)[None]
  iou = geometry.iou_matrix(crop, face)[0, 0]
  kind = "pos" if iou > np.float32(0.65) else "part"
  if iou < np.float32(0.4):
    return
  offsets = geometry.box_targets(crop, face)
  offsets = geometry.mirror_offsets(offsets) if mirrored else offsets
  assert _types(kind, _batch(kind, crop=crop[0], iou=iou, box_offsets=offsets[0])) == []


def test_columns_that_the_kind_does_not_label_are_not_judged():
  assert _types("neg", _batch("neg", box_offsets=np.full(4, 9.0, np.float32))) == []
  assert _types("part", _batch("part", face=1)) == []


def test_ready_made_samples_that_know_no_crop_have_no_iou_to_contradict():
  unplaced = {"crop": np.zeros(4, np.float32), "iou": np.float32(0)}
  assert _types("pos", _batch("pos", **unplaced)) == []


def test_a_net_without_an_iou_column_is_judged_by_its_boxes():
  net = dataclasses.replace(PNET, context=())
  assert _types("pos", _batch("pos"), net) == []
  assert _types("pos", _batch("pos", box_offsets=np.float32([0, 0, -0.4, -0.2])), net) == ["IOU_OUTSIDE_KIND"]


def test_points_outside_the_face_are_found_where_a_kind_labels_both():
  tasks = tuple(
    dataclasses.replace(task, kinds=("pos",)) if task.name == "landmark" else task for task in PNET.tasks
  )
  net = dataclasses.replace(PNET, tasks=tasks)
  assert _types("pos", _batch("pos", landmarks=EYES_UP.ravel()), net) == []
  # The face ends at 0.8 of the crop's side.
  low = EYES_UP + np.float32([0, 0.1])
  assert _types("pos", _batch("pos", landmarks=low.ravel()), net) == ["POINT_OUTSIDE_FACE"]


def test_a_net_without_faces_has_no_rules_of_faces():
  (kind, *_) = CNN.mixture.names
  assert {rule.type for rule in rules_of(CNN, kind)} <= {"KIND_NOT_OF_SPLIT", "NOT_FINITE"}


def test_a_finding_names_every_example_up_to_a_hundred_and_keeps_few_of_them():
  check = LabelCheck(PNET, "train-neg", "neg", pictured=2)
  check.add(_batch("neg", rows=70, face=1), "one", np.arange(70))
  check.add(_batch("neg", rows=70, face=1), "two", np.arange(5, 75))
  (evidence,) = check.evidence()
  assert evidence.finding.count == 140
  assert evidence.finding.description.startswith("140 of 140 examples checked: the face label")
  assert len(evidence.finding.names) == 100
  assert evidence.finding.names[70] == "train-neg/two record 5 (photos/a.jpg)"
  assert [example.index for example, _ in evidence.samples] == [0, 1]
