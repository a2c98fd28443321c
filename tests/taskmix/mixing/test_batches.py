"""Batches from real files, through every engine, against the arithmetic alone."""

import dataclasses
import functools

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


def _files(folder, compression):
  """Three shards a kind, in order."""
  for kind, size in SIZES.items():
    for shard, numbers in enumerate(np.array_split(range(size), 3)):
      path = folder / f"{kind}-{shard}-of-3"
      _write(path, [_example(kind, int(number)) for number in numbers], compression)
  return {kind: [str(folder / f"{kind}-*")] for kind in SIZES}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  return _files(tmp_path_factory.mktemp("plain"), "")


def _batches(files, **options):
  mixture = options.pop("mixture", MIXTURE)
  options = {"batch_size": 12, "seed": 5, "steps": 30, "stream_window_mib": WINDOW_MIB, **options}
  return list(mixing.dataset(mixture, files, COLUMNS, **options).as_numpy_iterator())


@pytest.fixture(scope="module")
def whole(files):
  """whole(engine): its 30 batches of 12, made once; a dataset takes a second to make."""
  return functools.cache(lambda engine: _batches(files, engine=engine))


def _sampler(engine):
  """The arithmetic that the engine must follow."""
  sampler = Sampler.of(MIXTURE.counts(12), SIZES, seed=5)
  window = stream.window_steps(COLUMNS, 12, WINDOW_MIB)
  return WindowSampler(sampler, window) if engine == "stream" else sampler


@pytest.mark.parametrize("engine", EXACT)
def test_batches_are_the_samplers(whole, engine):
  sampler = _sampler(engine)
  for step, batch in enumerate(whole(engine)):
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
def test_start_step_equals_skipping(files, whole, engine):
  for start in (1, 17):
    rest = _batches(files, engine=engine, start_step=start, steps=30 - start)
    assert len(rest) == 30 - start
    for here, there in zip(whole(engine)[start:], rest, strict=True):
      np.testing.assert_equal(here, there)


# Which rows a slice has, for any batch and seed, is the sampler's: test_sampler.py.
@pytest.mark.parametrize(
  ("engine", "count"),
  [("memory", 2), ("memory", 3), ("memory", 7), ("device", 3), ("stream", 2), ("stream", 7)],
)
def test_workers_slices_join_to_the_batch(files, whole, count, engine):
  slices = [_batches(files, engine=engine, steps=12, worker=Worker(index, count)) for index in range(count)]
  for batch, *parts in zip(whole(engine)[:12], *slices, strict=True):
    for name, values in batch.items():
      np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values)


@pytest.mark.parametrize("engine", EXACT)
def test_gzip_shards_give_the_same_batches(whole, engine, tmp_path):
  packed = _files(tmp_path, "GZIP")
  unpacked = _batches(packed, engine=engine, steps=12, scratch=str(tmp_path / "scratch"))
  for here, there in zip(whole(engine)[:12], unpacked, strict=True):
    np.testing.assert_equal(here, there)


def test_gzip_shards_are_unpacked_once(tmp_path):
  packed, scratch = _files(tmp_path, "GZIP"), tmp_path / "scratch"
  options = {"engine": "stream", "steps": 2, "scratch": str(scratch)}
  _batches(packed, **options)
  times = {path: path.stat().st_mtime_ns for path in scratch.iterdir()}
  assert len(times) == 9
  _batches(packed, **options)
  assert {path: path.stat().st_mtime_ns for path in scratch.iterdir()} == times


def _when_short(kind, when_short):
  kinds = [
    dataclasses.replace(each, when_short=when_short) if each.name == kind else each for each in MIXTURE.kinds
  ]
  return Mixture(tuple(kinds))


@pytest.mark.parametrize("engine", EXACT)
def test_a_kind_that_stops_ends_the_data_before_a_batch_it_cannot_fill(files, engine):
  # 7 pos at 2 a batch fill 3 batches; neg would fill 8.
  for kind, start, left in (("pos", 0, 3), ("neg", 6, 2), ("neg", 99, 0)):
    batches = _batches(files, engine=engine, mixture=_when_short(kind, "stop"), steps=None, start_step=start)
    assert len(batches) == left


@pytest.mark.parametrize("engine", EXACT)
def test_a_kind_that_must_not_run_short_raises_in_its_place(files, engine):
  batches = mixing.dataset(
    _when_short("pos", "error"), files, COLUMNS, batch_size=12, seed=5, engine=engine
  ).as_numpy_iterator()
  for _ in range(3):
    next(batches)
  with pytest.raises(tf.errors.InvalidArgumentError, match="kind pos is used up after 3 steps of 2"):
    next(batches)


def test_steps_that_such_a_kind_cannot_fill_are_an_error_at_once(files):
  with pytest.raises(ValueError, match=r"kind pos is used up after 3 steps of 2 examples \(it has 7\)"):
    _batches(files, mixture=_when_short("pos", "error"), steps=4)
  assert len(_batches(files, mixture=_when_short("pos", "error"), steps=3)) == 3


def test_a_batch_size_that_cannot_hold_the_ratio_names_those_that_can(files):
  with pytest.raises(ValueError, match="use 12 or 18"):
    _batches(files, batch_size=13)


def test_auto_says_which_engine_it_takes_and_why(files):
  def fed(budget):
    options = {"batch_size": 12, "seed": 5, "memory_budget_mib": budget}
    return mixing.feed(MIXTURE, files, COLUMNS, **options)

  takes = "73 examples take 0.0 MiB as tensors"
  assert (fed(1).engine, fed(1).reason) == ("memory", f"{takes}, within the budget of 1 MiB")
  assert (fed(0).engine, fed(0).reason) == ("stream", f"{takes}, above the budget of 0 MiB")
  assert fed(1).sizes == SIZES


def test_an_unknown_engine_lists_the_known(files):
  with pytest.raises(ValueError, match="engine 'disk' is not one of auto, memory, stream, device, chance"):
    _batches(files, engine="disk")


@pytest.mark.parametrize("engine", EXACT)
def test_audit_finds_the_contract_kept(files, engine):
  audit = mixing.Audit()
  _batches(files, engine=engine, audit=audit, start_step=3, steps=97)
  audit.require(steps=100)
  report = audit.report(steps=100)["kinds"]
  assert {name: (kind["min"], kind["max"], kind["coverage"]) for name, kind in report.items()} == {
    "neg": (6, 6, 1.0),
    "pos": (2, 2, 1.0),
    "part": (4, 4, 1.0),
  }
  assert report["pos"]["epochs"] == round(97 * 2 / 7, 4)


def test_batches_have_static_shapes(files):
  for engine in EXACT:
    batches = mixing.dataset(MIXTURE, files, COLUMNS, batch_size=12, seed=5, engine=engine)
    shapes = {name: spec.shape.as_list() for name, spec in batches.element_spec.items()}
    assert shapes == {"image": [12, 2, 2, 3], "number": [12], "box": [12, 4], "kind": [12]}, engine


def test_device_engine_sends_steps_and_rows(files, whole):
  fed = mixing.feed(MIXTURE, files, COLUMNS, batch_size=12, seed=5, engine="device")
  assert fed.dataset.element_spec["rows"].dtype == tf.int32
  assert set(fed.dataset.element_spec) == {"step", "rows", "kind"}
  expand = tf.function(fed.expand, autograph=False)
  for element, batch in zip(fed.dataset.take(5), whole("memory")[:5], strict=True):
    for name, values in expand(element).items():
      np.testing.assert_array_equal(values, batch[name])


@pytest.mark.parametrize("engine", EXACT)
def test_augmentation_is_the_same_for_all_workers_and_engines(files, whole, engine):
  # Every augmentation by itself: test_augment.py.
  augment = mixing.Augmentation(("brightness",), seed=9)
  changed = _batches(files, engine=engine, augment=augment, steps=4)
  assert not np.array_equal(changed[0]["image"], whole(engine)[0]["image"])
  slices = [_batches(files, engine=engine, augment=augment, steps=4, worker=Worker(i, 2)) for i in range(2)]
  for batch, *parts in zip(changed, *slices, strict=True):
    np.testing.assert_array_equal(np.concatenate([part["image"] for part in parts]), batch["image"])


def test_chance_holds_the_ratio_on_average_only(files):
  counts = [
    np.sum(batch["kind"] == b"pos") for batch in _batches(files, engine="chance", batch_size=60, steps=60)
  ]
  assert len(set(counts)) > 3
  assert 8 < np.mean(counts) < 12


def test_chance_refuses_what_it_cannot_keep(files):
  with pytest.raises(ValueError, match="'pos' has when_short='stop'"):
    _batches(files, engine="chance", mixture=_when_short("pos", "stop"))
  with pytest.raises(ValueError, match="no contract that could be audited"):
    _batches(files, engine="chance", audit=mixing.Audit())
  with pytest.raises(ValueError, match="5 workers"):
    _batches(files, engine="chance", worker=Worker(0, 5))


def test_records_without_a_column_name_the_shard(files):
  columns = (*COLUMNS, Column("points", "float32", (10,)))
  with pytest.raises(mixing.ShardError, match=r"neg-0-of-3: .*points"):
    mixing.dataset(MIXTURE, files, columns, batch_size=12, seed=1, engine="memory")


def test_images_of_another_size_name_the_shard(files):
  columns = (Column("image", "uint8", (3, 3, 3)),)
  with pytest.raises(mixing.ShardError, match="neg-0-of-3"):
    mixing.dataset(MIXTURE, files, columns, batch_size=12, seed=1, engine="memory")
