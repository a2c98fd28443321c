"""Python preprocessing in parallel: our processes, tf.py_function, keras PyDataset.

    python -m benchmarks.python_map [--seconds 4] [--rounds 5] [--workers 2]

The function is what no graph can trace: it reads a dictionary, paints its boxes into
a picture with Python loops, and gives a dictionary back. All its time is the
interpreter's. Every way makes the same samples from the same rows, in order, 32 a
batch, and is iterated in the same process, in turns; the figure is the median of the
rounds' ratios, since neighbouring turns share what else runs on the machine.

    processes    taskmix.mixing.python_map(batch=32) through Dataset.from_generator
    py_function  Dataset.map(tf.py_function, num_parallel_calls=workers)
    pydataset    keras PyDataset(workers=workers), threads: Keras' default
    pydataset_processes  the same with use_multiprocessing=True

The last line is a JSON object: samples/s of each way, and ratio_<way>: how many times
as fast ours is.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

SIDE = 64
BATCH = 32
ROWS = 1 << 20  # more than any turn takes


def row(number: int) -> dict[str, Any]:
  """A sample's description, as a JSON line would have it."""
  boxes = [
    {"x": 7 * (number + place) % 40, "y": 11 * (number + 2 * place) % 40, "side": 12 + place % 8}
    for place in range(24)
  ]
  return {"number": number, "boxes": boxes, "label": number % 10}


def paint(description: dict[str, Any]) -> dict[str, Any]:
  """The picture of the boxes and the label; about a millisecond of plain Python."""
  cells = [[0] * SIDE for _ in range(SIDE)]
  for shade, box in enumerate(description["boxes"], 1):
    for y in range(box["y"], box["y"] + box["side"]):
      line = cells[y]
      for x in range(box["x"], box["x"] + box["side"]):
        line[x] = (line[x] * 3 + shade * 17 + x * y) % 256
  image = np.array(cells, np.uint8)[..., None].repeat(3, axis=2)
  return {"image": image, "label": description["label"]}


def processes(workers: int) -> Iterator[np.ndarray]:
  import tensorflow as tf

  from taskmix import mixing

  signature = {
    "image": tf.TensorSpec((None, SIDE, SIDE, 3), tf.uint8),
    "label": tf.TensorSpec((None,), tf.int64),
  }

  def made() -> Iterator[Any]:
    return mixing.python_map(paint, map(row, range(ROWS)), workers, batch=BATCH)

  dataset: Any = tf.data.Dataset.from_generator(made, output_signature=signature)
  return (batch["label"].numpy() for batch in dataset.prefetch(2))


def py_function(workers: int) -> Iterator[np.ndarray]:
  import tensorflow as tf

  def made(number: Any) -> tuple[Any, Any]:
    painted = paint(row(int(number)))
    return painted["image"], painted["label"]

  def traced(number: Any) -> dict[str, Any]:
    image, label = tf.py_function(made, [number], [tf.uint8, tf.int64])
    return {"image": tf.ensure_shape(image, (SIDE, SIDE, 3)), "label": tf.ensure_shape(label, ())}

  dataset = tf.data.Dataset.range(ROWS).map(traced, num_parallel_calls=workers, deterministic=True)
  return (batch["label"].numpy() for batch in dataset.batch(BATCH).prefetch(2))


def pydataset(workers: int, *, multiprocessing: bool = False) -> Iterator[np.ndarray]:
  from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

  adapter = PyDatasetAdapter(painted_dataset(workers, multiprocessing=multiprocessing), shuffle=False)
  adapter.on_epoch_begin()
  try:
    for _, labels in adapter.get_tf_dataset():
      yield labels.numpy()
  finally:
    adapter.on_epoch_end()


def painted_dataset(workers: int, *, multiprocessing: bool) -> Any:
  import keras

  class Painted(keras.utils.PyDataset):
    def __len__(self) -> int:
      return ROWS // BATCH

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
      painted = [paint(row(number)) for number in range(index * BATCH, (index + 1) * BATCH)]
      return np.stack([one["image"] for one in painted]), np.array([one["label"] for one in painted])

  return Painted(workers=workers, use_multiprocessing=multiprocessing, max_queue_size=2 * workers)


def rate(batches: Iterator[np.ndarray], seconds: float) -> float:
  """Samples/s over about `seconds`."""
  count, begin = 0, time.perf_counter()
  while (spent := time.perf_counter() - begin) < seconds:
    count += len(next(batches))
  return count / spent


def measure(
  ways: dict[str, Callable[[], Iterator]], *, seconds: float, rounds: int
) -> dict[str, list[float]]:
  """Samples/s of each way, a figure a round; each turn begins anew, and warm when the clock starts."""
  rates: dict[str, list[float]] = {name: [] for name in ways}
  for number in range(rounds):
    for name, way in list(ways.items())[:: 1 if number % 2 else -1]:
      batches = way()
      # What starting costs, and what is made ahead, is in no figure.
      rate(batches, seconds / 2)
      rates[name].append(rate(batches, seconds))
      batches.close()  # type: ignore[attr-defined]
  return rates


def check(ways: dict[str, Callable[[], Iterator]]) -> None:
  """Every way gives the same labels in the same order."""
  for name, way in ways.items():
    batches = way()
    got = np.concatenate([next(batches) for _ in range(8)])
    if not np.array_equal(got, np.arange(8 * BATCH) % 10):
      raise AssertionError(f"{name} gives other samples, or another order")
    batches.close()  # type: ignore[attr-defined]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
  options = parser.parse_args()
  workers = options.workers
  ways: dict[str, Callable[[], Iterator]] = {
    "processes": lambda: processes(workers),
    "py_function": lambda: py_function(workers),
    "pydataset": lambda: pydataset(workers),
    "pydataset_processes": lambda: pydataset(workers, multiprocessing=True),
  }
  check(ways)
  rates = measure(ways, seconds=options.seconds, rounds=options.rounds)
  line: dict[str, float] = {"cores": os.cpu_count() or 0, "workers": workers}
  for name, figures in rates.items():
    line[name] = round(statistics.median(figures), 1)
  for name in list(ways)[1:]:
    ratios = [ours / other for ours, other in zip(rates["processes"], rates[name], strict=True)]
    line[f"ratio_{name}"] = round(statistics.median(ratios), 3)
    print(f"ratios to {name}", *(f"{each:.2f}" for each in ratios), flush=True)
  print(json.dumps(line))


if __name__ == "__main__":
  main()
