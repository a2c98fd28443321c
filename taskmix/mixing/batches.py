"""Exact batches of a mixture from files: the entry point of `taskmix.mixing`."""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import tensorflow as tf

from taskmix.mixing import allocator, chance, device, memory, parse, shards, stream
from taskmix.mixing.audit import Audit
from taskmix.mixing.rows import ending, rows, span
from taskmix.mixing.sampler import Sampler, Worker
from taskmix.spec import Column, Mixture

Engine = Literal["auto", "memory", "stream", "device", "chance"]
ENGINES = ("auto", "memory", "stream", "device", "chance")
Batch = dict[str, tf.Tensor]

# Batches made at a time, and kept ready.
_IN_ORDER: Any = {"num_parallel_calls": 2, "deterministic": True}
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
  audit: Audit | None = None,
  stream_window_mib: int = 256,
  scratch: str | None = None,
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
    memory_budget_mib: MiB that "auto" lets the memory engine hold.
    compression: "auto" (by the files' first bytes), "gzip" or "none".
    manifest: path, whole or from any folder of it on, -> what the shard must hold.
    augment: see `taskmix.mixing.augment`.
    audit: takes note of what is drawn.
    stream_window_mib: MiB of examples that the stream engine shuffles together; its
      batches depend on it.
    scratch: folder in which the stream engine unpacks gzip shards, once; None is
      one in the system's temporary folder.

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
    audit=audit,
    stream_window_mib=stream_window_mib,
    scratch=scratch,
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
  audit: Audit | None = None,
  stream_window_mib: int = 256,
  scratch: str | None = None,
) -> Feed:
  """As `dataset`, with what is known of it, for loops that gather on the device."""
  if engine not in ENGINES:
    raise ValueError(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
  allocator.keep_freed_memory()
  counts = mixture.counts(batch_size)
  found = shards.preflight(files, kinds=mixture.names, compression=compression, manifest=manifest)
  sizes = {kind: sum(shard.records for shard in kept) for kind, kept in found.items()}
  chosen, reason = choose(engine, sizes, columns, memory_budget_mib)
  _logger.info("input engine %s: %s", chosen, reason)
  sampler = Sampler.of(counts, sizes, seed=seed)
  over = span(mixture, sampler, start_step=start_step, steps=steps)
  if audit is not None:
    _bind(audit, chosen, sampler, start_step)
  tap = audit.see if audit is not None else None
  slots = worker.slice(batch_size)

  def finish(batch: Batch, step: tf.Tensor) -> Batch:
    return augment(batch, step, batch_size=batch_size, slots=slots) if augment else batch

  expand = _same
  if chosen == "chance":
    drawn = chance.records(
      mixture, found, batch_size=batch_size, seed=seed, start_step=start_step, steps=steps, worker=worker
    )
    made = _mapped(drawn, lambda step, read: finish(parse.parse(read, columns), step))
  elif chosen == "stream":
    window = stream.window_steps(columns, batch_size, stream_window_mib)
    drawn = stream.records(found, sampler, over, steps=window, worker=worker, tap=tap, scratch=scratch)
    made = _mapped(
      drawn, lambda step, read, place: finish(parse.parse(tf.gather(read, place), columns), step)
    )
  else:
    drawn, store = rows(sampler, over, worker=worker, tap=tap), memory.load(found, columns)
    if chosen == "memory":
      made = _mapped(drawn, lambda step, rows: finish(store.gather(rows), step))
    else:
      held = device.DeviceStore(store)
      made = _mapped(drawn, held.element)

      def expand(element: Batch) -> Batch:
        return finish(held.gather(element), element[device.STEP])

  made = ending(made, over).prefetch(_BATCHES_AHEAD).with_options(_options())
  return Feed(made, expand, chosen, reason, sizes, over.steps)


def _mapped(dataset: tf.data.Dataset, function: Callable) -> tf.data.Dataset:
  """`function` over the elements, in order.

  As it stands: it branches on no tensor, which AutoGraph would take seconds to find out.
  """
  return dataset.map(tf.autograph.experimental.do_not_convert(function), **_IN_ORDER)


def choose(
  engine: Engine, sizes: Mapping[str, int], columns: Sequence[Column], budget_mib: int
) -> tuple[Engine, str]:
  """The engine to take, and why."""
  if engine != "auto":
    return engine, "asked for"
  total = sum(sizes.values())
  mib = total * parse.example_bytes(columns) / 2**20
  what = f"{total} examples take {mib:.1f} MiB as tensors"
  if mib <= budget_mib:
    return "memory", f"{what}, within the budget of {budget_mib} MiB"
  return "stream", f"{what}, above the budget of {budget_mib} MiB"


def _bind(audit: Audit, engine: Engine, sampler: Sampler, start_step: int) -> None:
  if engine == "chance":
    raise ValueError("engine 'chance' keeps no contract that could be audited; take another, or no audit")
  audit.bind(sampler, start_step=start_step)


def _same(element: Batch) -> Batch:
  return element


def _options() -> tf.data.Options:
  """No autotuning, which changes its mind in the middle; no sharding by a strategy, which would
  break the batch's order; one thread an operation, since batches are made in parallel."""
  options = tf.data.Options()
  options.autotune.enabled = False
  options.deterministic = True
  options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
  options.threading.max_intra_op_parallelism = 1
  return options
