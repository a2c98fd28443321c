"""Examples whose columns contradict each other: what no schema can say.

A schema knows one column at a time. These rules know what the columns of a face
crop mean together; which of them apply to a kind follows from the net: the
columns that it has, and the tasks that the kind labels.

    box_offsets + (0, 0, 1, 1) is the face's box, and landmarks are points, in
    units of the crop's side: (0, 0) the crop's top-left corner, (1, 1) the other
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterator

import numpy as np

from taskmix.examples.codec import Sample
from taskmix.faces import geometry
from taskmix.faces.placing import in_range
from taskmix.gates.findings import NAMED, Evidence, Example, Finding
from taskmix.gates.policy import OWN_TYPES
from taskmix.gates.shards import Batch
from taskmix.spec import IMAGE, IMAGE_ID, KIND, Net, SampleKind

# A point on the crop's edge, turned or mirrored, may come out a rounding outside.
_ROUNDING = 1e-5

# By so much may the IoU of the offsets differ from the column: corners of a
# large photo, in float32, cost 1e-4 in a 12-pixel crop.
_IOU_SLACK = 0.01

# By so much of the crop's side may a profile's eyes cross: annotators put the
# hidden eye where they guess it. Swapped eyes cross by 0.3 or so.
_EYE_SLACK = 0.05

_FIVE_POINTS = 5
_CROP = np.array([0, 0, 1, 1], np.float32)


@dataclasses.dataclass(frozen=True)
class Rule:
  """What must not be in an example.

  Attributes:
    type: of the finding.
    feature: the column that is blamed.
    broken: batch -> bool [n].
  """

  type: str
  feature: str
  broken: Callable[[Batch], np.ndarray]


def rules_of(net: Net, kind: str) -> tuple[Rule, ...]:
  """The rules for examples of one kind of the net."""
  return (
    Rule("KIND_NOT_OF_SPLIT", KIND, lambda batch: batch[KIND] != kind),
    *_finite_rules(net),
    *_face_rules(net, net.kind(kind)),
    *_iou_rules(net, net.kind(kind)),
    *_box_rules(net, net.kind(kind)),
    *_point_rules(net, kind),
  )


class LabelCheck:
  """Collects what the rules find in the batches of one split.

  Holds the first examples of each finding, no more.
  """

  def __init__(self, net: Net, split: str, kind: str, *, pictured: int):
    """`pictured` examples a finding are kept whole, for a picture."""
    self._net, self._split, self._pictured = net, split, pictured
    self._rules = rules_of(net, kind)
    self._counts = [0] * len(self._rules)
    self._examples: list[list[Example]] = [[] for _ in self._rules]
    self._samples: list[list[tuple[Example, Sample]]] = [[] for _ in self._rules]
    self._checked = 0

  def add(self, batch: Batch, shard: str, indices: np.ndarray) -> None:
    """Checks examples of one shard; `indices` int [n] are their records' places in it."""
    if not len(indices):
      return
    self._checked += len(indices)
    for number, rule in enumerate(self._rules):
      with warnings.catch_warnings(), np.errstate(all="ignore"):
        rows = np.flatnonzero(rule.broken(batch))
      self._counts[number] += len(rows)
      for row in rows[: NAMED - len(self._examples[number])]:
        example = Example(self._split, shard, int(indices[row]), str(batch[IMAGE_ID][row]))
        self._examples[number].append(example)
        if len(self._samples[number]) < self._pictured:
          self._samples[number].append((example, sample_of(batch, row)))

  def evidence(self) -> Iterator[Evidence]:
    """What was found, in the order of the rules."""
    for rule, count, examples, samples in zip(
      self._rules, self._counts, self._examples, self._samples, strict=True
    ):
      if count:
        description = f"{count:,} of {self._checked:,} examples checked: {OWN_TYPES[rule.type]}"
        names = tuple(map(str, examples))
        yield Evidence(
          Finding(rule.type, self._split, rule.feature, description, count=count, names=names),
          tuple(samples),
        )


def sample_of(batch: Batch, row: int) -> Sample:
  """One row of a batch, copied out of it."""
  targets = {
    name: np.array(values[row]) for name, values in batch.items() if name not in (IMAGE, KIND, IMAGE_ID)
  }
  return Sample(batch[IMAGE][row].copy(), str(batch[KIND][row]), str(batch[IMAGE_ID][row]), targets)


def _finite_rules(net: Net) -> Iterator[Rule]:
  for column in net.columns:
    if column.dtype == "float32":
      yield Rule("NOT_FINITE", column.name, lambda batch, name=column.name: ~_finite(batch[name]))


def _face_rules(net: Net, kind: SampleKind) -> Iterator[Rule]:
  """Of the label of a net that tells faces from background, by kinds that IoU decides."""
  if kind.min_iou is not None and _labels(net, kind.name, "face", size=1):
    wanted = int(kind.min_iou > 0)
    yield Rule("LABEL_NOT_OF_KIND", "face", lambda batch: batch["face"] != wanted)


def _iou_rules(net: Net, kind: SampleKind) -> Iterator[Rule]:
  if kind.min_iou is not None and _has(net, "iou"):
    yield Rule("IOU_OUTSIDE_KIND", "iou", lambda batch: _iou_outside(batch, kind))


def _box_rules(net: Net, kind: SampleKind) -> Iterator[Rule]:
  if not _labels(net, kind.name, "box_offsets", size=4):
    return
  yield Rule("BOX_WITHOUT_AREA", "box_offsets", _without_area)
  reach = geometry.largest_offset(kind.min_iou or 0.0)
  yield Rule("BOX_OUT_OF_REACH", "box_offsets", lambda batch: _out_of_reach(batch, reach))
  if kind.min_iou is not None and _has(net, "iou"):
    yield Rule("IOU_NOT_OF_BOX", "iou", _iou_differs)
  elif kind.min_iou is not None:
    yield Rule("IOU_OUTSIDE_KIND", "box_offsets", lambda batch: ~_nearly_in_range(_iou(batch), kind))


def _point_rules(net: Net, kind: str) -> Iterator[Rule]:
  if not _labels(net, kind, "landmarks"):
    return
  yield Rule("POINT_OUTSIDE_CROP", "landmarks", lambda batch: _any_outside(_points(batch), _CROP[None]))
  if net_points(net) == _FIVE_POINTS:
    yield Rule("EYES_SWAPPED", "landmarks", _eyes_swapped)
  if _labels(net, kind, "box_offsets", size=4):
    yield Rule("POINT_OUTSIDE_FACE", "landmarks", lambda batch: _any_outside(_points(batch), _boxes(batch)))


def net_points(net: Net) -> int:
  """Landmarks of a face in the net's `landmarks` column."""
  return next(column.size for column in net.columns if column.name == "landmarks") // 2


def _has(net: Net, name: str) -> bool:
  return any(column.name == name for column in net.columns)


def _labels(net: Net, kind: str, name: str, *, size: int = 0) -> bool:
  """Whether the kind's samples label a column of that name (and size)."""
  return any(
    task.target.name == name and kind in task.kinds and size in (0, task.target.size) for task in net.tasks
  )


def _finite(values: np.ndarray) -> np.ndarray:
  return np.isfinite(values.reshape(len(values), -1)).all(axis=1)


def _placed(batch: Batch) -> np.ndarray:
  """Examples that know where they were cut: bool [n]. Ready-made samples write zeros."""
  return (batch["crop"] != 0).any(axis=1) if "crop" in batch else np.ones(len(batch[KIND]), bool)


def _boxes(batch: Batch) -> np.ndarray:
  """The face's box in units of the crop's side: float32 [n, 4]."""
  return batch["box_offsets"].reshape(-1, 4) + _CROP


def _points(batch: Batch) -> np.ndarray:
  return batch["landmarks"].reshape(len(batch["landmarks"]), -1, 2)


def _without_area(batch: Batch) -> np.ndarray:
  return (geometry.sizes(_boxes(batch)) <= 0).any(axis=1)


def _out_of_reach(batch: Batch, reach: float) -> np.ndarray:
  boxes = _boxes(batch)
  apart = (boxes[:, :2] >= 1).any(axis=1) | (boxes[:, 2:] <= 0).any(axis=1)
  return apart | (np.abs(boxes - _CROP) > reach + _ROUNDING).any(axis=1)


def _iou(batch: Batch) -> np.ndarray:
  """IoU of the crop with the face's box: float32 [n], NaN where the box is not finite."""
  boxes = _boxes(batch)
  iou = geometry.paired_iou(np.broadcast_to(_CROP, boxes.shape), boxes)
  return np.where(_finite(boxes), iou, np.float32(np.nan))


def _iou_outside(batch: Batch, kind: SampleKind) -> np.ndarray:
  # NaN is a finding of its own.
  return _placed(batch) & np.isfinite(batch["iou"]) & ~in_range(batch["iou"], kind)


def _iou_differs(batch: Batch) -> np.ndarray:
  return _placed(batch) & (np.abs(_iou(batch) - batch["iou"]) > _IOU_SLACK)


def _nearly_in_range(iou: np.ndarray, kind: SampleKind) -> np.ndarray:
  assert kind.min_iou is not None and kind.max_iou is not None
  # Written so that NaN is in range.
  return ~((iou < kind.min_iou - _IOU_SLACK) | (iou > kind.max_iou + _IOU_SLACK))


def _any_outside(points: np.ndarray, boxes: np.ndarray) -> np.ndarray:
  """Whether any point [n, p, 2] lies outside its box [n or 1, 4]: bool [n]."""
  low, high = boxes[:, None, :2] - _ROUNDING, boxes[:, None, 2:] + _ROUNDING
  return ((points < low) | (points > high)).any(axis=(1, 2))


def _eyes_swapped(batch: Batch) -> np.ndarray:
  """Whether the left eye lies right of the right one, across the face's own axis: bool [n].

  The axis points from between the eyes to between the mouth's corners, so a head
  that hangs down is no finding. A mirrored crop has its points swapped, so the
  rule holds for it too; points mirrored and not swapped are what it finds.
  """
  left, right, _, mouth_left, mouth_right = np.moveaxis(_points(batch), 1, 0)
  down = (mouth_left + mouth_right - left - right) / 2
  across = right - left
  length = np.maximum(np.hypot(down[:, 0], down[:, 1]), 1e-6)
  return (across[:, 0] * down[:, 1] - across[:, 1] * down[:, 0]) / length < -_EYE_SLACK
