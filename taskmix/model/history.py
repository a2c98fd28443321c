"""What a training went through, record by record: kept in checkpoints, shown in TensorBoard."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

# The weighted sum of all tasks' losses.
TOTAL = "total"


@dataclasses.dataclass(frozen=True)
class Record:
  """The state after `step` steps.

  Attributes:
    phase: "train" for means over the steps since the last such record, "eval"
      for the whole eval data at this step.
    losses: by task, before its weight; and "total", the weighted sum. NaN where
      no sample labels the task.
    metrics: "<task>_accuracy" of tasks with classes, in eval.
    learning_rate: of the next step.
    steps_per_s: in train; it depends on the machine and is not reproducible.
  """

  step: int
  phase: str
  losses: Mapping[str, float]
  metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
  learning_rate: float = 0.0
  steps_per_s: float = 0.0


def to_json(records: Sequence[Record]) -> str:
  return json.dumps([dataclasses.asdict(record) for record in records])


def from_json(text: str) -> list[Record]:
  return [Record(**fields) for fields in json.loads(text)]


class TensorBoard:
  """Writes records as scalars: loss/<task>, accuracy and speed, a run a phase."""

  def __init__(self, directory: str):
    self._directory = directory
    self._writers: dict[str, tf.summary.SummaryWriter] = {}

  def write(self, record: Record) -> None:
    if record.phase not in self._writers:
      self._writers[record.phase] = tf.summary.create_file_writer(os.path.join(self._directory, record.phase))
    with self._writers[record.phase].as_default(step=record.step):
      for task, value in record.losses.items():
        tf.summary.scalar(f"loss/{task}", value)
      for name, value in record.metrics.items():
        tf.summary.scalar(f"metric/{name}", value)
      if record.phase == "train":
        tf.summary.scalar("learning_rate", record.learning_rate)
        tf.summary.scalar("steps_per_s", record.steps_per_s)

  def close(self) -> None:
    for writer in self._writers.values():
      writer.close()
