"""A run folder is put right before components run, and nothing in it is thrown away."""

import datetime
import sqlite3

import pytest

from pipeline import recovery
from pipeline.folders import RunFolder

NOW = datetime.datetime(2026, 11, 21, 9, 30, 5)


@pytest.fixture
def folder(tmp_path) -> RunFolder:
  """With metadata, an artifact, a checkpoint and a pushed model."""
  made = RunFolder(tmp_path)
  for path in (made.artifacts, made.checkpoints, made.serving):
    (path / "1").mkdir(parents=True)
    (path / "1" / "file").write_text("kept")
  with sqlite3.connect(made.metadata) as database:
    database.execute("CREATE TABLE ran (name TEXT)")
  return made


def _files(folder: RunFolder) -> set[str]:
  return {str(path.relative_to(folder.root)) for path in folder.root.rglob("*") if path.is_file()}


def test_a_sound_folder_and_a_new_one_are_left_alone(folder, tmp_path):
  before = _files(folder)
  assert recovery.recover(folder, now=NOW) == []
  assert _files(folder) == before
  assert recovery.recover(RunFolder(tmp_path / "new"), now=NOW) == []


def test_what_a_killed_conversion_had_begun_is_removed(folder):
  begun = folder.artifacts / "CropExampleGen-pnet" / "examples" / "7.partial" / "spill"
  begun.mkdir(parents=True)
  (begun / "unit").write_text("half")
  before = _files(folder)
  assert recovery.recover(folder, now=NOW) == []
  assert before - _files(folder) == {"artifacts/CropExampleGen-pnet/examples/7.partial/spill/unit"}


def test_artifacts_without_metadata_are_moved_aside_and_all_else_stays(folder):
  folder.metadata.unlink()
  (line,) = recovery.recover(folder, now=NOW)
  assert "they are kept as artifacts.lost-20261121-093005" in line
  assert _files(folder) == {"artifacts.lost-20261121-093005/1/file", "checkpoints/1/file", "serving/1/file"}


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + bytes(4000)])
def test_broken_metadata_are_kept_beside_their_artifacts(folder, content):
  folder.metadata.write_bytes(content)
  broken, lost = recovery.recover(folder, now=NOW)
  assert "is broken; it is kept as metadata.sqlite.lost-20261121-093005" in broken
  assert "kept as artifacts.lost-" in lost
  assert (folder.root / "metadata.sqlite.lost-20261121-093005").read_bytes() == content


def test_metadata_that_another_program_holds_are_told(folder, monkeypatch):
  monkeypatch.setattr(recovery, "_WAIT_SECONDS", 0.1)
  database = sqlite3.connect(folder.metadata, isolation_level=None)
  database.execute("BEGIN EXCLUSIVE")
  with pytest.raises(ValueError, match=r"is locked by another program.*nothing is lost"):
    recovery.recover(folder, now=NOW)
  database.close()
  assert recovery.recover(folder, now=NOW) == []


def test_a_transaction_that_a_kill_cut_off_is_rolled_back(folder):
  """SQLite's journal stays beside the file; the next to open it plays it back."""
  import os
  import subprocess
  import sys

  code = (
    "import os, sqlite3, sys\n"
    "d = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    "d.execute('PRAGMA cache_size=1')\nd.execute('BEGIN')\n"
    "d.executemany('INSERT INTO ran VALUES (?)', [('x' * 5000,)] * 500)\nos.kill(os.getpid(), 9)\n"
  )
  subprocess.run([sys.executable, "-c", code, str(folder.metadata)], check=False)
  assert os.path.exists(f"{folder.metadata}-journal")
  assert recovery.recover(folder, now=NOW) == []
  with sqlite3.connect(folder.metadata) as database:
    assert database.execute("SELECT count(*) FROM ran").fetchone() == (0,)
