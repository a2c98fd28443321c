"""What a conversion says of its files is held against them."""

import hashlib
import pathlib

import pytest

from taskmix.examples.manifest import Manifest, ShardReport, require_sizes, require_whole

NAME = "data_tfrecord-00000-of-00001"


@pytest.fixture
def conversion(tmp_path) -> tuple[pathlib.Path, Manifest]:
  """The one shard of a conversion: ten bytes."""
  shard = tmp_path / "Split-train-neg" / NAME
  shard.parent.mkdir()
  shard.write_bytes(b"0123456789")
  report = ShardReport("train-neg", NAME, 1, 10, hashlib.sha256(b"0123456789").hexdigest())
  return shard, Manifest({}, {}, {"train-neg": 1}, (report,), {}, {}, {}, {}, {})


def test_files_as_they_were_written_pass(conversion):
  shard, manifest = conversion
  require_sizes(str(shard.parents[1]), manifest)
  require_whole(str(shard.parents[1]), manifest)


def test_a_shard_that_lost_bytes_is_named_with_both_sizes(conversion):
  shard, manifest = conversion
  shard.write_bytes(b"01234")
  with pytest.raises(ValueError, match=rf"{NAME} has 5 bytes, its manifest tells of 10; put it back, or"):
    require_sizes(str(shard.parents[1]), manifest)
  shard.unlink()
  with pytest.raises(ValueError, match=rf"{NAME} is missing; put it back, or"):
    require_sizes(str(shard.parents[1]), manifest)


def test_other_bytes_of_the_same_length_are_found_by_their_hash(conversion):
  shard, manifest = conversion
  shard.write_bytes(b"0123456780")
  require_sizes(str(shard.parents[1]), manifest)
  with pytest.raises(ValueError, match="is not what its manifest tells of"):
    require_whole(str(shard.parents[1]), manifest)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", ""])
def test_a_name_that_leads_out_of_the_folder_is_refused(name):
  with pytest.raises(ValueError, match="is no name of a shard"):
    ShardReport("train-neg", name, 1, 1, "")
