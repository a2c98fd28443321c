import numpy as np

from taskmix.examples import spill
from taskmix.examples.sharding import frame


def _add(writer, kind, keys, *, photo=0):
  records = [f"{kind} {key}".encode() for key in keys]
  keys = np.array(keys, np.uint64)
  writer.add(kind, records, photos=photo, numbers=np.arange(len(keys)), keys=keys)


def test_a_run_holds_each_kind_by_key(tmp_path):
  writer = spill.RunWriter(str(tmp_path), "00")
  _add(writer, "pos", [9, 2**63, 1])
  _add(writer, "neg", [5])
  _add(writer, "pos", [4], photo=7)
  writer.flush()
  neg, pos = writer.runs
  assert (neg.kind, neg.examples, pos.kind, pos.examples) == ("neg", 1, "pos", 4)
  index = spill.read_index(pos)
  assert index["key"].tolist() == [1, 4, 9, 2**63]
  assert index["photo"].tolist() == [0, 7, 0, 0]
  assert index["number"].tolist() == [2, 0, 0, 1]
  expected = frame([b"pos 1", b"pos 4", b"pos 9", b"pos 9223372036854775808"])
  assert spill.read_stretch(pos, 0, int(index["size"].sum())) == b"".join(expected)
  second = int(index["size"][0])
  assert spill.read_stretch(pos, second, int(index["size"][1])) == expected[1]


def test_a_full_writer_starts_another_run(tmp_path):
  writer = spill.RunWriter(str(tmp_path), "00", limit=60)
  for key in range(6):
    _add(writer, "neg", [key])
  writer.flush()
  assert [run.examples for run in writer.runs] == [3, 3]
  assert sorted(path.name for path in tmp_path.iterdir()) == ["00-0.run", "00-1.run"]


def test_a_writer_of_nothing_writes_nothing(tmp_path):
  writer = spill.RunWriter(str(tmp_path), "00")
  writer.flush()
  assert writer.runs == []
  assert not list(tmp_path.iterdir())


def test_equal_keys_come_by_photo_then_number():
  rows = [(1, 2, 0, 9), (1, 1, 3, 9), (0, 9, 9, 9), (1, 1, 2, 9)]
  index = np.array(rows, spill.INDEX)
  assert spill.order_of(index).tolist() == [2, 3, 1, 0]
