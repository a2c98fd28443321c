"""Whether training ever waits for its input, and where a step's time goes.

    python -m benchmarks.train [--seconds 4] [--rounds 5] [--settings]

Each net of the cascade trains at 896 examples a batch, 3:1:1:2, by the compiled
loop of `taskmix.model`, on 28,000 examples that are made here: in turn with the
real input and with one constant batch, a few seconds each. Both ways run the
very same compiled step. The figure is the best call of all rounds, of either way,
since what else runs on a machine can only slow a way down. `--settings` also
measures jit_compile, steps_per_execution and precision on the constant batch.
A second figure hardly hangs on what else runs: the processor time that making a
batch takes, as a share of the processor time of a step.

The last line is a JSON object: input_efficiency_<net> (steps/s with the real input
by steps/s with the constant batch), steps/s of both, and the share of a step's
time that goes into forward, backward, update and waiting for the input.
"""

import argparse
import dataclasses
import json
import math
import os
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

SETTINGS = Training(batch_size=BATCH, steps=1_000_000, warmup_steps=0)
VARIANTS = {
  "as chosen": {},
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
  """Runs a loop for about some seconds at a time.

  Attributes:
    loop: the training loop.
    iterator: of its batches.
    chunk: steps a call.
  """

  loop: Loop
  iterator: Any
  chunk: int

  def steps_per_s(self, seconds: float) -> float:
    """The best call's, from the second on: batches made ahead in the other's turn are not free."""
    steps = tf.constant(self.chunk, tf.int64)
    self.loop.advance(self.iterator, steps).numpy()
    best, until = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < until or best == math.inf:
      begin = time.perf_counter()
      self.loop.advance(self.iterator, steps).numpy()
      best = min(best, time.perf_counter() - begin)
    return self.chunk / best


def start(net: Net, training: Training, dataset: tf.data.Dataset) -> Stopwatch:
  """A loop of its own over the dataset, compiled and warm."""
  loop = Loop(net, training, compute=devices.choose(training))
  watch = Stopwatch(loop, loop.iterate(dataset), 1)
  pace = watch.steps_per_s(0.5)
  # A call takes half a second at most, so that a turn is about as long as asked for.
  return dataclasses.replace(watch, chunk=max(1, min(training.steps_per_execution, int(pace / 2))))


def constant(batch: Any) -> tf.data.Dataset:
  return tf.data.Dataset.from_tensors(batch).repeat()


def measure(net: Net, files: dict[str, list[str]], *, seconds: float, rounds: int) -> dict[str, Any]:
  """Steps/s with the real input and with a constant batch, in turn; and the parts of a step."""
  feed = mixing.feed(net.mixture, files, trained_columns(net), batch_size=BATCH, seed=1, engine="memory")
  batch = next(iter(feed.dataset))
  still = start(net, SETTINGS, constant(batch))
  # The same loop, hence the same compiled function; the elements have the same shapes.
  real = dataclasses.replace(still, iterator=still.loop.iterate(feed.dataset))
  real.steps_per_s(0.5)
  speeds: dict[str, list[float]] = {"real": [], "constant": []}
  for number in range(rounds):
    # Who goes first changes, so that a drift of the machine favours neither.
    for name, watch in [("real", real), ("constant", still)][:: 1 if number % 2 else -1]:
      speeds[name].append(watch.steps_per_s(seconds))
  best = {name: max(values) for name, values in speeds.items()}
  efficiency = best["real"] / best["constant"]
  return {
    "efficiency": efficiency,
    "rounds": speeds,
    "steps_per_s": best,
    "cpu_share": input_cpu_share(still.loop, batch, feed.dataset, seconds=seconds),
    "parts": parts(still.loop, batch, efficiency=efficiency, seconds=seconds),
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


def measure_settings(net: Net, batch: Any, *, seconds: float, rounds: int) -> dict[str, float]:
  """Steps/s of each variant on one constant batch; the best of the rounds, in turn."""
  watches = {
    name: start(net, dataclasses.replace(SETTINGS, **changed), constant(batch))
    for name, changed in VARIANTS.items()
  }
  found: dict[str, list[float]] = {name: [] for name in watches}
  for _ in range(rounds):
    for name, watch in watches.items():
      found[name].append(watch.steps_per_s(seconds))
  return {name: max(values) for name, values in found.items()}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--seconds", type=float, default=4.0, help="a way's turn")
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--settings", action="store_true", help="also compare settings")
  options = parser.parse_args()
  line: dict[str, Any] = {}
  print(f"{devices.choose(SETTINGS).reason}; {os.cpu_count()} cores; {BATCH} examples a batch", flush=True)
  with tempfile.TemporaryDirectory() as folder:
    for net in MTCNN.nets:
      files = write_files(folder, net)
      found = measure(net, files, seconds=options.seconds, rounds=options.rounds)
      line[f"input_efficiency_{net.name}"] = round(found["efficiency"], 4)
      line[f"steps_per_s_{net.name}"] = round(found["steps_per_s"]["real"], 2)
      line[f"constant_steps_per_s_{net.name}"] = round(found["steps_per_s"]["constant"], 2)
      line[f"input_cpu_share_{net.name}"] = round(found["cpu_share"], 4)
      line[f"parts_{net.name}"] = {name: round(share, 3) for name, share in found["parts"].items()}
      for name, speeds in found["rounds"].items():
        print(f"{net.name} {name:8} steps/s by round", *(f"{each:.2f}" for each in speeds), flush=True)
      if options.settings:
        feed = mixing.feed(net.mixture, files, trained_columns(net), batch_size=BATCH, seed=1)
        batch = next(iter(feed.dataset))
        speeds = measure_settings(net, batch, seconds=options.seconds, rounds=options.rounds)
        for name, speed in speeds.items():
          print(f"  {name:16} {speed:8.2f} steps/s  {speed / speeds['as chosen']:.3f}", flush=True)
  print(json.dumps(line))


if __name__ == "__main__":
  main()
