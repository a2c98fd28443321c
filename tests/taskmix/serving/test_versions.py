"""A watched folder: whole versions or none, whatever happens to the writer."""

import datetime
import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from taskmix.serving import object_store, versions
from taskmix.serving.versions import PublishError, Record

BLESSED = Record(model="pnet", blessings={"Evaluator": True}, metrics={"face": {"accuracy": 0.9}})


def _model(folder: pathlib.Path, text: str = "one", files: int = 3) -> pathlib.Path:
  """Something with a SavedModel's shape; every file holds `text`."""
  (folder / "variables").mkdir(parents=True)
  (folder / "saved_model.pb").write_text(text)
  for index in range(files):
    (folder / "variables" / f"part-{index}").write_text(text)
  return folder


def _at(seconds: int) -> datetime.datetime:
  return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def _numbers(base: pathlib.Path) -> list[int]:
  return [version.number for version in versions.list_versions(base)]


def test_a_version_is_the_model_under_a_number_with_its_record(tmp_path):
  version = versions.publish(_model(tmp_path / "m"), tmp_path / "base", record=BLESSED, now=_at(1700000000))
  assert version.number == 1700000000
  assert version.path == str(tmp_path / "base" / "1700000000")
  assert (tmp_path / "base/1700000000/variables/part-2").read_text() == "one"
  shown = versions.show_version(tmp_path / "base")
  assert shown.current
  assert shown.record
  assert shown.record.pushed_at == "2023-11-14T22:13:20+00:00"
  assert shown.record.metrics == {"face": {"accuracy": 0.9}}


def test_the_card_lies_in_the_version_and_a_new_one_takes_its_place(tmp_path):
  model, base = _model(tmp_path / "m"), tmp_path / "base"
  first = versions.publish(model, base, record=BLESSED, card="# one", now=_at(100))
  path = pathlib.Path(first.path, versions.CARD)
  assert path.read_text() == "# one"
  assert versions.digest(first.path) == versions.digest(model)
  assert versions.publish(model, base, record=BLESSED, card="# two", now=_at(200)).number == 100
  assert path.read_text() == "# two"
  versions.publish(_model(tmp_path / "other", "two"), base, record=BLESSED, card="# three", now=_at(300))
  back = versions.rollback(base, now=_at(400))
  assert pathlib.Path(back.path, versions.CARD).read_text() == "# two"


def test_two_pushes_in_one_second_get_two_numbers(tmp_path):
  base = tmp_path / "base"
  for index, text in enumerate(("one", "two")):
    versions.publish(_model(tmp_path / f"m{index}", text), base, record=BLESSED, now=_at(100))
  assert _numbers(base) == [101, 100]


def test_a_push_repeated_adds_no_version(tmp_path):
  model, base = _model(tmp_path / "m"), tmp_path / "base"
  first = versions.publish(model, base, record=BLESSED, now=_at(100))
  assert versions.publish(model, base, record=BLESSED, now=_at(200)) == first


def test_the_last_k_versions_stay(tmp_path):
  base = tmp_path / "base"
  for index in range(5):
    versions.publish(
      _model(tmp_path / f"m{index}", str(index)), base, record=BLESSED, keep=2, now=_at(index + 1)
    )
  assert _numbers(base) == [5, 4]
  assert sorted(path.name for path in base.iterdir()) == [".taskmix.lock", "4", "5"]


def test_rollback_publishes_the_older_model_as_the_newest(tmp_path):
  base = tmp_path / "base"
  for second, text in ((1, "good"), (2, "bad")):
    versions.publish(_model(tmp_path / text, text), base, record=BLESSED, now=_at(second))
  back = versions.rollback(base, now=_at(3))
  assert (back.number, back.current) == (3, True)
  assert back.record and back.record.rolled_back_to == 1
  assert back.record.metrics == BLESSED.metrics
  assert (base / "3/saved_model.pb").read_text() == "good"
  assert _numbers(base) == [3, 2, 1]


def test_rollback_removes_no_version_of_its_own_accord(tmp_path):
  base = tmp_path / "base"
  for second in range(1, 8):
    versions.publish(
      _model(tmp_path / str(second), str(second)), base, record=BLESSED, keep=10, now=_at(second)
    )
  versions.rollback(base, 1, now=_at(8))
  assert _numbers(base) == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_second_rollback_goes_forward_to_the_model_that_was_left(tmp_path):
  base = tmp_path / "base"
  for second, text in ((1, "good"), (2, "bad")):
    versions.publish(_model(tmp_path / text, text), base, record=BLESSED, now=_at(second))
  versions.rollback(base, now=_at(3))
  assert versions.rollback(base, now=_at(4)).record.rolled_back_to == 2


def test_rollback_to_a_version_that_is_not_there_names_those_that_are(tmp_path):
  base = tmp_path / "base"
  versions.publish(_model(tmp_path / "m"), base, record=BLESSED, now=_at(7))
  with pytest.raises(ValueError, match=r"no version 5 in .*; there is 7"):
    versions.rollback(base, 5)
  with pytest.raises(ValueError, match="is the one that is served"):
    versions.rollback(base, 7)
  with pytest.raises(ValueError, match="no other model"):
    versions.rollback(base)


def test_versions_of_others_are_listed_without_a_record(tmp_path):
  _model(tmp_path / "base" / "12")
  (version,) = versions.list_versions(tmp_path / "base")
  assert version.record is None
  assert "not recorded" in versions.listing([version])


def test_listing_and_details_say_what_blessed_a_version_and_its_metrics(tmp_path):
  record = Record(
    "pnet", blessings={"Evaluator": True}, metrics={"face": {"auc": 0.5}}, lineage={"net": "ab"}
  )
  versions.publish(_model(tmp_path / "m"), tmp_path / "base", record=record, now=_at(7))
  line = versions.listing(versions.list_versions(tmp_path / "base")).splitlines()[1]
  assert line.split()[:2] == ["7", "1970-01-01T00:00:07"]
  assert "Evaluator" in line and "face/auc=0.5000" in line and "<- served" in line
  details = versions.details(versions.show_version(tmp_path / "base", 7))
  assert "blessing  Evaluator: blessed" in details and "lineage   net: ab" in details


def test_what_is_no_saved_model_is_not_published(tmp_path):
  (tmp_path / "m").mkdir()
  with pytest.raises(PublishError, match=r"no SavedModel"):
    versions.publish(tmp_path / "m", tmp_path / "base", record=BLESSED)
  with pytest.raises(ValueError, match="no model folder"):
    versions.list_versions(tmp_path / "base")


def test_a_watcher_never_sees_part_of_a_version(tmp_path):
  base = tmp_path / "base"
  base.mkdir()
  faults, seen, done = [], set(), threading.Event()

  def watch() -> None:
    """Reads the newest version as a server does: its listing, then every file."""
    while not done.is_set():
      numbers = [int(name) for name in os.listdir(base) if name.isdecimal()]
      if not numbers:
        continue
      folder = base / str(max(numbers))
      try:
        texts = [path.read_text() for path in sorted(folder.rglob("part-*"))]
        texts.append((folder / "saved_model.pb").read_text())
      except FileNotFoundError:
        # Gone as a whole, because newer ones came; anything else is a fault.
        if folder.exists():
          faults.append(f"{folder} lost a file")
        continue
      if len(texts) != 21 or len(set(texts)) != 1:
        if folder.exists():
          faults.append(f"{folder}: {len(texts)} files")
      else:
        seen.add(texts[0])

  watchers = [threading.Thread(target=watch) for _ in range(2)]
  for watcher in watchers:
    watcher.start()
  for index in range(25):
    model = _model(tmp_path / f"m{index}", f"{index}" * 20_000, files=20)
    versions.publish(model, base, record=BLESSED, keep=2, now=_at(index + 1))
  versions.rollback(base, keep=2, now=_at(100))
  time.sleep(0.05)
  done.set()
  for watcher in watchers:
    watcher.join()
  assert not faults
  assert len(seen) > 3


_KILLED = """
import os, signal, sys
from taskmix.serving import versions
real, left = os.{call}, [{after}]
def dying(*arguments, **named):
  if not left[0]:
    os.kill(os.getpid(), signal.SIGKILL)
  left[0] -= 1
  return real(*arguments, **named)
os.{call} = dying
versions.publish(sys.argv[1], sys.argv[2], record=versions.Record(), keep=1)
"""


@pytest.mark.parametrize(
  ("call", "after", "shown"), [("fsync", 2, [5]), ("rename", 0, [5]), ("rename", 1, [2, 5])]
)
def test_a_push_that_is_killed_leaves_nothing_half_served(tmp_path, call, after, shown):
  base = tmp_path / "base"
  versions.publish(_model(tmp_path / "old", "old"), base, record=BLESSED, now=_at(5))
  new = _model(tmp_path / "new", "new")
  code = _KILLED.format(call=call, after=after)
  ended = subprocess.run([sys.executable, "-c", code, str(new), str(base)], check=False, timeout=60)
  assert ended.returncode == -signal.SIGKILL
  assert len(_numbers(base)) == len(shown)
  for version in versions.list_versions(base):
    assert len(list(pathlib.Path(version.path).rglob("part-*"))) == 3

  again = versions.publish(new, base, record=BLESSED, keep=2)

  assert (pathlib.Path(again.path) / "saved_model.pb").read_text() == "new"
  assert len(_numbers(base)) == 2
  assert not [path for path in base.iterdir() if path.name.startswith(".taskmix-")]


def test_a_full_disk_publishes_nothing_and_says_what_still_serves(tmp_path, monkeypatch):
  base = tmp_path / "base"
  versions.publish(_model(tmp_path / "old", "old"), base, record=BLESSED, now=_at(5))

  def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

  monkeypatch.setattr(versions.shutil, "copyfileobj", full)
  with pytest.raises(PublishError, match=r"no space left in .*what was served before still is"):
    versions.publish(_model(tmp_path / "new", "new"), base, record=BLESSED)
  assert _numbers(base) == [5]
  assert sorted(path.name for path in base.iterdir()) == [".taskmix.lock", "5"]


def test_a_model_that_is_swapped_while_it_is_copied_is_not_published(tmp_path, monkeypatch):
  base, new = tmp_path / "base", _model(tmp_path / "new", "new")
  versions.publish(_model(tmp_path / "old", "old"), base, record=BLESSED, now=_at(5))
  copy = versions.shutil.copyfileobj

  def swapping(read, write, size):
    (new / "saved_model.pb").write_text("other")
    copy(read, write, size)

  monkeypatch.setattr(versions.shutil, "copyfileobj", swapping)
  with pytest.raises(PublishError, match="has another digest"):
    versions.publish(new, base, record=BLESSED)
  assert sorted(path.name for path in base.iterdir()) == [".taskmix.lock", "5"]


def test_a_folder_of_versions_that_is_moved_away_during_a_push_serves_nothing_half(tmp_path, monkeypatch):
  base = tmp_path / "base"
  versions.publish(_model(tmp_path / "old", "old"), base, record=BLESSED, now=_at(5))
  copy = versions.shutil.copyfileobj

  def moving(read, write, size):
    copy(read, write, size)
    if not (tmp_path / "elsewhere").exists():
      base.rename(tmp_path / "elsewhere")

  monkeypatch.setattr(versions.shutil, "copyfileobj", moving)
  with pytest.raises(PublishError, match="has another digest"):
    versions.publish(_model(tmp_path / "new", "new"), base, record=BLESSED)
  assert _numbers(tmp_path / "elsewhere") == [5]
  assert not base.exists() or _numbers(base) == []


def test_a_version_that_rotted_is_not_rolled_back_to(tmp_path):
  base = tmp_path / "base"
  for second, text in ((1, "good"), (2, "bad")):
    versions.publish(_model(tmp_path / text, text), base, record=BLESSED, now=_at(second))
  (base / "1/saved_model.pb").write_text("g0od")
  with pytest.raises(PublishError, match="or since it was pushed"):
    versions.rollback(base, 1)
  assert _numbers(base) == [2, 1]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(PublishError, match="file/base"):
    versions.publish(_model(tmp_path / "m"), tmp_path / "file" / "base", record=BLESSED)


def test_a_bucket_gets_the_model_file_last_and_keeps_k(tmp_path):
  base = f"file://{tmp_path}/bucket"
  for index in range(3):
    model = _model(tmp_path / f"m{index}", str(index))
    version = object_store.publish(model, base, record=BLESSED, keep=2, now=_at(index + 1))
  assert version.path == f"{base}/3"
  assert _numbers(tmp_path / "bucket") == [3, 2]
  record = versions.show_version(tmp_path / "bucket", 3).record
  assert record and record.model == "pnet"
  folder = tmp_path / "bucket" / "3"
  written = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
  assert max(written, key=written.__getitem__) == folder / "saved_model.pb"


def test_two_pushes_at_once_wait_for_each_other(tmp_path):
  import fcntl

  base = tmp_path / "base"
  first = versions.publish(_model(tmp_path / "m", "one"), base, record=BLESSED, now=_at(1))
  pushed = []
  push = threading.Thread(
    target=lambda: pushed.append(
      versions.publish(_model(tmp_path / "n", "two"), base, record=BLESSED, now=_at(2))
    )
  )
  with (base / ".taskmix.lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    push.start()
    time.sleep(0.3)
    assert pushed == [] and _numbers(base) == [first.number]
  push.join(30)
  assert _numbers(base) == [2, 1]
