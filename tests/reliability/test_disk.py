"""A full disk and a folder that cannot be written, as the kernel has them."""

import errno
import pathlib
import re
import subprocess
import sys

import pytest

from pipeline.run import remedy

TASKMIX = pathlib.Path(sys.executable).with_name("taskmix")


def _on_own_disk(command: list[str], *, size: str, folder: pathlib.Path, then: str = "") -> list[str]:
  """The command with a small disk of its own at `folder`, which no other process sees."""
  script = f'mount -t tmpfs -o size={size} none "$0" && {then or "true"} && exec "$@"'
  return ["unshare", "-rm", "sh", "-c", script, str(folder), *command]


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
  """Skips where the kernel gives no such disk to a user."""
  folder = tmp_path_factory.mktemp("disk")
  try:
    subprocess.run(_on_own_disk(["true"], size="1m", folder=folder), check=True, capture_output=True)
  except (OSError, subprocess.CalledProcessError):
    pytest.skip("this machine lets no user mount a disk of his own (unshare -rm)")


@pytest.fixture
def convert(tmp_path, draw_photos, write_config):
  """The command that converts the drawn photos to a folder."""
  data, config = draw_photos(tmp_path / "data"), write_config(tmp_path / "drawn.py")
  return lambda out: [str(TASKMIX), "convert", str(out), "--config", str(config), "--data", str(data)]


def _run(command: list[str]) -> subprocess.CompletedProcess:
  return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_conversion_onto_a_full_disk_says_so_and_runs_when_there_is_space(disks, convert, tmp_path):
  (tmp_path / "disk").mkdir()
  out = tmp_path / "disk" / "out"
  full = _run(_on_own_disk(convert(out), size="200k", folder=tmp_path / "disk"))
  assert full.returncode == 2, full
  # Beam logs a stack trace of its own; the last lines are for people.
  reason, hint = full.stderr.splitlines()[-2:]
  assert reason == f"taskmix: [Errno 28] No space left on device: '{out}'"
  assert hint.startswith("The disk is full: free some space and run again")
  enough = _run(_on_own_disk(convert(out), size="64m", folder=tmp_path / "disk"))
  assert enough.returncode == 0, enough


def test_a_file_that_may_not_grow_fails_the_conversion_and_leaves_nothing_that_looks_finished(
  convert, tmp_path
):
  """Needs no disk of its own: the kernel refuses files above 20,000 bytes."""
  out = tmp_path / "out"
  short = _run(["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", *convert(out)])
  assert short.returncode == 2, short
  assert short.stderr.splitlines()[-2] == f"taskmix: [Errno 27] File too large: '{out}'"
  assert not out.exists()
  assert _run(convert(out)).returncode == 0
  assert (out / "manifest.json").is_file()


def test_a_run_into_a_folder_that_is_read_only_says_so_before_any_work(
  disks, tmp_path, draw_photos, write_config
):
  data, config = draw_photos(tmp_path / "data"), write_config(tmp_path / "drawn.py")
  (tmp_path / "disk").mkdir()
  command = [
    str(TASKMIX),
    "run",
    "--config",
    str(config),
    "--data",
    str(data),
    "--runs",
    str(tmp_path / "disk"),
  ]
  remount = 'mount -o remount,ro "$0"'
  done = _run(_on_own_disk(command, size="1m", folder=tmp_path / "disk", then=remount))
  assert done.returncode == 2, done
  assert "cannot be written (Read-only file system)" in done.stderr
  assert "with --runs" in done.stderr
  assert "Traceback" not in done.stderr
  done = _run(_on_own_disk([*command[:-1], "/proc/nowhere"], size="1m", folder=tmp_path / "disk"))
  assert done.returncode == 2, done
  assert "cannot be written" in done.stderr


@pytest.mark.parametrize(
  ("cause", "told"),
  [
    (OSError(errno.ENOSPC, "No space left on device"), "free some space and run again"),
    (RuntimeError("ResourceExhaustedError: /x; No space left on device"), "free some space and run again"),
    (OSError(errno.EROFS, "Read-only file system"), "a folder that this user may write"),
    (MemoryError(), "lower the batch size"),
    (ValueError("no weights"), "^$"),
  ],
)
def test_a_machine_at_fault_is_told_with_what_to_do(cause, told):
  assert re.search(told, remedy(cause))
