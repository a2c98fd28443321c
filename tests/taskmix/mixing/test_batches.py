"""Batches from real files, through every engine, against the arithmetic alone."""

import numpy as np
import pytest
import tensorflow as tf

from taskmix import mixing
from taskmix.mixing import Sampler, Worker, stream
from taskmix.mixing.windows import WindowSampler
from taskmix.spec import Column, Mixture, SampleKind

EXACT = ("memory", "stream", "device")
WINDOW_MIB = 0.01  # 5 steps of 12 examples: several windows in a test
FIRST = {b"neg": 0, b"pos": 50, b"part": 57}
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
  options = {"batch_size": 12, "seed": 5, "steps": 30, "stream_window_mib": WINDOW_MIB, **options}
  return list(mixing.dataset(MIXTURE, files, COLUMNS, **options).as_numpy_iterator())


def _sampler(engine):
  """The arithmetic that the engine must follow."""
  sampler = Sampler.of(MIXTURE.counts(12), SIZES, seed=5)
  window = stream.window_steps(COLUMNS, 12, WINDOW_MIB)
  return WindowSampler(sampler, window) if engine == "stream" else sampler


@pytest.mark.parametrize("engine", EXACT)
def test_batches_are_the_samplers(files, engine):
  sampler = _sampler(engine)
  for step, batch in enumerate(_batches(files, engine=engine)):
    rows = [FIRST[kind] + number for kind, number in zip(batch["kind"], batch["number"], strict=True)]
    np.testing.assert_array_equal(rows, sampler.batch(step).row)
    np.testing.assert_array_equal(batch["image"][:, 1, 0, 2], batch["number"])
    np.testing.assert_array_equal(batch["box"][:, 0], batch["number"] + 0.5)


@pytest.mark.parametrize("engine", EXACT)
def test_each_example_comes_once_an_epoch_of_its_kind(files, engine):
  drawn = {kind: [] for kind in SIZES}
  for batch in _batches(files, engine=engine, steps=200):
    for kind, count in MIXTURE.counts(12).items():
      mine = batch["number"][batch["kind"] == kind.encode()]
      assert len(mine) == count
      drawn[kind] += mine.tolist()
  for kind, size in SIZES.items():
    counts = np.bincount(drawn[kind], minlength=size)
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("engine", EXACT)
def test_start_step_equals_skipping(files, engine):
  whole = _batches(files, engine=engine)
  for start in (0, 1, 17):
    rest = _batches(files, engine=engine, start_step=start, steps=30 - start)
    assert len(rest) == 30 - start
    for here, there in zip(whole[start:], rest, strict=True):
      np.testing.assert_equal(here, there)


@pytest.mark.parametrize("engine", EXACT)
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_workers_slices_join_to_the_batch(files, count, engine):
  slices = [_batches(files, engine=engine, worker=Worker(index, count)) for index in range(count)]
  for whole, *parts in zip(_batches(files, engine=engine), *slices, strict=True):
    for name, values in whole.items():
      np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values)
