"""Training a net: TFX Trainer's `run_fn`, and `train`, which needs no TFX.

    shards ─► exact batches ─► compiled loop ─► SavedModel
                    │             │   ▲
                  audit         checkpoints: a re-run goes on from the newest whole one

Batch n depends on the seed and n alone, so a training that was killed and run
again ends with the weights that it would have had.
"""

import dataclasses
import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from taskmix import keys, mixing
from taskmix.mixing.audit import Audit
from taskmix.mixing.augment import Augmentation
from taskmix.mixing.shards import find
from taskmix.model import devices, history, serving, starting_weights
from taskmix.model.checkpoints import Checkpoints, fingerprint_of
from taskmix.model.history import Record
from taskmix.model.loop import Loop
from taskmix.model.validation import Validation
from taskmix.progress import Progress, tell
from taskmix.spec import IMAGE, Column, Net, Training, from_json, split_name, to_json
from taskmix.transform import Affine, standardization, transformed_columns

Files = Mapping[str, Sequence[str]]

HISTORY = "history.json"
AUDIT = "audit.json"

# Records of a history beside those at checkpoints, at most.
_RECORDS = 1000

_logger = logging.getLogger(__name__)


class TrainingError(RuntimeError):
  """A training that cannot go on."""


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
  """What a training leaves.

  Attributes:
    model: with the weights of the last step, of the precision it trained in.
    records: of the whole training, also of what a killed run did.
    audits: what was drawn: a report (see `taskmix.mixing.audit`) for every run
      that had a part in it.
    resumed_at: the step at which this run took up the work; 0 is the start.
    engine, compute: of the input and of the step, each with why it was chosen.
  """

  model: keras.Model
  records: tuple[Record, ...]
  audits: tuple[dict, ...]
  resumed_at: int
  engine: str
  compute: str

  @property
  def steps(self) -> int:
    return max((record.step for record in self.records), default=0)


def run_fn(fn_args: Any) -> None:
  """Trains and exports; the dotted path that TFX Trainer is given.

  Args:
    fn_args: TFX's FnArgs. Read: train_files and eval_files (a pattern a split),
      transform_output, and custom_config: "net" and "training" (their JSON);
      "checkpoint_dir", a folder that outlives this execution (by default beside
      the executions' own); "code", a text that changes with the code, so that
      new code never goes on from old checkpoints; "start", likewise of the weights
      that the training starts from. Written: the SavedModel into serving_model_dir;
      history.json, audit.json and tensorboard/ into model_run_dir.

  Raises:
    ValueError: if a setting does not fit the net, or a split has no files.
    TrainingError: if a loss is no longer finite.
    taskmix.mixing.audit.ContractError: if the batches broke the ratio contract.
  """
  import tensorflow_transform as tft

  # First of all: several workers must find each other before TensorFlow runs anything.
  worker, _ = devices.cluster()
  config = fn_args.custom_config
  net, training = Net.from_json(config["net"]), from_json(Training, config["training"])
  transform = tft.TFTransformOutput(fn_args.transform_output)
  files = split_files(fn_args.train_files, net, phase="train")
  checkpoint_dir = os.path.join(
    config.get("checkpoint_dir") or _beside(fn_args.model_run_dir),
    fingerprint(net, training, files=files, code=config.get("code", "") + config.get("start", "")),
  )
  result = train(
    net,
    training,
    files=files,
    eval_files=split_files(fn_args.eval_files or (), net, phase="eval", may_lack=True),
    scaling=standardization(transform.transform_features_layer(), net),
    checkpoint_dir=checkpoint_dir,
    log_dir=os.path.join(fn_args.model_run_dir, "tensorboard"),
    on_record=lambda record: _tell(record, training),
  )
  if worker.index:
    return  # The chief writes.
  write_result(fn_args.model_run_dir, net, result)
  serving.export(fn_args.serving_model_dir, net, model=result.model, transform=transform)
  # Only now: until the model is written, a killed run would have to start again.
  if tf.io.gfile.exists(checkpoint_dir):
    tf.io.gfile.rmtree(checkpoint_dir)


def train(
  net: Net,
  training: Training,
  *,
  files: Files,
  eval_files: Files | None = None,
  scaling: Mapping[str, Affine] | None = None,
  checkpoint_dir: str = "",
  log_dir: str = "",
  on_devices: list[str] | None = None,
  on_record: Callable[[Record], None] = lambda record: None,
) -> Result:
  """Trains the net on transformed examples.

  Args:
    net, training: what, and how.
    files: kind -> names or patterns of transformed TFRecords.
    eval_files: likewise; evaluated at every checkpoint and at the end. None, or
      kinds without files: not evaluated.
    scaling: task -> what Transform learnt; for augmentations that move labels, and
      for the heads of weights to start from.
    checkpoint_dir: of this very training; goes on from what is there. "" keeps none.
      Several workers must all see it; the chief writes.
    log_dir: for TensorBoard; "" writes nothing.
    on_devices: see `devices.choose`.
    on_record: called with every record as it is made.

  Raises:
    As `run_fn`.
  """
  compute = devices.choose(training, devices=on_devices)
  run = _Run(
    net,
    training,
    compute,
    scaling=scaling or {},
    checkpoint_dir=checkpoint_dir,
    log_dir=log_dir,
    on_record=on_record,
  )
  return run.to_the_end(files, eval_files or {})


class _Run:
  """One run of a training, from the newest checkpoint to the last step."""

  def __init__(
    self,
    net: Net,
    training: Training,
    compute: devices.Compute,
    *,
    scaling: Mapping[str, Affine],
    checkpoint_dir: str,
    log_dir: str,
    on_record: Callable[[Record], None],
  ):
    self._net, self._training, self._compute, self._scaling = net, training, compute, scaling
    self._columns = trained_columns(net)
    self._loop = Loop(net, training, compute=compute)
    self._checkpoints = None
    if checkpoint_dir:
      keep = training.keep_checkpoints
      self._checkpoints = Checkpoints(checkpoint_dir, self._loop.variables, keep=keep)
    self._board = history.TensorBoard(log_dir) if log_dir and compute.is_chief else None
    self._on_record = on_record
    self._records: list[Record] = []
    self._earlier_audits: list[dict] = []
    self._audit = Audit()

  def to_the_end(self, files: Files, eval_files: Files) -> Result:
    start = self._restore()
    feed = self._feed(files, start)
    _logger.info("training %s from step %d on %s", self._net.name, start, self._compute.reason)
    self._loop.expand = feed.expand
    last = self._training.steps if feed.steps is None else start + feed.steps
    self._advance(feed.dataset, start, last, self._validation(eval_files))
    if start < last:
      self._audit.require(steps=last)
    if self._board is not None:
      self._board.close()
    return Result(
      model=self._loop.model,
      records=tuple(self._records),
      audits=tuple(self._audits(last) if start < last else self._earlier_audits),
      resumed_at=start,
      engine=f"{feed.engine}: {feed.reason}",
      compute=self._compute.reason,
    )

  def _feed(self, files: Files, start: int) -> mixing.Feed:
    training = self._training
    return mixing.feed(
      self._net.mixture,
      files,
      self._columns,
      batch_size=training.batch_size,
      seed=training.seed,
      start_step=start,
      steps=training.steps - start,
      worker=self._compute.worker,
      engine=training.engine,
      memory_budget_mib=training.memory_budget_mib,
      augment=augmentation(self._net, training, self._scaling),
      audit=self._audit,
    )

  def _validation(self, files: Files) -> Validation | None:
    if not any(files.values()):
      return None
    size = self._training.batch_size
    return Validation(self._net, self._loop.model, files=files, columns=self._columns, batch_size=size)

  def _advance(self, dataset: tf.data.Dataset, step: int, last: int, validation: Validation | None) -> None:
    """Runs the compiled loop from boundary to boundary, from `step` to `last`.

    Boundaries hang on the step's number alone, so that a resumed run records the
    same means.
    """
    if step >= last:
      return
    iterator = self._loop.iterate(dataset)
    summed, since, clock = 0.0, step, time.monotonic()
    while step < last:
      ahead = self._ahead(step, last)
      frozen = step < self._training.frozen_steps
      summed = summed + self._loop.advance(iterator, tf.constant(ahead, tf.int64), frozen).numpy()
      step += ahead
      saves = step % self._training.checkpoint_every == 0 or step == last
      if saves or step % self._record_every == 0:
        means = dict(zip(self._loop.names, (summed / (step - since)).tolist(), strict=True))
        speed = (step - since) / max(time.monotonic() - clock, 1e-9)
        self._keep(Record(step, "train", means, {}, self._loop.learning_rate, speed))
        if saves:
          self._save(step, validation)
        summed, since, clock = 0.0, step, time.monotonic()

  @property
  def _record_every(self) -> int:
    """A multiple of the steps of a call."""
    calls = -(-self._training.steps // self._training.steps_per_execution)
    return self._training.steps_per_execution * max(1, -(-calls // _RECORDS))

  def _ahead(self, step: int, last: int) -> int:
    """Steps until the next boundary."""
    execution, checkpoint = self._training.steps_per_execution, self._training.checkpoint_every
    thaws = self._training.frozen_steps - step
    return min(
      last - step,
      execution - step % execution,
      checkpoint - step % checkpoint,
      thaws if thaws > 0 else execution,
    )

  def _keep(self, record: Record) -> None:
    if record.phase == "train" and not math.isfinite(record.losses[history.TOTAL]):
      raise TrainingError(
        f"net {self._net.name!r}, step {record.step}: the losses are {dict(record.losses)}; lower the "
        "learning rate, train in float32, or look for absurd targets in the data"
      )
    self._records.append(record)
    if self._board is not None:
      self._board.write(record)
    self._on_record(record)

  def _save(self, step: int, validation: Validation | None) -> None:
    if validation is not None:
      self._keep(validation.record(step))
    if self._checkpoints is not None and self._compute.is_chief:
      notes = {"records": history.to_json(self._records), "audits": self._audits(step)}
      self._checkpoints.save(step, notes=json.dumps(notes))

  def _audits(self, step: int) -> list[dict]:
    """What earlier runs drew up to where this one took over, and what it drew itself."""
    return [*self._earlier_audits, self._audit.report(steps=step)]

  def _restore(self) -> int:
    """Goes back to the newest whole checkpoint; the step at which to go on."""
    restored = None if self._checkpoints is None else self._checkpoints.restore()
    if restored is None:
      starting_weights.load(self._loop.model, self._net, self._training, self._scaling)
      return 0
    step, text = restored
    notes = json.loads(text)
    self._records = history.from_json(notes["records"])
    self._earlier_audits = notes["audits"]
    if self._board is not None:
      for record in self._records:
        self._board.write(record)
    _logger.info("going on from the checkpoint of step %d", step)
    return step


def trained_columns(net: Net) -> tuple[Column, ...]:
  """Those of the transformed columns that a training reads: pixels, targets, masks."""
  needed = {IMAGE, *(task.target.name for task in net.tasks), *(task.mask for task in net.tasks)}
  return tuple(column for column in transformed_columns(net) if column.name in needed)


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


def split_files(
  patterns: Sequence[str], net: Net, *, phase: str, may_lack: bool = False
) -> dict[str, list[str]]:
  """TFX's file patterns, one a split, by the kind in their path; of one phase.

  >>> split_files(["/x/Split-train-neg/*", "/x/Split-train-pos/*"], net, phase="train")
  {'neg': ['/x/Split-train-neg/*'], 'pos': ['/x/Split-train-pos/*']}

  Raises:
    ValueError: if a kind has no pattern, unless it `may_lack` one.
  """
  by_split: dict[str, list[str]] = {}
  for pattern in patterns:
    for split in re.findall(r"/Split-([^/]+)/", pattern)[-1:]:
      by_split.setdefault(split, []).append(pattern)
  kinds = {kind: by_split.get(split_name(phase, kind), []) for kind in net.mixture.names}
  missing = [split_name(phase, kind) for kind, found in kinds.items() if not found]
  if missing and not may_lack:
    raise ValueError(
      f"net {net.name!r} trains on the splits {', '.join(missing)}, which are not among "
      f"{', '.join(by_split) or 'the given (none)'}; name them in TrainArgs(splits=...)"
    )
  return kinds


def fingerprint(net: Net, training: Training, *, files: Files, code: str = "") -> str:
  """Names this very training: the same net, settings, data and code give the same text."""
  data = fingerprint_of(find(files, kinds=net.mixture.names))
  return f"{keys.stable_hash(net.to_json(), to_json(training), data, code):016x}"


def write_result(directory: str, net: Net, result: Result) -> None:
  """Writes history.json and audit.json, for the model_run artifact."""
  described = {
    "net": net.name,
    "steps": result.steps,
    "resumed_at": result.resumed_at,
    "input_engine": result.engine,
    "compute": result.compute,
    "records": [dataclasses.asdict(record) for record in result.records],
  }
  tf.io.gfile.makedirs(directory)
  for name, value in ((HISTORY, described), (AUDIT, {"runs": result.audits})):
    with tf.io.gfile.GFile(os.path.join(directory, name), "w") as file:
      file.write(json.dumps(value, indent=1))


def _tell(record: Record, training: Training) -> None:
  """Lets those who listen know how a training stands: losses a task, and how fast it goes."""
  if record.phase == "train":
    losses = {task: loss for task, loss in record.losses.items() if task != history.TOTAL}
    examples = {"examples/s": record.steps_per_s * training.batch_size}
    tell(Progress(record.step, training.steps, "steps", record.steps_per_s, {**losses, **examples}))


def _beside(model_run_dir: str) -> str:
  """<root>/<Trainer>/checkpoints of <root>/<Trainer>/model_run/<execution>."""
  return os.path.join(os.path.dirname(os.path.dirname(model_run_dir.rstrip("/"))), "checkpoints")
