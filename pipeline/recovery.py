"""What an earlier run, or its machine, left of a run folder: put right before components run."""

import contextlib
import datetime
import os
import pathlib
import shutil
import sqlite3

from pipeline.folders import RunFolder

# SQLite waits so long for another program's lock.
_WAIT_SECONDS = 5.0


def recover(folder: RunFolder, *, now: datetime.datetime) -> list[str]:
  """Sees to it that the metadata can be used, and that no lost one's artifacts are in the way.

  Without its metadata nothing tells which artifact came from what: the cache
  starts anew, in new folders. Checkpoints and pushed models do not hang on it
  and stay where they are.

  Args:
    folder: of the run, whose lock is held.
    now: names what is moved aside.

  Returns:
    What was done, a line each; none if all was well.

  Raises:
    ValueError: if another program holds the metadata's lock, or the folder cannot be written.
  """
  mark = f"{now:%Y%m%d-%H%M%S}"
  lines = []
  if folder.metadata.exists() and not _is_sound(folder.metadata):
    kept = _aside(folder.metadata, mark)
    lines.append(f"the metadata in {folder.metadata} is broken; it is kept as {kept.name}")
  if not folder.metadata.exists() and folder.artifacts.is_dir() and any(folder.artifacts.iterdir()):
    kept = _aside(folder.artifacts, mark)
    lines.append(
      f"no metadata tells of the artifacts in {folder.artifacts}; they are kept as {kept.name}, "
      "and everything runs anew: delete them when you like"
    )
  # What a conversion that was killed had begun; one run at a time holds the folder.
  for partial in folder.artifacts.glob("*/*/*.partial"):
    shutil.rmtree(partial, ignore_errors=True)
  return lines


def _is_sound(path: pathlib.Path) -> bool:
  """Whether SQLite can read the file; raises ValueError if another program holds its lock."""
  try:
    with contextlib.closing(sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)) as database:
      # Rolls back what a killed run had begun, too.
      database.execute("BEGIN IMMEDIATE")
      (answer,) = database.execute("PRAGMA quick_check(1)").fetchone()
      database.execute("ROLLBACK")
      return answer == "ok" and path.stat().st_size > 0
  except sqlite3.OperationalError as error:
    if "locked" in str(error):
      raise ValueError(
        f"{path} is locked by another program, such as a database browser: close it and run again; "
        "nothing is lost"
      ) from None
    raise ValueError(f"{path} cannot be used: {error}; check the disk and its rights") from None
  except sqlite3.DatabaseError:
    return False


def _aside(path: pathlib.Path, mark: str) -> pathlib.Path:
  kept = path.with_name(f"{path.name}.lost-{mark}")
  os.rename(path, kept)
  # A journal of the lost file would be played into its successor.
  for suffix in ("-journal", "-wal", "-shm"):
    with contextlib.suppress(FileNotFoundError):
      os.rename(f"{path}{suffix}", f"{kept}{suffix}")
  return kept
