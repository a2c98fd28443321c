"""Bad shards are named before step 1."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf

from taskmix.mixing import shards
from taskmix.mixing.shards import Expected, ShardError


def _write(path, count, compression=""):
  with tf.io.TFRecordWriter(str(path), compression) as writer:
    for number in range(count):
      writer.write(bytes(10 + number))
  return str(path)


def test_scan_counts_records_and_their_bytes(tmp_path):
  for compression in ("", "GZIP"):
    shard = shards.scan(_write(tmp_path / f"a{compression}", 3, compression))
    assert shard.compression == compression
    np.testing.assert_array_equal(shard.lengths, (10, 11, 12))


def test_patterns_and_names_are_found_in_order(tmp_path):
  names = [_write(tmp_path / name, 1) for name in ("neg-2", "neg-1", "pos-1")]
  found = shards.find({"neg": [str(tmp_path / "neg-*"), names[0]], "pos": names[2]}, kinds=["neg", "pos"])
  assert found == {"neg": (names[1], names[0]), "pos": (names[2],)}


def test_a_name_with_pattern_characters_is_found(tmp_path):
  name = _write(tmp_path / "neg[1]", 1)
  assert shards.find({"neg": [name]}, kinds=["neg"]) == {"neg": (name,)}


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(ShardError, match=r"kind 'neg': no file matches '.*/neg-7'"):
    shards.preflight({"neg": [str(tmp_path / "neg-7")]})


def test_a_kind_without_files_is_named(tmp_path):
  with pytest.raises(ShardError, match="no files for kind pos; files were given for neg"):
    shards.preflight({"neg": [_write(tmp_path / "a", 1)]}, kinds=["neg", "pos"])


def test_an_empty_shard_is_named(tmp_path):
  _write(tmp_path / "neg-1", 3)
  _write(tmp_path / "neg-2", 0)
  with pytest.raises(ShardError, match=r"neg-2: an empty shard"):
    shards.preflight({"neg": [str(tmp_path / "neg-*")]})


def test_an_empty_shard_that_the_manifest_knows_is_fine(tmp_path):
  _write(tmp_path / "neg-1", 3)
  _write(tmp_path / "neg-2", 0)
  found = shards.preflight({"neg": [str(tmp_path / "neg-*")]}, manifest={"neg-2": Expected(records=0)})
  assert [shard.records for shard in found["neg"]] == [3, 0]


def test_a_kind_of_empty_shards_alone_is_an_error(tmp_path):
  _write(tmp_path / "neg-1", 0)
  with pytest.raises(ShardError, match="kind 'neg' has no examples"):
    shards.preflight({"neg": [str(tmp_path / "neg-*")]}, manifest={"neg-1": Expected(records=0)})


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_shard_that_is_cut_off_is_named(tmp_path, compression, cut):
  path = tmp_path / "neg-1"
  _write(path, 50, compression)
  path.write_bytes(path.read_bytes()[:-cut])
  with pytest.raises(ShardError, match="neg-1: cut off or corrupted"):
    shards.preflight({"neg": [str(path)]})


@pytest.mark.parametrize("at", [3, 9, 14, 40])
def test_a_changed_byte_is_found_and_the_shard_named(tmp_path, at):
  path = tmp_path / "neg-1"
  _write(path, 5)
  data = bytearray(path.read_bytes())
  data[at] ^= 1
  path.write_bytes(data)
  with pytest.raises(ShardError, match="neg-1: cut off or corrupted"):
    shards.preflight({"neg": [str(path)]})


def test_a_changed_byte_in_a_gzip_shard_is_found(tmp_path):
  path = tmp_path / "neg-1"
  _write(path, 50, "GZIP")
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 0xFF
  path.write_bytes(data)
  with pytest.raises(ShardError, match="neg-1"):
    shards.preflight({"neg": [str(path)]})


def test_a_file_of_something_else_is_named(tmp_path):
  (tmp_path / "neg-1").write_text("image,x1,y1,x2,y2\n" * 10)
  with pytest.raises(ShardError, match="neg-1: cut off or corrupted"):
    shards.preflight({"neg": [str(tmp_path / "neg-1")]})


def test_all_bad_shards_are_named_at_once(tmp_path):
  for number in range(3):
    (tmp_path / f"neg-{number}").write_bytes(b"nothing that is a record at all")
  with pytest.raises(ShardError, match=r"(?s)neg-0.*neg-1.*neg-2"):
    shards.preflight({"neg": [str(tmp_path / "neg-*")]})


def test_counts_sizes_and_checksums_are_held_against_the_manifest(tmp_path):
  path = _write(tmp_path / "neg-1", 3)
  data = (tmp_path / "neg-1").read_bytes()
  good = Expected(3, len(data), hashlib.sha256(data).hexdigest())
  assert shards.preflight({"neg": [path]}, manifest={path: good})["neg"][0].records == 3
  for bad, message in (
    (Expected(records=4), "3 records, but the manifest says 4"),
    (Expected(bytes=7), f"{len(data)} bytes, but the manifest says 7"),
    (Expected(sha256="0" * 64), "SHA-256 differs"),
  ):
    with pytest.raises(ShardError, match=f"neg-1: .*{message}"):
      shards.preflight({"neg": [path]}, manifest={path: bad})


def test_the_manifest_may_name_shards_from_their_folder_on(tmp_path):
  (tmp_path / "Split-train-neg").mkdir()
  path = _write(tmp_path / "Split-train-neg" / "data-0", 3)
  with pytest.raises(ShardError, match="3 records, but the manifest says 4"):
    shards.preflight({"neg": [path]}, manifest={"Split-train-neg/data-0": Expected(records=4)})


def test_a_shard_of_the_manifest_that_is_gone_is_named(tmp_path):
  _write(tmp_path / "neg-1", 3)
  manifest = {f"{tmp_path.name}/neg-{number}": Expected(records=3) for number in (1, 2)}
  with pytest.raises(ShardError, match="neg-2: listed in the manifest, but no file matches it"):
    shards.preflight({"neg": [str(tmp_path / "neg-*")]}, manifest=manifest)


def test_a_gzip_file_of_several_members_is_whole(tmp_path):
  for name in ("a", "b"):
    _write(tmp_path / name, 3, "GZIP")
  (tmp_path / "neg-1").write_bytes((tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes())
  assert shards.scan(str(tmp_path / "neg-1")).records == 6


def test_an_unknown_compression_is_an_error(tmp_path):
  with pytest.raises(ValueError, match="'zstd' is not one of auto, gzip, none"):
    shards.preflight({"neg": [_write(tmp_path / "a", 1)]}, compression="zstd")
