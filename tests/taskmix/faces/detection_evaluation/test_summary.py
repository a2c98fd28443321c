"""All figures at once, and WIDER's official lists."""

import json

import numpy as np
import pytest
import scipy.io

from taskmix.faces.detection_evaluation import Faces, Found, evaluate, read_val_lists

TRUTH = {
  "a.jpg": Faces(np.array([[0, 0, 30, 30], [50, 50, 60, 60]])),
  "b.jpg": Faces(np.array([[0, 0, 40, 40]])),
}


def test_small_faces_are_ignored_and_a_photo_without_detections_counts():
  found = {"a.jpg": Found(np.array([[0, 0, 30, 30], [50, 50, 60, 60]]), np.array([0.9, 0.8]))}
  figures = evaluate(TRUTH, found)
  assert (figures["faces"], figures["hits"], figures["false_positives"]) == (2, 1, 0)
  assert figures["average_precision"] == figures["recall"] == 0.5
  assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_an_official_list_alone_says_what_counts():
  found = {"a.jpg": Found(np.array([[50, 50, 60, 60]]), np.array([0.8]))}
  assert evaluate(TRUTH, found, official=True)["recall"] == pytest.approx(1 / 3, abs=1e-6)


def test_detections_of_an_unknown_photo_are_refused():
  with pytest.raises(ValueError, match=r"no truth, such as 'c\.jpg'"):
    evaluate(TRUTH, {"c.jpg": Found(np.zeros((0, 4)), np.zeros(0))})


def cells(*values):
  """A MATLAB cell column."""
  column = np.empty((len(values), 1), object)
  column[:, 0] = values
  return column


def test_the_official_lists_are_read(tmp_path):
  boxes = np.array([[10, 20, 30, 40], [1, 2, 3, 4]], np.float64)
  scipy.io.savemat(
    tmp_path / "wider_face_val.mat",
    {
      "event_list": cells("0--Parade"),
      "file_list": cells(cells("photo_1")),
      "face_bbx_list": cells(cells(boxes)),
    },
  )
  scipy.io.savemat(tmp_path / "wider_easy_val.mat", {"gt_list": cells(cells(np.array([[1]])))})
  truth = read_val_lists(tmp_path, "easy")
  assert list(truth) == ["0--Parade/photo_1.jpg"]
  faces = truth["0--Parade/photo_1.jpg"]
  assert faces.boxes.tolist() == [[10, 20, 40, 60], [1, 2, 4, 6]]
  assert faces.counted.tolist() == [True, False]
  with pytest.raises(ValueError, match="easy, medium, hard"):
    read_val_lists(tmp_path, "simple")
