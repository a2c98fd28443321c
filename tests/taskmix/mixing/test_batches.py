"""Batches from real files, through every engine, against the arithmetic alone."""

import numpy as np
import pytest
import tensorflow as tf

from taskmix import mixing
from taskmix.mixing import Sampler, Worker
from taskmix.spec import Column, Mixture, SampleKind

SIZES = {"neg": 50, "pos": 7, "part": 16}
MIXTURE = Mixture((SampleKind("neg", 3), SampleKind("pos", 1), SampleKind("part", 2)))
COLUMNS = (
  Column("image", "uint8", (2, 2, 3)),
  Column("number", "int64"),
  Column("box", "float32", (4,)),
  Column("kind", "string"),
)


def _feature(value):
  if isinstance(value, bytes):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
  if isinstance(value, int):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
  return tf.train.Feature(float_list=tf.train.FloatList(value=value))


def _example(kind: str, number: int) -> bytes:
  """Example `number` of a kind: its pixels, number and box all tell which one it is."""
  features = {
    "image": bytes([number] * 12),
    "number": number,
    "box": [number + 0.5, 1.0, 2.0, 3.0],
    "kind": kind.encode(),
  }
  return tf.train.Example(
    features=tf.train.Features(feature={name: _feature(value) for name, value in features.items()})
  ).SerializeToString()


def _write(path, examples, compression=""):
  with tf.io.TFRecordWriter(str(path), compression) as writer:
    for example in examples:
      writer.write(example)


@pytest.fixture(scope="module", params=["", "GZIP"])
def files(request, tmp_path_factory):
  """Three shards a kind, in order."""
  folder = tmp_path_factory.mktemp("shards")
  for kind, size in SIZES.items():
    for shard, numbers in enumerate(np.array_split(range(size), 3)):
      path = folder / f"{kind}-{shard}-of-3"
      _write(path, [_example(kind, int(number)) for number in numbers], request.param)
  return {kind: [str(folder / f"{kind}-*")] for kind in SIZES}


def _batches(files, **options):
  options = {"batch_size": 12, "seed": 5, "steps": 30, **options}
  return list(mixing.dataset(MIXTURE, files, COLUMNS, **options).as_numpy_iterator())


def test_memory_batches_are_the_samplers(files):
  sampler = Sampler.of(MIXTURE.counts(12), SIZES, seed=5)
  first = {"neg": 0, "pos": 50, "part": 57}
  for step, batch in enumerate(_batches(files, engine="memory")):
    rows = [
      first[kind.decode()] + number for kind, number in zip(batch["kind"], batch["number"], strict=True)
    ]
    np.testing.assert_array_equal(rows, sampler.batch(step).row)
    np.testing.assert_array_equal(
      batch["image"], np.full((12, 2, 2, 3), batch["number"][:, None, None, None])
    )
    np.testing.assert_array_equal(batch["box"][:, 0], batch["number"] + 0.5)


def test_start_step_equals_skipping(files):
  whole = _batches(files)
  for start in (0, 1, 17):
    rest = _batches(files, start_step=start, steps=30 - start)
    assert len(rest) == 30 - start
    for here, there in zip(whole[start:], rest, strict=True):
      np.testing.assert_equal(here, there)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_workers_slices_join_to_the_batch(files, count):
  slices = [_batches(files, worker=Worker(index, count)) for index in range(count)]
  for whole, *parts in zip(_batches(files), *slices, strict=True):
    for name, values in whole.items():
      np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values)
