"""Exact batches of a mixture from files: the entry point of `taskmix.mixing`."""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

import tensorflow as tf

from taskmix.mixing import memory, shards
from taskmix.mixing.rows import rows, span
from taskmix.mixing.sampler import Sampler, Worker
from taskmix.spec import Column, Mixture

Engine = Literal["auto", "memory", "stream", "device", "chance"]
ENGINES = ("auto", "memory", "stream", "device", "chance")
Batch = dict[str, tf.Tensor]

# Batches made at a time and kept ready.
_PARALLEL = 2
_BATCHES_AHEAD = 4

_logger = logging.getLogger(__name__)


class Augment(Protocol):
  """Changes a batch after the draw; see `taskmix.mixing.augment`."""

  def __call__(self, batch: Batch, step: tf.Tensor, *, batch_size: int, slots: slice) -> Batch: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Feed:
  """A dataset and what is known of it.

  Attributes:
    dataset: what the training loop iterates.
    expand: makes the batch of an element, inside the compiled step. Only the
      device engine has work to do there (its elements are steps and rows); for
      the others it returns its argument.
    engine: the one that was chosen, and `reason` why.
    sizes: kind -> number of examples.
    steps: batches that the dataset gives; None is endless.
  """

  dataset: tf.data.Dataset
  expand: Callable[[Batch], Batch]
  engine: str
  reason: str
  sizes: dict[str, int]
  steps: int | None


def dataset(
  mixture: Mixture,
  files: shards.Files,
  columns: Sequence[Column],
  *,
  batch_size: int,
  seed: int,
  start_step: int = 0,
  steps: int | None = None,
  worker: Worker = Worker(),  # noqa: B008 - frozen
  engine: Engine = "auto",
  memory_budget_mib: int = 2048,
  compression: str = "auto",
  manifest: Mapping[str, shards.Expected] | None = None,
  augment: Augment | None = None,
) -> tf.data.Dataset:
  """Batches that hold the mixture's exact counts, the same for the same seed and step.

  >>> mixture = Mixture((SampleKind("neg", 3), SampleKind("pos", 1)))
  >>> files = {"neg": ["neg-*.tfrecord"], "pos": ["pos-*.tfrecord"]}
  >>> columns = (Column("image", "uint8", (12, 12, 3)), Column("face", "int64"))
  >>> batches = dataset(mixture, files, columns, batch_size=64, seed=1)

  Args:
    mixture: kinds, ratio, and what happens when a kind is used up.
    files: kind -> TFRecord file names or glob patterns.
    columns: those to read; a uint8 column is one string of raw bytes.
    batch_size: of all workers together; must hold the ratio.
    seed: of every order.
    start_step: the first batch to give; any, at the same cost.
    steps: batches to give; None goes on until a kind stops.
    worker: which slice of every batch to give.
    engine: "memory" holds the examples as tensors; "stream" reads them from the
      shards again and again; "device" holds them on the accelerator (see `feed`);
      "chance" draws the kinds by weight; "auto" takes memory where the examples
      fit into `memory_budget_mib`, else stream, and logs why.
    memory_budget_mib: MiB that "auto" lets the memory engine hold, and that the
      stream engine keeps its window within.
    compression: "auto" (by the files' first bytes), "gzip" or "none".
    manifest: path, or file name, -> what the shard must hold.
    augment: see `taskmix.mixing.augment`.

  Returns:
    dict name -> tensor [slots of the worker, *shape].

  Raises:
    ValueError: if the ratio does not divide the batch, a kind has no examples, or
      `steps` are more than a kind with when_short="error" can fill.
    shards.ShardError: (a ValueError) naming every file that is missing, empty, cut
      off, corrupted or not as the manifest says.
  """
  fed = feed(
    mixture,
    files,
    columns,
    batch_size=batch_size,
    seed=seed,
    start_step=start_step,
    steps=steps,
    worker=worker,
    engine=engine,
    memory_budget_mib=memory_budget_mib,
    compression=compression,
    manifest=manifest,
    augment=augment,
  )
  return fed.dataset.map(fed.expand) if fed.engine == "device" else fed.dataset


def feed(
  mixture: Mixture,
  files: shards.Files,
  columns: Sequence[Column],
  *,
  batch_size: int,
  seed: int,
  start_step: int = 0,
  steps: int | None = None,
  worker: Worker = Worker(),  # noqa: B008 - frozen
  engine: Engine = "auto",
  memory_budget_mib: int = 2048,
  compression: str = "auto",
  manifest: Mapping[str, shards.Expected] | None = None,
  augment: Augment | None = None,
) -> Feed:
  """As `dataset`, with what is known of it, for loops that gather on the device."""
  counts = mixture.counts(batch_size)
  found = shards.find(files, kinds=mixture.names)
  store = memory.load(found, columns, compression=compression, manifest=manifest)
  sampler = Sampler.of(counts, store.sizes, seed=seed)
  over = span(mixture, sampler, start_step=start_step, steps=steps)
  slots = worker.slice(batch_size)

  def make(step: tf.Tensor, rows: tf.Tensor) -> Batch:
    batch = store.gather(rows)
    return augment(batch, step, batch_size=batch_size, slots=slots) if augment else batch

  drawn = rows(sampler, over, worker=worker)
  made = drawn.map(make, num_parallel_calls=_PARALLEL, deterministic=True).prefetch(_BATCHES_AHEAD)
  return Feed(made.with_options(_options()), _same, "memory", "", store.sizes, over.steps)


def _same(batch: Batch) -> Batch:
  return batch


def _options() -> tf.data.Options:
  """No autotuning, which costs time and changes its mind; no sharding by a strategy, which would
  break the batch's order; one thread an operation, since batches are made in parallel."""
  options = tf.data.Options()
  options.autotune.enabled = False
  options.deterministic = True
  options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
  options.threading.max_intra_op_parallelism = 1
  return options
