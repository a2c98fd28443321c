"""Trains a net: TFX Trainer's `run_fn`, and the plain function under it.

    transformed shards -> taskmix.mixing -> Loop -> checkpoints, history, audit -> SavedModel

A killed training goes on from its newest whole checkpoint with the very batches
that it would have had, since batch n depends on the seed and n alone.
"""

import dataclasses
import json
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from taskmix.keys import stable_hash
from taskmix.mixing import Audit, feed
from taskmix.mixing.augment import Augmentation
from taskmix.model import devices, history, serving
from taskmix.model.checkpoints import Checkpoints, fingerprint_of
from taskmix.model.loop import Loop
from taskmix.model.validation import Validation
from taskmix.spec import Column, Net, Training, from_json, split_parts, to_json
from taskmix.transform import Affine, standardization, transformed_columns

HISTORY = "history.json"
AUDIT = "audit.json"

# Records of a training, for curves; more would make checkpoints large.
_RECORDS = 200

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
  """A finished training.

  Attributes:
    model: the Keras model with its last weights.
    records: what it went through, from step 0 on, also before a kill.
    audits: of every part that ran without a break: what was really drawn.
  """

  model: Any
  records: list[history.Record]
  audits: list[dict]


class TrainingError(RuntimeError):
  """A training that cannot go on."""


def run_fn(fn_args: Any) -> None:
  """Trains and exports; the dotted path that TFX's Trainer is given.

  Args:
    fn_args: TFX's FnArgs. `custom_config` holds "net" and "training", their
      JSON; "checkpoint_dir", a folder that outlives this execution; and "code",
      a hash of the code, so that a checkpoint of other code is not taken up.

  Raises:
    ValueError: if a setting or the data cannot be used.
    TrainingError: if a loss is no longer finite.
    taskmix.mixing.ContractError: if a batch broke the ratio contract.
  """
  import tensorflow_transform as tft

  config = fn_args.custom_config
  net, training = Net.from_json(config["net"]), from_json(Training, config["training"])
  transform = tft.TFTransformOutput(fn_args.transform_output)
  files, eval_files = by_kind(fn_args.train_files), by_kind(fn_args.eval_files)
  result = train(
    net,
    training,
    files=files,
    eval_files=eval_files,
    scaling=standardization(transform.transform_features_layer(), net),
    checkpoint_dir=os.path.join(
      config["checkpoint_dir"], run_key(net, training, files, code=config.get("code", ""))
    ),
    log_dir=fn_args.model_run_dir,
  )
  serving.export(fn_args.serving_model_dir, net, model=result.model, transform=transform)
  # Only now: a kill before the export goes on from the last checkpoint.
  tf.io.gfile.rmtree(config["checkpoint_dir"])


def by_kind(patterns: Sequence[str]) -> dict[str, list[str]]:
  """kind -> patterns, from TFX's patterns ".../Split-train-neg/*"."""
  files: dict[str, list[str]] = {}
  for pattern in patterns:
    split = os.path.basename(os.path.dirname(pattern)).removeprefix("Split-")
    files.setdefault(split_parts(split)[1], []).append(pattern)
  return files


def run_key(net: Net, training: Training, files: Mapping[str, Sequence[str]], *, code: str) -> str:
  """Names a training by all that decides its weights: what differs must not share checkpoints."""
  found = {
    kind: [path for pattern in patterns for path in tf.io.gfile.glob(pattern)]
    for kind, patterns in files.items()
  }
  return f"{stable_hash(net.to_json(), to_json(training), code, fingerprint_of(found)):016x}"


def train(
  net: Net,
  training: Training,
  *,
  files: Mapping[str, Sequence[str]],
  eval_files: Mapping[str, Sequence[str]],
  scaling: Mapping[str, Affine],
  checkpoint_dir: str,
  log_dir: str,
  compute: devices.Compute | None = None,
) -> Result:
  """Trains from the newest checkpoint, or from the start, to `training.steps`.

  Args:
    net, training: what, and how.
    files, eval_files: kind -> patterns of transformed TFRecords.
    scaling: task -> what Transform learnt, for augmentations that move labels.
    checkpoint_dir: of this training alone.
    log_dir: takes TensorBoard's files, history.json and audit.json.
    compute: where to compute; None chooses from the devices.

  Raises:
    As `run_fn`.
  """
  compute = compute or devices.choose(training)
  _logger.info("training %s on %s", net.name, compute.reason)
  loop = Loop(net, training, compute=compute)
  if training.init_weights:
    serving.load_weights(loop.model, training.init_weights)
  checkpoints = Checkpoints(checkpoint_dir, loop.variables, keep=training.keep_checkpoints)
  step, past = _restored(checkpoints)
  columns, audit = trained_columns(net), Audit()
  fed = feed(
    net.mixture,
    files,
    columns,
    batch_size=training.batch_size,
    seed=training.seed,
    start_step=step,
    steps=training.steps,
    engine=training.engine,
    memory_budget_mib=training.memory_budget_mib,
    augment=augmentation(net, training, scaling),
    audit=audit,
  )
  _logger.info("input engine %s: %s", fed.engine, fed.reason)
  loop.expand = fed.expand
  last = training.steps if fed.steps is None else step + fed.steps
  validation = Validation(net, loop.model, eval_files, columns=columns, batch_size=training.batch_size)
  board = history.TensorBoard(log_dir)
  records = list(past.records)
  for record in records:
    board.write(record)

  def keep(record: history.Record) -> None:
    records.append(record)
    board.write(record)
    _logger.info("%s", record)

  for record in _steps(loop, fed.dataset, start=step, last=last, training=training):
    keep(record)
    if record.step % training.checkpoint_every == 0 or record.step == last:
      losses, metrics = validation()
      keep(history.Record(record.step, "eval", losses, metrics))
      notes = _Notes(records, [*past.audits, audit.report(steps=record.step)])
      checkpoints.save(record.step, notes=notes.to_json())
  board.close()
  audits = [*past.audits, *([audit.report(steps=last)] if step < last else [])]
  _write(log_dir, HISTORY, history.to_json(records))
  _write(log_dir, AUDIT, json.dumps(audits, indent=2))
  if step < last:
    audit.require(steps=last)
  return Result(loop.model, records, audits)


def augmentation(net: Net, training: Training, scaling: Mapping[str, Affine]) -> Augmentation | None:
  """What changes a batch after the draw; None where the settings name nothing."""
  if not training.augment:
    return None
  targets = {task.target.geometry: task.target.name for task in net.tasks}
  return Augmentation(
    training.augment,
    seed=training.seed,
    boxes=targets.get("box", ""),
    points=targets.get("points", ""),
    scaling={net.task(name).target.name: (affine.mean, affine.std) for name, affine in scaling.items()},
  )


def _steps(loop: Loop, dataset: tf.data.Dataset, *, start: int, last: int, training: Training):
  """Trains, and yields a record where one is due: at checkpoints, and some 200 times in all."""
  iterator = loop.iterate(dataset)
  every = max(1, last // _RECORDS)
  step = start
  while step < last:
    due = min(*(step - step % size + size for size in (every, training.checkpoint_every)), last)
    first, begin, summed = step, time.monotonic(), tf.zeros(len(loop.names))
    while step < due:
      count = min(training.steps_per_execution, due - step)
      summed += loop.advance(iterator, tf.constant(count, tf.int64))
      step += count
    losses = dict(zip(loop.names, (summed / (step - first)).numpy().tolist(), strict=True))
    if not math.isfinite(losses[history.TOTAL]):
      raise TrainingError(
        f"the loss is no longer finite after step {step}: {losses}; lower the learning rate, or look for "
        "absurd targets in the data (ExampleGate's schema can bound them)"
      )
    rate = (step - first) / (time.monotonic() - begin)
    yield history.Record(step, "train", losses, {}, loop.learning_rate, rate)


@dataclasses.dataclass(frozen=True, eq=False)
class _Notes:
  """What a checkpoint keeps beside the variables."""

  records: list[history.Record]
  audits: list[dict]

  def to_json(self) -> str:
    return json.dumps({"records": history.to_json(self.records), "audits": self.audits})

  @classmethod
  def from_json(cls, text: str) -> "_Notes":
    fields = json.loads(text)
    return cls(history.from_json(fields["records"]), fields["audits"])


def _restored(checkpoints: Checkpoints) -> tuple[int, _Notes]:
  found = checkpoints.restore()
  if found is None:
    return 0, _Notes([], [])
  step, text = found
  _logger.info("going on from step %d of %s", step, checkpoints.directory)
  return step, _Notes.from_json(text)


def _write(folder: str, name: str, text: str) -> None:
  tf.io.gfile.makedirs(folder)
  with tf.io.gfile.GFile(os.path.join(folder, name), "w") as file:
    file.write(text)


def trained_columns(net: Net) -> tuple[Column, ...]:
  """The transformed columns that a step reads: image, targets and masks."""
  wanted = {net.image.name, *(task.target.name for task in net.tasks), *(task.mask for task in net.tasks)}
  return tuple(column for column in transformed_columns(net) if column.name in wanted)
