import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from taskmix.faces import geometry


def boxes_of(*rows):
  return np.array(rows, np.float32).reshape(-1, 4)


@st.composite
def random_boxes(draw, max_count=6):
  count = draw(st.integers(0, max_count))
  numbers = hnp.arrays(np.float32, (count, 2), elements=st.floats(-1000, 1000, width=32))
  sides = hnp.arrays(np.float32, (count, 2), elements=st.floats(1, 500, width=32))
  corners = draw(numbers)
  return np.concatenate([corners, corners + draw(sides)], axis=1)


@st.composite
def random_squares(draw):
  centres = draw(hnp.arrays(np.float32, (3, 2), elements=st.floats(0, 1000, width=32)))
  return geometry.centred_squares(
    centres, draw(hnp.arrays(np.float32, 3, elements=st.floats(8, 500, width=32)))
  )


def test_iou_of_hand_made_boxes():
  boxes = boxes_of([0, 0, 10, 10], [5, 0, 15, 10], [20, 20, 30, 30])
  faces = boxes_of([0, 0, 10, 10], [0, 0, 10, 5])
  expected = [[1, 0.5], [50 / 150, 25 / 125], [0, 0]]
  np.testing.assert_allclose(geometry.iou_matrix(boxes, faces), expected, rtol=1e-6)


def test_edges_that_touch_do_not_overlap():
  assert geometry.iou_matrix(boxes_of([0, 0, 10, 10]), boxes_of([10, 0, 20, 10])) == 0


def test_a_box_of_zero_size_overlaps_nothing():
  assert geometry.iou_matrix(boxes_of([5, 5, 5, 9]), boxes_of([5, 5, 5, 9], [0, 0, 10, 10])).tolist() == [
    [0, 0]
  ]


@given(random_boxes(), random_boxes())
def test_iou_is_symmetric_and_within_0_and_1(first, second):
  matrix = geometry.iou_matrix(first, second)
  assert matrix.shape == (len(first), len(second))
  assert ((matrix >= 0) & (matrix <= 1 + 1e-5)).all()
  np.testing.assert_allclose(matrix, geometry.iou_matrix(second, first).T, atol=1e-6)


@given(random_boxes())
def test_every_box_overlaps_itself_wholly(boxes):
  np.testing.assert_allclose(geometry.paired_iou(boxes, boxes), 1, atol=1e-5)


def test_nearest_face_is_the_one_of_largest_iou():
  index, iou = geometry.nearest_faces(boxes_of([0, 0, 10, 10]), boxes_of([0, 0, 10, 2], [0, 0, 10, 8]))
  assert index.tolist() == [1]
  np.testing.assert_allclose(iou, 0.8)


def test_nearest_face_in_slices_is_that_of_one_matrix(monkeypatch):
  rng = np.random.default_rng(0)
  corners = rng.uniform(0, 100, (50, 2))
  boxes = np.concatenate([corners, corners + rng.uniform(1, 50, (50, 2))], axis=1).astype(np.float32)
  whole = geometry.nearest_faces(boxes, boxes[:7] + 3)
  monkeypatch.setattr(geometry, "_CELLS", 20)
  sliced = geometry.nearest_faces(boxes, boxes[:7] + 3)
  np.testing.assert_array_equal(sliced[0], whole[0])
  np.testing.assert_array_equal(sliced[1], whole[1])


def test_without_faces_nothing_is_near():
  index, iou = geometry.nearest_faces(boxes_of([0, 0, 10, 10]), boxes_of())
  assert (index.tolist(), iou.tolist()) == ([0], [0])


def test_a_box_at_the_photos_edge_is_inside():
  boxes = boxes_of([0, 0, 10, 20], [0, 0, 10.5, 20], [-0.5, 0, 9, 9], [0, 0, 10, 21])
  assert geometry.inside(boxes, 10, 20).tolist() == [True, False, False, False]


def test_square_keeps_centre_and_longer_side():
  assert geometry.square(boxes_of([10, 20, 30, 30])).tolist() == [[10, 15, 30, 35]]


def test_box_targets_worked_by_hand():
  targets = geometry.box_targets(boxes_of([0, 0, 10, 10]), boxes_of([1, 0, 10, 8]))
  np.testing.assert_allclose(targets, [[0.1, 0, 0, -0.2]], atol=1e-7)


@pytest.mark.parametrize("crop", [[0, 0, 10, 11], [0, 0, 0, 0], [5, 5, 1, 1], [0, 0, np.nan, 4]])
def test_crops_that_are_not_square_are_refused(crop):
  with pytest.raises(ValueError, match="not a square"):
    geometry.box_targets(boxes_of(crop), boxes_of([0, 0, 10, 10]))


@given(random_squares(), random_squares())
def test_offsets_move_a_crop_onto_its_face(crops, faces):
  moved = geometry.apply_offsets(crops, geometry.box_targets(crops, faces))
  np.testing.assert_allclose(moved, faces, atol=0.02)


def test_landmarks_in_a_crop_worked_by_hand():
  points = np.array([[[10, 20], [20, 30], [15, 25]]], np.float32)
  in_crop = geometry.landmark_targets(boxes_of([10, 20, 20, 30]), points)
  assert in_crop.tolist() == [[[0, 0], [1, 1], [0.5, 0.5]]]


@given(random_squares(), hnp.arrays(np.float32, (3, 5, 2), elements=st.floats(0, 1000, width=32)))
def test_landmarks_go_to_the_crop_and_back(crops, points):
  back = geometry.landmarks_in_photo(crops, geometry.landmark_targets(crops, points))
  np.testing.assert_allclose(back, points, atol=0.02)


def test_flip_swaps_left_and_right_eye():
  # left eye, right eye, nose, left and right mouth corner
  points = np.array([[[0.2, 0.3], [0.7, 0.35], [0.5, 0.5], [0.3, 0.8], [0.6, 0.75]]], np.float32)
  expected = [[[0.3, 0.35], [0.8, 0.3], [0.5, 0.5], [0.4, 0.75], [0.7, 0.8]]]
  np.testing.assert_allclose(geometry.mirror_landmarks(points), expected, atol=1e-6)


@given(hnp.arrays(np.float32, (2, 5, 2), elements=st.floats(0, 1, width=32)))
def test_mirrored_twice_is_as_it_was(points):
  twice = geometry.mirror_landmarks(geometry.mirror_landmarks(points))
  np.testing.assert_allclose(twice, points, atol=1e-6)


def test_mirrored_offsets_swap_the_edges():
  # The face begins 0.1 inside the crop on the left; mirrored, it ends there on the right.
  mirrored = geometry.mirror_offsets(np.array([[0.1, 0.2, 0.0, 0.3]], np.float32))
  np.testing.assert_allclose(mirrored, [[0, 0.2, -0.1, 0.3]], atol=1e-7)


def test_a_quarter_turn_clockwise_moves_right_to_below():
  turned = geometry.turn_landmarks(np.array([[[1.0, 0.5]]], np.float32), np.array([90.0]))
  np.testing.assert_allclose(turned, [[[0.5, 1.0]]], atol=1e-6)


@given(
  hnp.arrays(np.float32, (2, 5, 2), elements=st.floats(0, 1, width=32)),
  hnp.arrays(np.float32, 2, elements=st.floats(-180, 180, width=32)),
)
def test_turned_back_is_as_it_was(points, angles):
  back = geometry.turn_landmarks(geometry.turn_landmarks(points, angles), -angles)
  np.testing.assert_allclose(back, points, atol=1e-5)


_EDGES = st.floats(-3, 4)


@given(_EDGES, _EDGES, _EDGES, _EDGES)
def test_no_offset_is_larger_than_its_iou_allows(x1, y1, x2, y2):
  crop = boxes_of([0, 0, 1, 1])
  face = boxes_of([min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)])
  iou = float(geometry.paired_iou(crop, face)[0])
  assert np.abs(geometry.box_targets(crop, face)).max() <= geometry.largest_offset(iou) * (1 + 1e-5) + 1e-5


def test_a_long_face_reaches_as_far_out_as_its_iou_allows():
  crop, face = boxes_of([0, 0, 10, 10]), boxes_of([0, 0, 10, 25])
  assert geometry.paired_iou(crop, face)[0] == pytest.approx(0.4)
  assert geometry.box_targets(crop, face).max() == pytest.approx(geometry.largest_offset(0.4))
