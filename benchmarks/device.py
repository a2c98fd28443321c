"""Batches gathered on the accelerator, against batches gathered on the host and sent over.

    KERAS_BACKEND=jax python -m benchmarks.device [--sides 12 24 48] [--seconds 2]

Needs JAX alone: no TensorFlow, no files. The rows come from `taskmix.mixing.sampler`,
whose arithmetic is NumPy, for 70,000 examples of four kinds at 896 a batch, 3:1:1:2:

  host    NumPy gathers the batch, the device receives it (the memory engine's way)
  rows    the device receives rows computed on the host, and gathers (the device engine)
  steps   the device receives nothing but a step: it computes the rows and gathers

Each way ends on the device with the batch as float32 (x - 127.5) / 128 reduced to one
number, so that nothing can be left out. The last line is a JSON object: examples/s, and
ratios of the device's ways to the host's.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
import numpy as np

from taskmix.mixing import permutation
from taskmix.mixing.sampler import BlockRows, Sampler

COUNTS = {"neg": 384, "pos": 128, "part": 128, "landmark": 256}
SIZES = {"neg": 30_000, "pos": 10_000, "part": 10_000, "landmark": 20_000}
BATCH = sum(COUNTS.values())
TARGETS = 16  # words of labels beside the pixels

Way = Callable[[int], jax.Array]


def make_data(side: int) -> tuple[np.ndarray, np.ndarray]:
  """(uint8 [70000, side * side * 3], float32 [70000, 16])."""
  rng = np.random.default_rng(side)
  count = sum(SIZES.values())
  return (
    rng.integers(0, 256, (count, side * side * 3), dtype=np.uint8),
    rng.normal(size=(count, TARGETS)).astype(np.float32),
  )


@jax.jit
def consume(pixels: jax.Array, targets: jax.Array) -> jax.Array:
  """One number that needs every value of the batch."""
  return jnp.sum((pixels.astype(jnp.float32) - 127.5) / 128) + jnp.sum(targets)


def host_way(sampler: Sampler, data: tuple[np.ndarray, np.ndarray]) -> Way:
  rows_of = host_rows(sampler)

  def batch(step: int) -> jax.Array:
    rows = rows_of(step)
    return consume(*(jax.device_put(column[rows]) for column in data))

  return batch


def rows_way(sampler: Sampler, data: tuple[np.ndarray, np.ndarray]) -> Way:
  rows_of = host_rows(sampler)
  held = tuple(jax.device_put(column) for column in data)

  @jax.jit
  def gather(rows: jax.Array, pixels: jax.Array, targets: jax.Array) -> jax.Array:
    return consume(pixels[rows], targets[rows])

  return lambda step: gather(jax.device_put(rows_of(step)), *held)


def steps_way(sampler: Sampler, data: tuple[np.ndarray, np.ndarray]) -> Way:
  """A block of steps a call: the loop, the rows and the gathers are one compiled program."""
  held = tuple(jax.device_put(column) for column in data)
  tables = BlockRows(sampler, jnp.asarray)

  @jax.jit
  def block(epoch: jax.Array, place: jax.Array, pixels: jax.Array, targets: jax.Array) -> jax.Array:
    rows = device_rows(tables, epoch, place).reshape(sampler.block_steps, sampler.batch_size)
    one = lambda total, rows: (total + consume(pixels[rows], targets[rows]), None)  # noqa: E731
    return jax.lax.scan(one, jnp.float32(0), rows)[0]

  def batch(step: int) -> jax.Array:
    return block(*tables.start(step // sampler.block_steps), *held)

  return batch


def host_rows(sampler: Sampler) -> Callable[[int], np.ndarray]:
  """Step -> int32 [batch]; a block is computed when its first step is asked for."""
  block: dict[int, np.ndarray] = {}

  def rows(step: int) -> np.ndarray:
    number, offset = divmod(step, sampler.block_steps)
    if number not in block:
      block.clear()
      block[number] = sampler.block(number).row.astype(np.int32)
    return block[number][offset]

  return rows


def device_rows(tables: BlockRows, epoch: jax.Array, place: jax.Array) -> jax.Array:
  """int32 [block_steps * batch]: the sampler's arithmetic, cycle walking included, in JAX."""
  slots, key = tables.place(epoch, place, xp=jnp)

  def walk(slots: jax.Array) -> jax.Array:
    again = permutation.encrypt(slots, tables.first, tables.second, key, xp=jnp)
    return jnp.where(slots >= tables.size, again, slots)

  slots = jax.lax.while_loop(lambda slots: jnp.any(slots >= tables.size), walk, slots)
  return tables.base.astype(jnp.int32) + slots.astype(jnp.int32)


def rate(way: Way, steps: Iterator[int], seconds: float, batches: int) -> float:
  """Examples/s; `batches` a call. Calls are queued, as a training loop does, and awaited at the end."""
  count, start, last = 0, time.perf_counter(), None
  while time.perf_counter() - start < seconds:
    for _ in range(16):
      last = way(next(steps))
      count += batches
    jax.block_until_ready(last)
  return count * BATCH / (time.perf_counter() - start)


def check_rows(sampler: Sampler) -> None:
  """The device's rows are the host's."""
  tables = BlockRows(sampler, jnp.asarray)
  for number in (0, 7, 10**6):
    rows = np.asarray(device_rows(tables, *(jnp.asarray(value) for value in tables.start(number))))
    np.testing.assert_array_equal(rows, sampler.block(number).row.ravel())


def measure(side: int, *, seconds: float, rounds: int) -> dict[str, float]:
  sampler = Sampler.of(COUNTS, SIZES, seed=1)
  check_rows(sampler)
  data = make_data(side)
  ways = {
    "host": (host_way(sampler, data), 1),
    "rows": (rows_way(sampler, data), 1),
    "steps": (steps_way(sampler, data), sampler.block_steps),
  }
  rates: dict[str, list[float]] = {name: [] for name in ways}
  for _ in range(rounds):
    for name, (way, batches) in ways.items():
      steps = iter(range(0, 10**12, batches))
      rate(way, steps, seconds / 4, batches)
      rates[name].append(rate(way, steps, seconds, batches))
  return {name: statistics.median(values) for name, values in rates.items()}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--sides", type=int, nargs="+", default=[12, 24, 48])
  parser.add_argument("--seconds", type=float, default=2.0, help="of each turn")
  parser.add_argument("--rounds", type=int, default=3)
  options = parser.parse_args()
  result: dict[str, float | str] = {"device": str(jax.devices()[0].device_kind), "batch_size": BATCH}
  for side in options.sides:
    rates = measure(side, seconds=options.seconds, rounds=options.rounds)
    result |= {f"{name}_{side}": round(value) for name, value in rates.items()}
    result |= {f"{name}_ratio_{side}": round(rates[name] / rates["host"], 2) for name in ("rows", "steps")}
    print(side, {name: f"{value:,.0f}/s" for name, value in rates.items()}, flush=True)
  print(json.dumps(result))


if __name__ == "__main__":
  main()
