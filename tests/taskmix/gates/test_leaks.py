"""No picture in two phases: same pixels, near-duplicates, examples in both."""

import numpy as np
import pytest

from taskmix.examples.duplicates import Fingerprints, fingerprint
from taskmix.faces.crops import halved
from taskmix.gates import leaks
from taskmix.keys import keyed_rng


def _photo(name: str) -> np.ndarray:
  """A smooth picture of its own, uint8 [96, 128, 3]."""
  import cv2

  return cv2.resize(keyed_rng(name).integers(0, 256, (6, 8, 3), np.uint8), (128, 96))


def _prints(*photos: np.ndarray) -> Fingerprints:
  return Fingerprints.join([fingerprint(halved(photo, 12)) for photo in photos])


def _findings(phases: list[str], *photos: np.ndarray):
  names = [f"{index}.jpg" for index in range(len(photos))]
  return leaks.picture_findings(names, phases, leaks.picture_leaks(names, phases, _prints(*photos)))


def test_different_photos_are_no_finding():
  assert _findings(["train", "eval"], _photo("a"), _photo("b")) == []


def test_twins_in_one_phase_are_no_finding():
  assert _findings(["train", "train", "eval"], _photo("a"), _photo("a"), _photo("b")) == []


def test_the_same_pixels_in_two_phases_name_photos_and_phases():
  (found,) = _findings(["eval", "train", "train"], _photo("a"), _photo("b"), _photo("a"))
  assert found.type == "SAME_PICTURE_IN_TWO_PHASES"
  assert found.names == ("2.jpg (train) and 0.jpg (eval)",)


def test_a_resaved_copy_in_the_other_phase_is_a_near_duplicate():
  import cv2

  copy = cv2.resize(_photo("a"), (64, 48), interpolation=cv2.INTER_AREA)
  (found,) = _findings(["train", "eval", "eval"], _photo("a"), copy, _photo("b"))
  assert (found.type, found.count) == ("NEAR_DUPLICATE_IN_TWO_PHASES", 1)
  assert found.names == ("0.jpg (train) and 1.jpg (eval)",)


def test_a_photo_of_two_sources_is_named_once():
  phases, prints = ["train", "train", "eval", "eval"], _prints(*[_photo("a")] * 4)
  pairs = leaks.picture_leaks(["a.jpg", "a.jpg", "b.jpg", "b.jpg"], phases, prints)
  assert pairs == {"SAME_PICTURE_IN_TWO_PHASES": [(0, 2)]}


def test_too_many_photos_to_compare_one_by_one_find_the_same(monkeypatch):
  prints = _prints(*map(_photo, "abcdab"))
  phases = ["train", "train", "train", "eval", "eval", "train"]
  one_by_one = leaks.picture_leaks("123456", phases, prints)
  monkeypatch.setattr(leaks, "_MOST_COMPARISONS", 0)
  assert leaks.picture_leaks("123456", phases, prints) == one_by_one
  assert one_by_one == {"SAME_PICTURE_IN_TWO_PHASES": [(0, 4)]}


@pytest.mark.parametrize("listed", [None, {"a.jpg": {"train"}}])
def test_a_photo_with_examples_in_both_phases(listed):
  types = [finding.type for finding in leaks.phase_findings({"a.jpg": {"eval", "train"}}, listed)]
  assert types == ["PHOTO_IN_TWO_PHASES"] + ["PHOTO_IN_WRONG_PHASE"] * (listed is not None)


def test_a_photo_with_examples_in_another_phase_than_listed():
  (found,) = leaks.phase_findings(
    {"a.jpg": {"eval"}, "b.jpg": {"eval"}}, {"a.jpg": {"train"}, "b.jpg": {"eval"}}
  )
  assert (found.type, found.names) == ("PHOTO_IN_WRONG_PHASE", ("a.jpg (eval)",))


def test_a_photo_that_no_line_lists():
  (found,) = leaks.phase_findings({"a.jpg": {"eval"}}, {"b.jpg": {"train"}})
  assert (found.type, found.names) == ("PHOTO_UNLISTED", ("a.jpg (eval)",))
