"""The three thresholds that reach a wanted recall, precision or time a photo.

Detectors are asked at every pair of a few thresholds of the first two nets, and
then the third is read off exactly: suppression goes from the best score down, so
a higher third threshold only leaves out the detections below it.
"""

import dataclasses
import itertools
import pathlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from taskmix.faces.cascade import Options, write_options
from taskmix.faces.detect import SavedDetector
from taskmix.faces.detection_evaluation import Faces, Found, match, precision_recall
from taskmix.faces.detection_evaluation.held_out import Detect, HeldOut

WANTED = ("recall", "precision", "seconds")

# Below the first of these P-Net passes on more squares than R-Net is worth; above
# the last ones, faces are lost for good.
FIRST = (0.4, 0.5, 0.6, 0.7, 0.8)
SECOND = (0.4, 0.5, 0.6, 0.7, 0.8)

# Photos that are asked, at 25 pairs of thresholds each: some minutes on two cores.
MOST = 100

# The third net is asked from here on.
LOWEST_THIRD = 0.1


@dataclasses.dataclass(frozen=True)
class Goal:
  """What to reach; of all thresholds that do, those that are best at the rest are taken.

  Attributes:
    name: "recall": at least `value`, with the highest precision;
      "precision": at least `value`, with the highest recall;
      "seconds": at most `value` a photo, with the highest F1 of recall and precision.
    value: a share, or seconds.
  """

  name: str
  value: float

  def __post_init__(self):
    if self.name not in WANTED:
      raise ValueError(f"no goal {self.name!r}; there is {', '.join(WANTED)}")
    if self.value <= 0 or (self.name != "seconds" and self.value > 1):
      raise ValueError(f"{self.name} of {self.value} is no goal; a share of 1 or seconds, above 0")

  @classmethod
  def parse(cls, text: str) -> "Goal":
    """Of "recall=0.9", "precision=0.95" or "seconds=0.05"; raises ValueError."""
    name, equals, value = text.partition("=")
    try:
      return cls(name.strip(), float(value) if equals else -1.0)
    except ValueError as error:
      raise ValueError(f"{text!r} is no goal such as recall=0.9: {error}") from None


@dataclasses.dataclass(frozen=True)
class Tuned:
  """Thresholds, and what they came to on the photos that they were chosen on.

  Attributes:
    options: the thresholds, with the smallest face and factor asked for.
    recall, precision: of faces of at least the smallest face's size; precision is
      1 where nothing is found.
    seconds: a photo.
  """

  options: Options
  recall: float
  precision: float
  seconds: float

  @property
  def f1(self) -> float:
    return 2 * self.recall * self.precision / max(self.recall + self.precision, 1e-9)


def tune(
  detector: Detect,
  photos: Mapping[str, np.ndarray],
  truth: Mapping[str, Faces],
  goal: Goal,
  *,
  options: Options | None = None,
  min_iou: float = 0.5,
  first: Sequence[float] = FIRST,
  second: Sequence[float] = SECOND,
  clock: Callable[[], float] = time.perf_counter,
) -> Tuned:
  """The thresholds that reach the goal, and are best at the rest.

  Args:
    detector: a `Detector` or a `SavedDetector`, of three nets; with fewer, the
      thresholds of nets that are not there mean nothing.
    photos: image id -> uint8 [h, w, 3] RGB; photos that the nets were not trained on.
    truth: image id -> faces; every face of a photo is marked.
    goal: what to reach.
    options: smallest face and factor; None takes the release's.
    min_iou: least overlap of a hit.
    first, second: thresholds of the first two nets to try.
    clock: seconds that only rise.

  Raises:
    ValueError: if there are no faces, or no thresholds reach the goal; says what
      comes nearest.
  """
  options = options or Options()
  counted = {each: truth[each].at_least(options.min_face) for each in photos}
  if not any(faces.counted.any() for faces in counted.values()):
    raise ValueError(f"none of the {len(photos)} photos has a face of {options.min_face:g} pixels or more")
  # A pass that counts for nothing: graphs are traced in it.
  _ask(detector, dict(itertools.islice(photos.items(), 1)), options, clock)
  tried = [
    each
    for pair in itertools.product(first, second)
    for each in _settings(detector, photos, counted, pair, options, min_iou, clock)
  ]
  reached = [each for each in tried if _reaches(each, goal)]
  if not reached:
    nearest = min(tried, key=lambda each: abs(getattr(each, goal.name) - goal.value))
    raise ValueError(
      f"no thresholds reach {goal.name} {goal.value:g} on these {len(photos)} photos; the nearest is "
      f"{getattr(nearest, goal.name):.4g}, with {', '.join(f'{t:.3f}' for t in nearest.options.thresholds)}"
    )
  return max(reached, key=lambda each: (_rest(each, goal), -each.seconds))


def tune_held_out(
  detector: Detect, held: HeldOut, goal: Goal, *, options: Options | None = None, most: int = MOST, **settings
) -> Tuned:
  """`tune` on photos of a run that were held out.

  Args:
    detector, goal, options: as for `tune`.
    held: the photos; those in which every face is marked count.
    most: at most so many of them, evenly spread.
    settings: more of `tune`'s.
  """
  ids = sample(held.faces, most)
  photos = {each: held.pixels(each) for each in ids}
  return tune(detector, photos, {each: held.faces[each] for each in ids}, goal, options=options, **settings)


def tune_model(model: str | pathlib.Path, held: HeldOut, goal: Goal, **settings) -> Tuned:
  """Tunes a saved detector and writes the thresholds into it, as its defaults.

  Args:
    model: folder of its SavedModel, or of its versions, of which the latest is taken.
    held, goal: as for `tune_held_out`.
    settings: more of `tune_held_out`'s and `tune`'s.

  Raises:
    ValueError: as `tune`, or if `model` is no detector.
  """
  detector = SavedDetector(model)
  tuned = tune_held_out(detector, held, goal, options=settings.pop("options", detector.options), **settings)
  write_options(detector.folder, tuned.options)
  return tuned


def sample(ids: Collection[str], most: int) -> list[str]:
  """At most so many of the ids, evenly spread: enough photos for `tune`, in bounded memory."""
  ids = list(ids)
  at = np.linspace(0, len(ids) - 1, min(most, len(ids))).round().astype(int)
  return [ids[index] for index in at]


def _reaches(tuned: Tuned, goal: Goal) -> bool:
  value = getattr(tuned, goal.name)
  return value <= goal.value if goal.name == "seconds" else value >= goal.value


def _rest(tuned: Tuned, goal: Goal) -> float:
  return {"recall": tuned.precision, "precision": tuned.recall, "seconds": tuned.f1}[goal.name]


def _settings(
  detector: Detect,
  photos: Mapping[str, np.ndarray],
  truth: Mapping[str, Faces],
  pair: tuple[float, float],
  options: Options,
  min_iou: float,
  clock: Callable[[], float],
) -> list[Tuned]:
  """Every third threshold that changes anything, at one pair of the first two."""
  asked = dataclasses.replace(options, thresholds=(*pair, LOWEST_THIRD))
  found, seconds = _ask(detector, photos, asked, clock)
  faces, detections = list(truth.values()), [found[each] for each in truth]
  matches = [match(*both, min_iou=min_iou) for both in zip(faces, detections, strict=True)]
  curve = precision_recall(faces, detections, matches)
  settings = [Tuned(_with_third(asked, 1.0), 0.0, 1.0, seconds)]
  for index, score in enumerate(curve.scores):
    below = curve.scores[index + 1] if index + 1 < len(curve.scores) else LOWEST_THIRD
    # Of equal scores all pass or none; the threshold goes halfway to the next.
    if below < score:
      third = (float(score) + float(below)) / 2
      settings.append(
        Tuned(_with_third(asked, third), float(curve.recall[index]), float(curve.precision[index]), seconds)
      )
  return settings


def _with_third(options: Options, third: float) -> Options:
  first, second, _ = options.thresholds
  return dataclasses.replace(options, thresholds=(first, second, third))


def _ask(
  detector: Detect, photos: Mapping[str, np.ndarray], options: Options, clock: Callable[[], float]
) -> tuple[dict[str, Found], float]:
  """Detections by photo, and the mean seconds that one photo takes."""
  start = clock()
  answers = {each: detector(photo, options) for each, photo in photos.items()}
  seconds = (clock() - start) / max(len(photos), 1)
  return {each: Found(answer["boxes"], answer["scores"]) for each, answer in answers.items()}, seconds
