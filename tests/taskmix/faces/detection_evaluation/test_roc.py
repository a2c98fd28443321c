"""FDDB's curves by hand."""

import numpy as np
import pytest

from taskmix.faces.detection_evaluation import Faces, Found, fddb_roc

FACES = Faces(np.array([[0, 0, 10, 10], [50, 50, 60, 60]]))


def test_discrete_counts_pairs_and_continuous_adds_overlaps():
  boxes = np.array([[0, 0, 10, 8], [20, 20, 30, 30], [50, 50, 60, 60]])
  roc = fddb_roc([FACES], [Found(boxes, np.array([0.9, 0.8, 0.7]))])
  assert roc.false_positives.tolist() == [0, 1, 1]
  np.testing.assert_allclose(roc.discrete, [0.5, 0.5, 1])
  np.testing.assert_allclose(roc.continuous, [0.4, 0.4, 0.9], rtol=1e-6)
  assert roc.at(0) == (0.5, pytest.approx(0.4))
  assert roc.at(5) == (1, pytest.approx(0.9))


def test_an_overlap_of_exactly_half_is_no_pair():
  roc = fddb_roc([FACES], [Found(np.array([[0, 0, 5, 10]]), np.array([0.9]))])
  assert roc.false_positives.tolist() == [1]
  assert roc.discrete.tolist() == [0]


def test_pairs_are_chosen_so_that_the_sum_of_overlaps_is_largest():
  # The better detection overlaps both faces; greedily it takes the nearer one and the other none.
  faces = Faces(np.array([[0, 0, 10, 10], [3, 0, 13, 10]]))
  found = Found(np.array([[1, 0, 11, 10], [0, 0, 9, 10]]), np.array([0.9, 0.8]))
  assert fddb_roc([faces], [found]).discrete.tolist() == [0.5, 1]


def test_an_ignored_face_counts_neither_way_and_no_detection_gives_an_empty_curve():
  ignored = Faces(FACES.boxes, np.array([True, False]))
  roc = fddb_roc([ignored], [Found(FACES.boxes, np.array([0.9, 0.8]))])
  assert roc.false_positives.tolist() == [0, 0]
  assert roc.discrete.tolist() == [0, 1]
  assert fddb_roc([FACES], [Found(np.zeros((0, 4)), np.zeros(0))]).at(10) == (0, 0)
