import io
import itertools
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.examples import sharding
from taskmix.examples.sharding import BUCKET_BITS, BUCKETS
from taskmix.spec import Conversion

RECORDS = [b"", b"a", b"\x00" * 1000, bytes(range(256)) * 300]


def _file(compression: str) -> bytes:
  data = b"".join(sharding.frame(RECORDS))
  if compression == "none":
    return data
  deflater = sharding.Deflater()
  return deflater.compress(data[:500]) + deflater.compress(data[500:]) + deflater.flush()


@pytest.mark.parametrize(("compression", "tensorflow_name"), [("none", ""), ("gzip", "GZIP")])
def test_tensorflow_reads_our_files(tmp_path, compression, tensorflow_name):
  tf = pytest.importorskip("tensorflow")
  path = tmp_path / sharding.shard_name(0, 1, compression=compression)
  path.write_bytes(_file(compression))
  assert [record.numpy() for record in tf.data.TFRecordDataset(str(path), tensorflow_name)] == RECORDS


@pytest.mark.parametrize("tensorflow_name", ["", "GZIP"])
def test_we_read_what_tensorflow_wrote(tmp_path, tensorflow_name):
  tf = pytest.importorskip("tensorflow")
  path = tmp_path / "records"
  with tf.io.TFRecordWriter(str(path), tensorflow_name) as writer:
    for record in RECORDS:
      writer.write(record)
  with path.open("rb") as file:
    assert list(sharding.read_records(file)) == RECORDS
  if not tensorflow_name:
    assert path.read_bytes() == _file("none")


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_the_same_records_are_the_same_bytes(compression):
  assert _file(compression) == _file(compression)


def test_a_gzip_file_tells_no_time():
  assert struct.unpack("<I", _file("gzip")[4:8]) == (0,)


@pytest.mark.parametrize(
  ("damage", "problem"),
  [
    (lambda data: data[:-1], "x.tfrecord: cut off in record 3"),
    (lambda data: data[:20], "x.tfrecord: cut off in record 1"),
    (lambda data: b"\x01" + data[1:], "x.tfrecord: record 0 has a broken length; is it a TFRecord file?"),
    (lambda data: data[:40] + b"\x01" + data[41:], "x.tfrecord: record 2 "),
    (lambda data: data[:-50] + b"~" + data[-49:], "x.tfrecord: record 3 is damaged"),
  ],
)
def test_a_broken_file_is_named_with_the_record(damage, problem):
  with pytest.raises(ValueError, match=problem):
    list(sharding.read_records(io.BytesIO(damage(_file("none"))), "x.tfrecord"))


def test_names_are_those_that_tfx_reads():
  assert sharding.shard_name(3, 12, compression="none") == "data_tfrecord-00003-of-00012"
  assert sharding.shard_name(0, 1, compression="gzip") == "data_tfrecord-00000-of-00001.gz"
  assert sharding.split_folder("train-neg") == "Split-train-neg"


def test_a_count_or_a_size_says_how_many_shards():
  mib = 1 << 20
  assert sharding.shard_count(1000, 500 * mib, Conversion(shards=4)) == 4
  assert sharding.shard_count(1000, 500 * mib, Conversion(shard_mib=100)) == 5
  assert sharding.shard_count(1000, 500 * mib + 1, Conversion(shard_mib=100)) == 6
  assert sharding.shard_count(1000, 1, Conversion(shard_mib=100)) == 1


def test_never_a_shard_without_an_example_save_the_only_one():
  assert sharding.shard_count(3, 1 << 30, Conversion(shards=8)) == 3
  assert sharding.shard_count(0, 0, Conversion(shards=8)) == 1
  assert sharding.shard_count(0, 0, Conversion()) == 1


def test_bounds_worked_out_by_hand():
  histogram = np.zeros(BUCKETS, np.int64)
  histogram[[0, 10, 20, 30]] = 5
  # Two shards of ten: the edge lies after bucket 10 and at or before bucket 20.
  low, edge, high = sharding.shard_bounds(histogram, 2)
  assert (low, high) == (0, BUCKETS)
  assert 10 < edge <= 20


def test_shards_of_many_examples_are_nearly_equal():
  keys = sharding.example_keys(7, 200_000)
  histogram = sharding.bucket_histogram(keys)
  edges = sharding.shard_bounds(histogram, 16)
  counts = np.add.reduceat(histogram, edges[:-1])
  # 12,500 each, to within half of the fullest bucket at either end.
  assert counts.sum() == 200_000
  assert np.abs(counts - 12_500).max() <= histogram.max()
  assert counts.min() > 0.99 * 12_500


def test_histogram_counts_or_weighs():
  keys = np.array([0, 1 << (64 - BUCKET_BITS), (1 << 64) - 1, 5], np.uint64)
  histogram = sharding.bucket_histogram(keys)
  assert (histogram[0], histogram[1], histogram[-1], histogram.sum()) == (2, 1, 1, 4)
  weighed = sharding.bucket_histogram(keys, np.array([10, 20, 30, 40]))
  assert (weighed[0], weighed[1], weighed[-1]) == (50, 20, 30)


def test_keys_of_a_photo_differ_and_depend_on_its_hash():
  keys = sharding.example_keys(123, 10_000)
  assert len(np.unique(keys)) == 10_000
  np.testing.assert_array_equal(sharding.example_keys(123, 10), keys[:10])
  assert not np.isin(sharding.example_keys(124, 10), keys).any()
  # The first output of splitmix64 seeded with 0, as its authors' splitmix64.c prints it.
  assert int(sharding.example_keys(0, 1)[0]) == 0xE220A8397B1DCDAF


@settings(max_examples=200, deadline=None)
@given(
  st.lists(st.integers(0, (1 << 64) - 1), max_size=200),
  st.integers(1, 40),
)
def test_every_key_is_in_exactly_one_shard(keys, shards):
  keys = np.array(keys, np.uint64)
  edges = sharding.shard_bounds(sharding.bucket_histogram(keys), shards)
  assert len(edges) == shards + 1
  assert (edges[0], edges[-1]) == (0, BUCKETS)
  assert edges == sorted(edges)
  buckets = keys >> np.uint64(64 - BUCKET_BITS)
  homes = sum(((buckets >= low) & (buckets < high)).astype(int) for low, high in itertools.pairwise(edges))
  assert (homes == 1).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=300), st.integers(1, 20))
def test_shards_differ_by_no_more_than_the_fullest_bucket(fill, shards):
  histogram = np.zeros(BUCKETS, np.int64)
  histogram[: len(fill)] = fill
  edges = sharding.shard_bounds(histogram, shards)
  counts = [int(histogram[low:high].sum()) for low, high in itertools.pairwise(edges)]
  assert sum(counts) == sum(fill)
  assert max(abs(count - sum(fill) / shards) for count in counts) <= max(fill) + 1e-9
