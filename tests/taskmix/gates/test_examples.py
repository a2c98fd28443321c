"""One pass over the shards finds what is wrong with a conversion, and only that."""

import json

import numpy as np
import pytest

from taskmix.gates import GatePolicy, shards, sheets
from taskmix.gates.examples import check_examples
from taskmix.nets.mtcnn import PNET

DEFAULT = GatePolicy()
FIRST = "data_tfrecord-00000-of-00002"
SECOND = "data_tfrecord-00001-of-00002"


def _findings(folder, policy=DEFAULT):
  return [evidence.finding for evidence in check_examples(str(folder), PNET, policy)]


def _types(folder, policy=DEFAULT) -> list[str]:
  return [finding.type for finding in _findings(folder, policy)]


def _in(split: str, index: int, **changes):
  """Changes rows of one shard: column -> {row: value}."""

  def spoil(its_split, its_index, rows):
    if (its_split, its_index) == (split, index):
      for name, by_row in changes.items():
        for row, value in by_row.items():
          rows[name][row] = value

  return spoil


def test_a_sound_conversion_has_no_findings(conversion_of):
  assert _findings(conversion_of()) == []


def test_an_example_is_named_by_split_shard_record_and_photo(conversion_of):
  (found,) = _findings(conversion_of(spoil=_in("train-pos", 1, face={4: 0})))
  assert (found.type, found.split, found.feature, found.count) == (
    "LABEL_NOT_OF_KIND",
    "train-pos",
    "face",
    1,
  )
  assert found.names == (f"train-pos/{SECOND} record 4 (b.jpg)",)


def test_splits_larger_than_the_sample_are_checked_at_the_head_of_every_shard(conversion_of):
  folder = conversion_of(spoil=_in("train-pos", 1, face={1: 0, 2: 0}))
  (found,) = _findings(folder, GatePolicy(examples_per_split=4))
  assert found.description.startswith("1 of 4 examples checked")
  assert _types(folder, GatePolicy(examples_per_split=0)) == []


def test_batches_smaller_than_a_shard_find_the_same(conversion_of, monkeypatch):
  folder = conversion_of(spoil=_in("train-pos", 0, face={1: 0, 4: 0}))
  whole = _findings(folder)
  monkeypatch.setattr(shards, "BATCH", 4)
  assert _findings(folder) == whole
  assert whole[0].names[1] == f"train-pos/{FIRST} record 4 (b.jpg)"


def test_a_photo_with_examples_in_both_phases_is_found_beyond_the_sample(conversion_of):
  folder = conversion_of(spoil=_in("eval-neg", 1, image_id={5: "a.jpg"}))
  found = _findings(folder, GatePolicy(examples_per_split=1))
  assert [finding.type for finding in found] == ["PHOTO_IN_TWO_PHASES", "PHOTO_IN_WRONG_PHASE"]
  assert found[0].names == ("a.jpg (train, eval)",)


def test_a_photo_that_is_not_listed(conversion_of):
  (found,) = _findings(conversion_of(spoil=_in("eval-neg", 0, image_id={0: "z.jpg"})))
  assert (found.type, found.names) == ("PHOTO_UNLISTED", ("z.jpg (eval)",))


def test_one_picture_in_two_phases_names_both_photos_and_shows_an_example_of_each(conversion_of):
  (evidence,) = check_examples(str(conversion_of(pictures={"d.jpg": "b.jpg"})), PNET, DEFAULT)
  assert evidence.finding.type == "SAME_PICTURE_IN_TWO_PHASES"
  assert evidence.finding.names == ("b.jpg (train) and d.jpg (eval)",)
  assert [(example.split, example.image_id) for example, _ in evidence.samples] == [
    ("train-pos", "b.jpg"),
    ("eval-pos", "d.jpg"),
  ]


def _lose(folder):
  (folder / "Split-train-pos" / SECOND).unlink()


def _add(folder):
  (folder / "Split-train-pos" / "data_tfrecord-extra").write_bytes(b"")


def _cut(folder):
  path = folder / "Split-train-pos" / SECOND
  path.write_bytes(path.read_bytes()[:-20])


def _flip(folder):
  path = folder / "Split-train-pos" / SECOND
  data = bytearray(path.read_bytes())
  data[60] ^= 1
  path.write_bytes(bytes(data))


def _swap(folder):
  """A whole, readable file, but another."""
  path = folder / "Split-train-pos" / SECOND
  records = next(shards.record_batches(str(path)))[1]
  from taskmix.examples.sharding import frame

  path.write_bytes(b"".join(frame(records[:3])))


@pytest.mark.parametrize(
  ("spoil", "types", "words"),
  [
    (_lose, ["SHARD_MISSING"], SECOND),
    (_add, ["SHARD_UNLISTED"], "data_tfrecord-extra"),
    (_cut, ["SHARD_DAMAGED", "SHARD_CHANGED"], "cut off in record 5"),
    (_flip, ["SHARD_DAMAGED", "SHARD_CHANGED"], "record 0 is damaged"),
    (_swap, ["SHARD_CHANGED", "SHARD_COUNT"], "3 examples, the manifest says 6"),
  ],
)
def test_files_that_are_not_what_the_manifest_says(conversion_of, spoil, types, words):
  folder = conversion_of()
  spoil(folder)
  found = _findings(folder)
  assert [finding.type for finding in found] == types
  assert {finding.split for finding in found} == {"train-pos"}
  assert words in str([finding.names for finding in found])


@pytest.mark.parametrize("name", ["manifest.json", "photos.jsonl"])
def test_a_conversion_without_its_lists_says_what_cannot_be_checked(conversion_of, name):
  folder = conversion_of()
  (folder / name).unlink()
  (found,) = _findings(folder)
  assert found.type == "MANIFEST_MISSING"
  assert f"no {name}" in found.description


def test_records_that_are_no_examples_of_the_net_are_named_and_the_rest_is_checked(conversion_of):
  from taskmix.examples.sharding import frame

  folder = conversion_of(spoil=_in("train-pos", 1, face={4: 0}))
  path = folder / "Split-train-pos" / SECOND
  records = next(shards.record_batches(str(path)))[1]
  path.write_bytes(b"".join(frame([records[0], b"junk", *records[2:]])))
  found = {finding.type: finding for finding in _findings(folder)}
  assert set(found) == {"EXAMPLE_UNREADABLE", "LABEL_NOT_OF_KIND", "SHARD_CHANGED"}
  assert found["EXAMPLE_UNREADABLE"].names[0].startswith(f"{SECOND} record 1: not a tf.Example")
  assert found["LABEL_NOT_OF_KIND"].names == (f"train-pos/{SECOND} record 4 (b.jpg)",)


def test_a_finding_is_drawn(conversion_of, tmp_path):
  from PIL import Image

  folder = conversion_of(
    spoil=_in("train-landmark", 0, landmarks={0: np.float32(1.2), 3: np.float32(np.nan)})
  )
  evidence = check_examples(str(folder), PNET, GatePolicy(pictured=5))
  paths = [sheets.write_sheet(item, str(tmp_path / "report"), net=PNET) for item in evidence]
  assert [path.rpartition("/")[2] for path in paths] == [
    "not_finite-train-landmark-landmarks.png",
    "point_outside_crop-train-landmark-landmarks.png",
  ]
  for path in paths:
    assert Image.open(path).size[0] > 4 * 192


def test_a_finding_without_examples_has_no_picture(conversion_of, tmp_path):
  folder = conversion_of()
  _lose(folder)
  (evidence,) = check_examples(str(folder), PNET, DEFAULT)
  assert sheets.write_sheet(evidence, str(tmp_path / "report"), net=PNET) == ""
  assert not (tmp_path / "report").exists()


def test_a_manifest_that_is_broken_is_said(conversion_of):
  folder = conversion_of()
  fields = json.loads((folder / "manifest.json").read_text())
  (folder / "manifest.json").write_text(json.dumps({**fields, "version": 99}))
  with pytest.raises(ValueError, match="version 99"):
    check_examples(str(folder), PNET, DEFAULT)


def test_a_damaged_gzip_shard_is_a_finding(conversion_of):
  import gzip

  folder = conversion_of()
  path = folder / "Split-eval-part" / FIRST
  path.write_bytes(gzip.compress(path.read_bytes())[:-40])
  assert _types(folder) == ["SHARD_DAMAGED", "SHARD_CHANGED"]


def test_a_label_that_no_class_has_is_drawn_all_the_same(conversion_of, tmp_path):
  (evidence,) = check_examples(str(conversion_of(spoil=_in("train-neg", 0, face={0: 7}))), PNET, DEFAULT)
  assert sheets.write_sheet(evidence, str(tmp_path), net=PNET)
