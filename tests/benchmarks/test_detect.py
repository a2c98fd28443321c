"""The comparison of detectors: which photos, in which turn, and what the last line says."""

import pathlib

import pytest

from benchmarks import detect
from benchmarks.detect_peers import Detections


class Fake:
  """Answers every photo in the same time, with as many boxes as it was told."""

  def __init__(self, name: str, seconds: float, boxes: int, asked: list[str]):
    self.name, self._seconds, self._boxes, self._asked = name, seconds, boxes, asked

  def detect(self, photo, *, given):
    self._asked.append(f"{self.name} {photo.name} {given}")
    box = [0.0, 0.0, 9.0, 9.0]
    return Detections(self._seconds, 2 * self._seconds, [box] * self._boxes, [1.0] * self._boxes, [])


def test_photos_are_spread_evenly_over_all():
  photos = [pathlib.Path(f"{index}.jpg") for index in range(5)]
  assert detect.chosen(photos, 3) == [photos[0], photos[2], photos[4]]
  assert detect.chosen(photos, 9) == photos


def test_of_wider_only_the_photos_of_the_held_out_list(tmp_path):
  (tmp_path / "wider_face_devval_bbx_gt.txt").write_text("0--Parade/b.jpg\n1\n1 2 3 4 0 0 0 0 0 0\n")
  assert detect.find_photos([tmp_path]) == [tmp_path / "WIDER_train" / "images" / "0--Parade" / "b.jpg"]


def test_a_folder_without_photos_is_said(tmp_path):
  with pytest.raises(SystemExit, match="no photos"):
    detect.find_photos([tmp_path])


def test_each_detector_goes_first_as_often_and_the_first_round_is_not_timed(capsys):
  asked: list[str] = []
  workers = [Fake("taskmix", 0.1, 3, asked), Fake("mtcnn", 0.5, 3, asked), Fake("facenet", 0.4, 2, asked)]
  photos = [pathlib.Path("a.jpg"), pathlib.Path("b.jpg"), pathlib.Path("c.jpg")]
  answers = detect.ask_in_turn(workers, photos, 1, "bytes")  # type: ignore[arg-type]
  assert len(asked) == 2 * 3 * 3
  assert [line.split()[0] for line in asked[0:9:3]] == ["taskmix", "mtcnn", "facenet"]
  assert {name: len(each) for name, each in answers.items()} == {"taskmix": 3, "mtcnn": 3, "facenet": 3}
  figures = detect.report(answers, dict.fromkeys(answers, 100.0), len(photos))
  assert figures["photos_per_s"] == 10.0
  assert (figures["mtcnn_photos_per_s"], figures["facenet_photos_per_s"]) == (2.0, 2.5)
  assert figures["ratio_faster_peer"] == 4.0
  assert figures["cpu_ms"] == 200.0
  assert "facenet" in capsys.readouterr().out
