"""Thresholds for a wanted recall, precision or time, on detectors whose answers are known."""

import numpy as np
import pytest
from PIL import Image

from taskmix.faces import cascade, tuning
from taskmix.faces.cascade import Options
from taskmix.faces.detection_evaluation import Faces
from taskmix.faces.detection_evaluation.held_out import HeldOut
from taskmix.faces.tuning import Goal, tune
from taskmix.sources.annotated import AnnotatedImage

PHOTOS = {"a": np.zeros((90, 120, 3), np.uint8), "b": np.ones((90, 120, 3), np.uint8)}
TRUTH = {
  "a": Faces(np.array([[10, 10, 40, 40], [50, 10, 80, 40]])),
  # The second face is smaller than min_face: it counts for nothing.
  "b": Faces(np.array([[10, 50, 40, 80], [90, 10, 100, 20]])),
}
# (box, scores of the three nets) by photo: three faces and two false alarms.
ANSWERS = {
  0: [
    ((10, 10, 40, 40), (0.95, 0.9, 0.9)),
    ((50, 10, 80, 40), (0.65, 0.9, 0.6)),
    ((80, 50, 110, 80), (0.9, 0.9, 0.7)),
  ],
  1: [((10, 50, 40, 80), (0.95, 0.55, 0.5)), ((50, 50, 80, 80), (0.55, 0.9, 0.8))],
}


class Toy:
  """Lets through what passes all three thresholds; every square that P-Net passes on takes 20 ms."""

  def __init__(self):
    self.now, self.asked = 0.0, 0

  def __call__(self, photo, options):
    self.asked += 1
    rows = ANSWERS[int(photo[0, 0, 0])]
    self.now += 0.02 * sum(scores[0] > options.thresholds[0] for _, scores in rows)
    kept = [(box, s[2]) for box, s in rows if all(np.array(s) > options.thresholds)]
    kept.sort(key=lambda each: -each[1])
    boxes = np.array([box for box, _ in kept], np.float32).reshape(-1, 4)
    return {"boxes": boxes, "scores": np.array([score for _, score in kept], np.float32)}


def test_full_recall_with_the_highest_precision():
  tuned = tune(Toy(), PHOTOS, TRUTH, Goal("recall", 1.0))
  # The last face scores 0.55 with R-Net and 0.5 with O-Net; P-Net at 0.6 drops a
  # false alarm and still passes the face of 0.65. The other false alarm stays.
  assert tuned.options.thresholds[:2] == (0.6, 0.5) or tuned.options.thresholds[:2] == (0.6, 0.4)
  assert 0.1 <= tuned.options.thresholds[2] < 0.5
  assert (tuned.recall, tuned.precision) == (1.0, 0.75)


def test_what_was_promised_is_what_the_detector_does():
  tuned = tune(Toy(), PHOTOS, TRUTH, Goal("recall", 0.6))
  found = {each: Toy()(photo, tuned.options)["boxes"] for each, photo in PHOTOS.items()}
  assert sum(map(len, found.values())) == round(3 * tuned.recall / tuned.precision)


def test_full_precision_with_the_highest_recall():
  tuned = tune(Toy(), PHOTOS, TRUTH, Goal("precision", 1.0))
  assert tuned.precision == 1.0 and tuned.recall == pytest.approx(1 / 3)
  # Between the face of 0.9 and the false alarm of 0.7, or with P-Net's help 0.8.
  assert 0.7 <= tuned.options.thresholds[2] < 0.9


def test_a_time_a_photo_with_the_best_of_both():
  # Five squares in two photos pass at 0.4 and three at 0.8: 0.05 and 0.03 seconds a photo.
  toy, pairs = Toy(), {"first": (0.4, 0.8), "second": (0.5,)}
  slow = tune(toy, PHOTOS, TRUTH, Goal("seconds", 0.06), **pairs, clock=lambda: toy.now)
  assert (slow.options.thresholds[0], slow.seconds) == (0.4, pytest.approx(0.05))
  fast = tune(toy, PHOTOS, TRUTH, Goal("seconds", 0.04), **pairs, clock=lambda: toy.now)
  assert (fast.options.thresholds[0], fast.seconds) == (0.8, pytest.approx(0.03))


def test_every_pair_is_asked_once_a_photo():
  toy = Toy()
  tune(toy, PHOTOS, TRUTH, Goal("recall", 0.3), first=(0.5, 0.6), second=(0.5, 0.6, 0.7))
  assert toy.asked == 1 + 2 * 6


def test_smallest_face_and_factor_stay():
  options = Options(min_face=24.0, factor=0.8)
  tuned = tune(Toy(), PHOTOS, TRUTH, Goal("recall", 0.3), options=options)
  assert (tuned.options.min_face, tuned.options.factor) == (24.0, 0.8)


def test_a_goal_out_of_reach_names_the_nearest():
  blind = Toy()
  with pytest.raises(ValueError, match=r"no thresholds reach recall 0.9 .* nearest is 0.6667"):
    tune(blind, PHOTOS, TRUTH, Goal("recall", 0.9), first=(0.7, 0.8), second=(0.5,))


def test_photos_without_faces_are_refused():
  with pytest.raises(ValueError, match="none of the 1 photos has a face of 20 pixels"):
    tune(Toy(), {"a": PHOTOS["a"]}, {"a": Faces(np.zeros((0, 4)))}, Goal("recall", 0.9))


@pytest.mark.parametrize("text", ["recall", "recall=", "speed=3", "precision=1.2", "seconds=0", "recall=x"])
def test_what_is_no_goal_is_refused(text):
  with pytest.raises(ValueError, match="is no goal such as"):
    Goal.parse(text)


def test_a_goal_is_read():
  assert Goal.parse("recall=0.9") == Goal("recall", 0.9)


def test_a_saved_detector_keeps_what_was_tuned(tmp_path, monkeypatch):
  class Saved(Toy):
    folder, options = tmp_path, Options(factor=0.8)

  file = tmp_path / "assets" / cascade.OPTIONS_FILE
  file.parent.mkdir()
  file.write_text(cascade._options_text(Saved.options))
  monkeypatch.setattr(tuning, "SavedDetector", lambda folder: Saved())
  images = {}
  for name, photo in PHOTOS.items():
    Image.fromarray(photo).save(tmp_path / f"{name}.png")
    images[name] = AnnotatedImage(name, str(tmp_path / f"{name}.png"))
  tuned = tuning.tune_model(tmp_path, HeldOut(images, TRUTH, {}), Goal("precision", 1.0))
  assert cascade.read_options(tmp_path).thresholds == pytest.approx(tuned.options.thresholds, abs=1e-8)
  assert cascade.read_options(tmp_path).factor == 0.8


def test_a_sample_is_spread_evenly():
  assert tuning.sample(list("abcde"), 3) == ["a", "c", "e"]
  assert tuning.sample(list("ab"), 3) == ["a", "b"]


def test_thresholds_are_stored_to_the_last_bit():
  # Scores near 1 differ in the seventh digit.
  text = cascade._options_text(Options((0.6, 0.7, 0.99999954)))
  stored = dict(line.split("\t") for line in text.splitlines())
  assert np.float32(stored["threshold_3"]) == np.float32(0.99999954)
