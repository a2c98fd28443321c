"""Whether training ever waits for its input, and where a step's time goes.

    python -m benchmarks.train [--seconds 60] [--nets pnet rnet onet] [--settings]

Each net of the cascade trains at 896 examples a batch, 3:1:1:2, by the compiled
loop of `taskmix.model`, on 28,000 examples that are made here: with the real input
and with one constant batch, by the very same compiled step. Machines drift by more
than the input costs, so the two ways alternate in short turns of one call (half a
second, or one step where that takes longer):

    real constant constant real | constant real real constant | ...

Four turns give one ratio, from which a steady drift cancels out; the figure is the
median ratio, with the interval that holds the true median in 95 of 100 cases. A
turn pays for its own input: a batch that is taken makes room for another, which is
made while the step runs, so that the buffers are as full at a turn's end as at its
start. `--settings` also measures jit_compile, steps_per_execution and precision on
the constant batch, in turns too. A last figure hardly hangs on what else runs: the
processor time that making a batch takes, by the processor time of a step.

The last line is a JSON object: input_efficiency_<net> (steps/s with the real input
by steps/s with the constant batch) and its interval, steps/s of both, and the share
of a step's time that goes into forward, backward, update and waiting for the input.
"""

import argparse
import dataclasses
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from taskmix import mixing
from taskmix.examples import codec
from taskmix.keys import keyed_rng
from taskmix.model import devices
from taskmix.model.loop import Loop
from taskmix.model.losses import net_losses
from taskmix.model.training import trained_columns
from taskmix.nets.mtcnn import MTCNN
from taskmix.spec import IMAGE, Net, Training

BATCH = 896
EXAMPLES = 28_000
SHARDS = 2
# Ratios that a median needs: with these its interval leaves out the extremes.
LEAST_RATIOS = 9

SETTINGS = Training(batch_size=BATCH, steps=1_000_000, warmup_steps=0)
VARIANTS = {
  "xla": {"jit_compile": True},
  "no xla": {"jit_compile": False},
  "1 step a call": {"steps_per_execution": 1},
  "4 steps a call": {"steps_per_execution": 4},
  "64 steps a call": {"steps_per_execution": 64},
  "bfloat16": {"precision": "mixed_bfloat16"},
}


def write_files(folder: str, net: Net) -> dict[str, list[str]]:
  """Transformed examples of every kind, as many as the ratio wants: random pixels and targets."""
  files: dict[str, list[str]] = {}
  columns = trained_columns(net)
  for kind, count in net.mixture.counts(EXAMPLES).items():
    rng = keyed_rng(net.name, kind)
    batch: dict[str, Any] = {IMAGE: rng.integers(0, 256, (count, *net.input_size), np.uint8)}
    for task in net.tasks:
      shape = (count, *task.target.shape)
      classes = len(task.target.classes)
      values = rng.integers(0, classes, shape) if classes else rng.normal(size=shape).astype(np.float32)
      batch[task.target.name] = values
      batch[task.mask] = np.full(count, kind in task.kinds, np.float32)
    records = codec.encode(columns, batch)
    files[kind] = [os.path.join(folder, f"{net.name}-{kind}-{shard}") for shard in range(SHARDS)]
    for shard, path in enumerate(files[kind]):
      with tf.io.TFRecordWriter(path) as writer:
        for record in records[shard::SHARDS]:
          writer.write(record)
  return files


@dataclasses.dataclass
class Stopwatch:
  """Runs a loop, a call at a time.

  Attributes:
    loop: the training loop.
    iterator: of its batches.
    chunk: steps a call.
  """

  loop: Loop
  iterator: Any
  chunk: int = 1

  def seconds_a_step(self) -> float:
    """Of one call."""
    begin = time.perf_counter()
    self.loop.advance(self.iterator, tf.constant(self.chunk, tf.int64)).numpy()
    return (time.perf_counter() - begin) / self.chunk


def start(net: Net, training: Training, dataset: tf.data.Dataset) -> Stopwatch:
  """A loop of its own over the dataset, compiled and warm; a call takes half a second or one step."""
  loop = Loop(net, training, compute=devices.choose(training))
  watch = Stopwatch(loop, loop.iterate(dataset))
  watch.seconds_a_step()
  pace = 1 / min(watch.seconds_a_step() for _ in range(3))
  return dataclasses.replace(watch, chunk=max(1, min(training.steps_per_execution, int(pace / 2))))


def constant(batch: Any) -> tf.data.Dataset:
  return tf.data.Dataset.from_tensors(batch).repeat()


@dataclasses.dataclass
class Comparison:
  """One way's speed by another's.

  Attributes:
    ratios: of four turns each.
    steps_per_s: of the two ways, the median turn's.
  """

  ratios: list[float]
  steps_per_s: tuple[float, float]

  @property
  def median(self) -> float:
    return statistics.median(self.ratios)

  @property
  def interval(self) -> tuple[float, float]:
    """What holds the true median in 95 of 100 cases, by order statistics (the sign test)."""
    count, ordered = len(self.ratios), sorted(self.ratios)
    outside = 0
    while sum(math.comb(count, few) for few in range(outside + 1)) / 2**count <= 0.025:
      outside += 1
    edge = max(outside - 1, 0)
    return ordered[edge], ordered[-edge - 1]


def compare(one: Stopwatch, other: Stopwatch, *, seconds: float) -> Comparison:
  """The speed of `one` by that of `other`, in alternating turns."""
  ways = (one, other)
  turns: tuple[list[float], list[float]] = ([], [])
  ratios = []
  until = time.perf_counter() + seconds
  while time.perf_counter() < until or len(ratios) < LEAST_RATIOS:
    # Who goes first changes too.
    for way in (0, 1, 1, 0) if len(ratios) % 2 else (1, 0, 0, 1):
      turns[way].append(ways[way].seconds_a_step())
    ratios.append(sum(turns[1][-2:]) / sum(turns[0][-2:]))
  return Comparison(ratios, (1 / statistics.median(turns[0]), 1 / statistics.median(turns[1])))


def measure(net: Net, files: dict[str, list[str]], *, seconds: float) -> dict[str, Any]:
  """The real input against a constant batch; and the parts of a step."""
  feed = mixing.feed(net.mixture, files, trained_columns(net), batch_size=BATCH, seed=1, engine="memory")
  batch = next(iter(feed.dataset))
  still = start(net, SETTINGS, constant(batch))
  # The same loop, hence the same compiled function; the elements have the same shapes.
  real = dataclasses.replace(still, iterator=still.loop.iterate(feed.dataset))
  real.seconds_a_step()
  found = compare(real, still, seconds=seconds)
  return {
    "found": found,
    "cpu_share": input_cpu_share(still.loop, batch, feed.dataset, seconds=seconds / 8),
    "parts": parts(still.loop, batch, efficiency=found.median, seconds=seconds / 8),
    "batch": batch,
  }


def parts(loop: Loop, batch: Any, *, efficiency: float, seconds: float) -> dict[str, float]:
  """The share of a step's time, by measuring what a step is made of, cut off later and later."""

  def forward() -> Any:
    outputs = loop.model(batch[IMAGE], training=True)
    losses = net_losses(loop.net, batch, outputs)
    return tf.add_n([task.loss_weight * losses[task.name] for task in loop.net.tasks])

  def backward() -> Any:
    with tf.GradientTape() as tape:
      total = forward()
    gradients: Any = tape.gradient(total, loop.model.trainable_variables)
    return tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])

  def whole() -> Any:
    return loop._one_step(batch)

  times = [_seconds_a_call(part, seconds) for part in (forward, backward, whole)]
  waiting = max(0.0, times[2] / efficiency - times[2])
  all_of_it = times[2] + waiting
  return {
    "forward": times[0] / all_of_it,
    "backward": max(0.0, times[1] - times[0]) / all_of_it,
    "update": max(0.0, times[2] - times[1]) / all_of_it,
    "input": waiting / all_of_it,
  }


def _seconds_a_call(function: Callable[[], Any], seconds: float) -> float:
  """Of one execution; the best call of a compiled loop of a few."""

  @tf.function
  def repeated(times: tf.Tensor) -> tf.Tensor:
    summed = tf.constant(0.0)
    for _ in tf.range(times):
      summed += tf.reduce_sum(function())
    return summed

  few = tf.constant(4)
  repeated(few)
  best, until = math.inf, time.perf_counter() + seconds
  while time.perf_counter() < until or best == math.inf:
    begin = time.perf_counter()
    repeated(few).numpy()
    best = min(best, time.perf_counter() - begin)
  return best / 4


def input_cpu_share(loop: Loop, batch: Any, dataset: tf.data.Dataset, *, seconds: float) -> float:
  """Processor time of making a batch, by that of a whole step with the batch made."""

  @tf.function
  def draw(iterator: Any, count: tf.Tensor) -> tf.Tensor:
    summed = tf.constant(0, tf.int64)
    for _ in tf.range(count):
      summed += tf.size(next(iterator)[IMAGE], tf.int64)
    return summed

  made = iter(dataset)
  still = loop.iterate(constant(batch))
  making = _cpu_seconds(lambda: draw(made, tf.constant(64)), 64, seconds)
  step = _cpu_seconds(lambda: loop.advance(still, tf.constant(1, tf.int64)), 1, seconds)
  return making / (making + step)


def _cpu_seconds(call: Callable[[], Any], steps: int, seconds: float) -> float:
  """Processor time of all threads, a step."""
  call()
  calls, spent, until = 0, time.process_time(), time.perf_counter() + seconds
  while time.perf_counter() < until or not calls:
    call().numpy()
    calls += 1
  return (time.process_time() - spent) / (calls * steps)


def measure_settings(net: Net, batch: Any, *, seconds: float) -> dict[str, Comparison]:
  """Each variant against the settings as chosen, on one constant batch.

  Left out are numbers of steps a call that make no difference where a step takes half a second.
  """
  chosen = start(net, SETTINGS, constant(batch))
  found = {}
  for name, changed in VARIANTS.items():
    variant = start(net, dataclasses.replace(SETTINGS, **changed), constant(batch))
    if "steps_per_execution" not in changed or variant.chunk != chosen.chunk:
      found[name] = compare(variant, chosen, seconds=seconds)
  return found


def report(net: Net, found: Comparison) -> dict[str, Any]:
  """The figures of one net for the last line."""
  return {
    f"input_efficiency_{net.name}": round(found.median, 4),
    f"input_efficiency_interval_{net.name}": [round(edge, 4) for edge in found.interval],
    f"steps_per_s_{net.name}": round(found.steps_per_s[0], 2),
    f"constant_steps_per_s_{net.name}": round(found.steps_per_s[1], 2),
  }


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--seconds", type=float, default=60.0, help="a comparison's")
  parser.add_argument("--nets", nargs="+", default=[net.name for net in MTCNN.nets])
  parser.add_argument("--settings", action="store_true", help="also compare settings")
  options = parser.parse_args()
  line: dict[str, Any] = {}
  print(f"{devices.choose(SETTINGS).reason}; {os.cpu_count()} cores; {BATCH} examples a batch", flush=True)
  with tempfile.TemporaryDirectory() as folder:
    for net in (net for net in MTCNN.nets if net.name in options.nets):
      figures = measure(net, write_files(folder, net), seconds=options.seconds)
      found: Comparison = figures["found"]
      line |= report(net, found)
      line[f"input_cpu_share_{net.name}"] = round(figures["cpu_share"], 4)
      line[f"parts_{net.name}"] = {name: round(share, 3) for name, share in figures["parts"].items()}
      print(f"{net.name} ratios", *(f"{each:.3f}" for each in sorted(found.ratios)), flush=True)
      if options.settings:
        for name, each in measure_settings(net, figures["batch"], seconds=options.seconds / 3).items():
          low, high = each.interval
          print(f"  {name:16} x {each.median:.3f} ({low:.3f} to {high:.3f})", flush=True)
  print(json.dumps(line))


if __name__ == "__main__":
  main()
