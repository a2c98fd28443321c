"""How fast batches come: the common recipe, mixing by chance, and our engines.

    python -m benchmarks.input [--seconds 3] [--rounds 3] [--sides 12 24 48]

In one process, on data that it makes from the embedded photos: 70,000 crops of
four kinds, 30,000:10,000:10,000:20,000, once as JPEG records for the common recipe
and once as raw uint8 records for the other ways. Every way gives the same columns
at 896 examples a batch, 3:1:1:2, and is iterated by the same compiled loop.
Ways take turns, a few seconds each; the figure is the best of the rounds, of every way,
since what else runs on a machine can only slow a way down.

At 24 px it also measures the orders of tf.data's steps on one stream of raw records,
which docs/mixing.md speaks of.

The last line is a JSON object: examples/s of each way, and ratios to the common
recipe; of the orders, to the one that parses each record first.
"""

import argparse
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator

import cv2
import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from taskmix import mixing
from taskmix.spec import Column, Mixture, SampleKind

SIZES = {"neg": 30_000, "pos": 10_000, "part": 10_000, "landmark": 20_000}
MIXTURE = Mixture(
  (SampleKind("neg", 3), SampleKind("pos", 1), SampleKind("part", 1), SampleKind("landmark", 2))
)
BATCH = 896
SHARDS = 4
PHOTOS = pathlib.Path(__file__).parent.parent / "demo"
SHUFFLE = 16_384
# Batches a call of the loop: many where they come fast, so that the call's own cost does not count.
STEPS = {"memory": 64, "stream": 16}
# The orders of steps are compared at this side alone: they all read the same records.
ORDERS_SIDE = 24

Files = dict[str, list[str]]


def columns(side: int) -> tuple[Column, ...]:
  return (
    Column("image", "uint8", (side, side, 3)),
    Column("face", "int64"),
    Column("box_offsets", "float32", (4,)),
    Column("landmarks", "float32", (10,)),
  )


def make_crops(side: int, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
  """`count` random squares of the embedded photos, uint8 [side, side, 3] RGB."""
  photos = [cv2.imread(str(path)) for path in sorted(PHOTOS.rglob("*.jpg"))]
  for number in range(count):
    photo = photos[number % len(photos)]
    size = int(rng.integers(side, min(photo.shape[:2]) // 2))
    top, left = (int(rng.integers(0, length - size)) for length in photo.shape[:2])
    crop = photo[top : top + size, left : left + size]
    yield cv2.resize(crop, (side, side), interpolation=cv2.INTER_AREA)[..., ::-1]


def write_files(folder: str, side: int) -> tuple[Files, Files]:
  """(JPEG files, raw files) of every kind, the same crops in both."""
  rng = np.random.default_rng(side)
  jpeg: Files = {}
  raw: Files = {}
  for kind, size in SIZES.items():
    crops = make_crops(side, size, rng)
    names = [[f"{folder}/{side}-{form}-{kind}-{s}" for s in range(SHARDS)] for form in ("jpeg", "raw")]
    jpeg[kind], raw[kind] = names
    for shard in range(SHARDS):
      with tf.io.TFRecordWriter(names[0][shard]) as as_jpeg, tf.io.TFRecordWriter(names[1][shard]) as as_raw:
        for _ in range(size // SHARDS):
          crop, targets = next(crops), rng.normal(size=14).astype(np.float32)
          as_jpeg.write(example(cv2.imencode(".jpg", crop[..., ::-1])[1].tobytes(), targets))
          as_raw.write(example(crop.tobytes(), targets))
  return jpeg, raw


def example(image: bytes, targets: np.ndarray) -> bytes:
  features = {
    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
    "face": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(targets[0] > 0)])),
    "box_offsets": tf.train.Feature(float_list=tf.train.FloatList(value=targets[:4])),
    "landmarks": tf.train.Feature(float_list=tf.train.FloatList(value=targets[4:])),
  }
  return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


SPEC = {
  "image": tf.io.FixedLenFeature((), tf.string),
  "face": tf.io.FixedLenFeature((), tf.int64),
  "box_offsets": tf.io.FixedLenFeature((4,), tf.float32),
  "landmarks": tf.io.FixedLenFeature((10,), tf.float32),
}


def decoded(jpeg: Files, kind: str, side: int) -> tf.data.Dataset:
  """A kind's examples, parsed and decoded one by one, endless, through a shuffle buffer."""

  def decode(record):
    parsed = tf.io.parse_single_example(record, SPEC)
    image = tf.io.decode_jpeg(parsed["image"], channels=3)
    return {**parsed, "image": tf.reshape(image, (side, side, 3))}

  read = tf.data.TFRecordDataset(jpeg[kind]).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
  return read.repeat().shuffle(SHUFFLE)


def common_recipe(jpeg: Files, side: int) -> tf.data.Dataset:
  """What scripts do: batch each source, zip, concatenate."""

  def concatenate(*batches):
    return {name: tf.concat([batch[name] for batch in batches], 0) for name in SPEC}

  counts = MIXTURE.counts(BATCH)
  sources = [decoded(jpeg, kind, side).batch(count) for kind, count in counts.items()]
  return tf.data.Dataset.zip(tuple(sources)).map(concatenate).prefetch(tf.data.AUTOTUNE)


def chance_recipe(jpeg: Files, side: int) -> tf.data.Dataset:
  """sample_from_datasets over the same sources: the ratio on average."""
  sources = [decoded(jpeg, kind, side) for kind in SIZES]
  weights = [kind.share / MIXTURE.total_share for kind in MIXTURE.kinds]
  mixed = tf.data.Dataset.sample_from_datasets(sources, weights, seed=1)
  return mixed.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def ways(jpeg: Files, raw: Files, side: int) -> dict[str, tf.data.Dataset]:
  def ours(engine: mixing.Engine) -> tf.data.Dataset:
    return mixing.dataset(MIXTURE, raw, columns(side), batch_size=BATCH, seed=1, engine=engine)

  return {
    "common": common_recipe(jpeg, side),
    "sample_from_datasets": chance_recipe(jpeg, side),
    "memory": ours("memory"),
    "stream": ours("stream"),
  }


def orders(raw: Files, side: int) -> dict[str, tf.data.Dataset]:
  """The same steps over the same records, in the orders that one meets."""
  auto = tf.data.AUTOTUNE

  def shaped(parsed, images):
    return {**parsed, "image": images}

  def parse_one(record):
    parsed = tf.io.parse_single_example(record, SPEC)
    return shaped(parsed, tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), (side, side, 3)))

  def parse_batch(records):
    parsed = tf.io.parse_example(records, SPEC)
    return shaped(parsed, tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), (BATCH, side, side, 3)))

  def read() -> tf.data.Dataset:
    return tf.data.TFRecordDataset([name for names in raw.values() for name in names]).repeat()

  def batched(records: tf.data.Dataset) -> tf.data.Dataset:
    return records.batch(BATCH, drop_remainder=True)

  return {
    "parse_shuffle_batch": batched(read().map(parse_one, auto).shuffle(SHUFFLE)).prefetch(auto),
    "shuffle_parse_batch": batched(read().shuffle(SHUFFLE).map(parse_one, auto)).prefetch(auto),
    "shuffle_batch_parse": batched(read().shuffle(SHUFFLE)).map(parse_batch, auto).prefetch(auto),
  }


@tf.function
def take(iterator: Iterator, count: tf.Tensor) -> tf.Tensor:
  """Takes `count` batches in a compiled loop, as Keras does with steps_per_execution."""
  seen = tf.constant(0, tf.int64)
  for _ in tf.range(count):
    seen += tf.reduce_sum(next(iterator)["face"])
  return seen


def rate(iterator: Iterator, seconds: float, steps: int) -> float:
  """Examples/s over about `seconds`, `steps` batches a call."""
  count, start = 0, time.perf_counter()
  while (spent := time.perf_counter() - start) < seconds or not count:
    take(iterator, tf.constant(steps))
    count += steps
  return count * BATCH / spent


def measure(side: int, *, seconds: float, rounds: int) -> dict[str, float]:
  """Way -> best examples/s; each way rests while another has its turn."""
  with tempfile.TemporaryDirectory() as folder:
    jpeg, raw = write_files(folder, side)
    datasets = ways(jpeg, raw, side) | (orders(raw, side) if side == ORDERS_SIDE else {})
    rates: dict[str, list[float]] = {name: [] for name in datasets}
    for _ in range(rounds):
      for name, dataset in datasets.items():
        # A fresh iterator each turn, so that no other way's threads fill its buffers meanwhile.
        iterator = iter(dataset)
        steps = STEPS.get(name, 2)
        rate(iterator, seconds / 2, steps)
        rates[name].append(rate(iterator, seconds, steps))
        del iterator
  return {name: max(values) for name, values in rates.items()}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--seconds", type=float, default=3.0, help="of each turn")
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--sides", type=int, nargs="+", default=[12, 24, 48])
  options = parser.parse_args()
  result: dict[str, float] = {"cores": os.cpu_count() or 0, "batch_size": BATCH}
  for side in options.sides:
    rates = measure(side, seconds=options.seconds, rounds=options.rounds)
    result |= {f"{name}_{side}": round(value) for name, value in rates.items()}
    for name in ("sample_from_datasets", "memory", "stream"):
      result[f"{name}_ratio_{side}"] = round(rates[name] / rates["common"], 2)
    for name in ("shuffle_parse_batch", "shuffle_batch_parse"):
      if name in rates:
        result[f"{name}_ratio_{side}"] = round(rates[name] / rates["parse_shuffle_batch"], 2)
    print(side, {name: f"{value:,.0f}/s" for name, value in rates.items()}, flush=True)
  print(json.dumps(result))


if __name__ == "__main__":
  main()
