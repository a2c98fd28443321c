import hashlib
import pickle

import numpy as np
import pytest

from taskmix.examples import storage, writing
from taskmix.examples.planning import PlanFile, ShardTask
from taskmix.examples.sharding import BUCKETS, frame
from taskmix.examples.spill import RunWriter


@pytest.fixture
def plan(tmp_path):
  """Two runs of 60 examples of three photos; the second photo evaluates."""
  runs, rng = [], np.random.default_rng(0)
  for name in ("00", "01"):
    writer = RunWriter(str(tmp_path), name)
    keys = rng.integers(0, 2**64, 60, np.uint64)
    records = [f"{key:020d}".encode() for key in keys.tolist()]
    writer.add("neg", records, photos=np.arange(60) % 3, numbers=np.arange(60), keys=keys)
    writer.flush()
    runs += writer.runs
  path = str(tmp_path / "plan")
  storage.write_bytes(path, pickle.dumps(PlanFile(np.array([0, 1, 0], np.int8), runs)))
  return path


def _task(plan, *, phase=0, low=0, high=BUCKETS):
  return ShardTask("train-neg", "data", phase, "neg", low, high, plan)


def _records(chunks) -> list[bytes]:
  data = b"".join(chunks)
  return [data[at + 12 : at + 32] for at in range(0, len(data), 36)]


@pytest.mark.parametrize("chunk", [1, 200, 1 << 20])
def test_a_shard_has_its_phase_in_the_order_of_keys(plan, monkeypatch, chunk):
  monkeypatch.setattr(writing, "_CHUNK", chunk)
  train, evaluation = (_records(writing.framed_chunks(_task(plan, phase=phase))) for phase in (0, 1))
  assert (len(train), len(evaluation)) == (80, 40)
  assert train == sorted(train)
  assert evaluation == sorted(evaluation)
  assert not set(train) & set(evaluation)


def test_shards_share_a_split_at_their_edges(plan):
  whole = b"".join(writing.framed_chunks(_task(plan)))
  middle = BUCKETS // 3
  parts = [_task(plan, high=middle), _task(plan, low=middle)]
  assert b"".join(b"".join(writing.framed_chunks(part)) for part in parts) == whole


def test_the_report_tells_of_the_file(plan, tmp_path):
  writer = writing.ShardWriter(str(tmp_path / "out"), str(tmp_path), "none")
  report = writer(_task(plan))
  data = (tmp_path / "out/Split-train-neg/data").read_bytes()
  assert (report.examples, report.size) == (80, len(data))
  assert report.sha256 == hashlib.sha256(data).hexdigest()
  assert data[:36] == frame([_records([data])[0]])[0]


def test_a_kind_without_examples_gives_an_empty_file(plan, tmp_path):
  empty = ShardTask("eval-pos", "data", 1, "pos", 0, BUCKETS, plan)
  report = writing.ShardWriter(str(tmp_path / "out"), str(tmp_path), "none")(empty)
  assert (report.examples, report.size) == (0, 0)
