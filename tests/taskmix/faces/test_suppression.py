"""Non-maximum suppression against a plain loop, and by hand."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.faces import suppression


def overlap(a, b, over: str) -> float:
  """Of two boxes, in exact integers up to the one division."""
  wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
  shared = max(wide, 0) * max(high, 0)
  first, second = (a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1])
  whole = first + second - shared if over == "union" else min(first, second)
  return shared / whole


def plain(boxes, scores, threshold: float, over: str, rule: str) -> list[int]:
  """The definition, a box at a time."""
  order = sorted(range(len(boxes)), key=lambda index: -scores[index])
  kept = []
  for place, index in enumerate(order):
    rivals = kept if rule == "greedy" else order[:place]
    if all(overlap(boxes[index], boxes[rival], over) <= threshold for rival in rivals):
      kept.append(index)
  return kept


@st.composite
def scored_boxes(draw):
  """Whole-pixel boxes in a small photo, so that many overlap; no two score the same."""
  count = draw(st.integers(0, 14))
  corner, side = st.integers(0, 12), st.integers(1, 12)
  boxes = [
    (x, y, x + w, y + h) for x, y, w, h in draw(st.lists(st.tuples(corner, corner, side, side), max_size=14))
  ][:count]
  scores = draw(st.permutations(range(len(boxes))))
  return np.array(boxes, np.float32).reshape(-1, 4), np.array(scores, np.float32) / 16


@pytest.mark.parametrize("rule", suppression.RULES)
@pytest.mark.parametrize("over", suppression.OVERLAPS)
@given(drawn=scored_boxes(), threshold=st.sampled_from([0.303, 0.501, 0.703]))
@settings(max_examples=60, deadline=None)
def test_keeps_what_the_definition_keeps(rule, over, drawn, threshold):
  boxes, scores = drawn
  kept = suppression.keep_best(
    tf.constant(boxes), tf.constant(scores), threshold=threshold, over=over, rule=rule
  )
  assert kept.dtype == tf.int32
  expected = plain(boxes.astype(int).tolist(), scores.tolist(), threshold, over, rule)
  assert kept.numpy().tolist() == expected


# Neighbours share 6 of 14 pixels' width: IoU 6 / 14.
ROW = np.array([[0, 0, 10, 10], [4, 0, 14, 10], [8, 0, 18, 10]], np.float32)
FALLING = np.array([0.9, 0.8, 0.7], np.float32)


@pytest.mark.parametrize(("rule", "kept"), [("greedy", [0, 2]), ("any", [0])])
def test_a_dropped_box_counts_only_under_the_rule_any(rule, kept):
  found = suppression.keep_best(tf.constant(ROW), tf.constant(FALLING), threshold=0.4, rule=rule)
  assert found.numpy().tolist() == kept


@pytest.mark.parametrize("rule", suppression.RULES)
def test_a_box_inside_another_falls_by_min_alone(rule):
  boxes = tf.constant([[0.0, 0, 20, 20], [5, 5, 10, 10]])
  for over, kept in (("union", [0, 1]), ("min", [0])):
    found = suppression.keep_best(boxes, tf.constant([0.9, 0.8]), threshold=0.7, over=over, rule=rule)
    assert found.numpy().tolist() == kept


@pytest.mark.parametrize("rule", suppression.RULES)
@pytest.mark.parametrize("over", suppression.OVERLAPS)
def test_an_overlap_of_exactly_the_threshold_stays(rule, over):
  # 100 and 50 pixels, 50 shared: union 50 / 100; of 100 and 100 with 50 shared: min 50 / 100.
  second = [0.0, 0, 5, 10] if over == "union" else [5.0, 0, 15, 10]
  boxes = tf.constant([[0.0, 0, 10, 10], second])
  found = suppression.keep_best(boxes, tf.constant([0.9, 0.8]), threshold=0.5, over=over, rule=rule)
  assert found.numpy().tolist() == [0, 1]


def test_the_rule_any_agrees_over_more_rows_than_one_portion():
  rng = np.random.default_rng(0)
  corners = rng.integers(0, 400, (1100, 2))
  boxes = np.concatenate([corners, corners + rng.integers(5, 40, (1100, 2))], axis=1)
  scores = rng.permutation(1100)
  found = suppression.keep_best(
    tf.constant(boxes, tf.float32), tf.constant(scores, tf.float32), threshold=0.301, rule="any"
  )
  assert found.numpy().tolist() == plain(boxes.tolist(), scores.tolist(), 0.301, "union", "any")


def test_boxes_without_area_overlap_nothing():
  boxes = tf.constant([[1.0, 1, 1, 5], [1, 1, 1, 5]])
  for over in suppression.OVERLAPS:
    assert suppression.overlaps(boxes, boxes, over=over).numpy().tolist() == [[0, 0], [0, 0]]


def test_unknown_names_list_the_known_ones():
  boxes, scores = tf.zeros([1, 4]), tf.zeros([1])
  with pytest.raises(ValueError, match="greedy, any"):
    suppression.keep_best(boxes, scores, threshold=0.5, rule="soft")
  with pytest.raises(ValueError, match="union, min"):
    suppression.keep_best(boxes, scores, threshold=0.5, over="max", rule="any")
