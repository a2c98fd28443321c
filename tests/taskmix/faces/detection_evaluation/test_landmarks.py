"""Landmark errors by hand."""

import math

import numpy as np
import pytest

from taskmix.faces.detection_evaluation import Faces, Found, landmark_errors, match
from taskmix.faces.detection_evaluation.landmarks import normalized_errors

# Eyes 40 px apart.
POINTS = np.array([[30, 40], [70, 40], [50, 60], [35, 80], [65, 80]], np.float32)
BOX = np.array([0, 0, 100, 100], np.float32)


def test_one_point_off_by_a_triangle_of_3_4_5():
  moved = POINTS.copy()
  moved[2] += (3, 4)
  # 5 px over 5 points is 1 px; over 40 px between the eyes 0.025.
  assert normalized_errors(POINTS[None], moved[None]).tolist() == [0.025]


def test_faces_without_points_or_not_found_are_left_out():
  boxes = np.stack([BOX, BOX + 200, BOX + 400])
  marked = np.stack([POINTS, np.full_like(POINTS, np.nan), POINTS + 400])
  faces = Faces(boxes, landmarks=marked)
  found = Found(boxes[:2], np.array([0.9, 0.8]), np.stack([POINTS + np.array([8, 0]), POINTS + 200]))
  errors = landmark_errors([faces], [found], [match(faces, found)])
  np.testing.assert_allclose(errors.errors, [0.2])
  assert errors.failure_rate == 1
  np.testing.assert_allclose(errors.cumulative(np.array([0.1, 0.2, 0.3])), [0, 1, 1])


def test_no_face_at_all_has_no_mean():
  faces, found = Faces(np.zeros((0, 4))), Found(np.zeros((0, 4)), np.zeros(0))
  assert math.isnan(landmark_errors([faces], [found], [match(faces, found)]).mean)


def test_eyes_in_one_place_have_no_error():
  both = np.repeat(POINTS[:1], 5, axis=0)
  assert np.isnan(normalized_errors(both[None], both[None] + 1)).all()
  assert normalized_errors(POINTS[None], POINTS[None]) == pytest.approx(0)
