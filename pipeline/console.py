"""Keeps third-party noise in a log file and the terminal for what a person reads."""

import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def quiet_terminal(log: pathlib.Path, *, to_stderr: bool = False) -> Iterator[TextIO]:
  """Sends the process's stdout and stderr, C++ libraries included, to `log`.

  Args:
    log: file, written on; its folder is made.
    to_stderr: yield a stream on the real stderr.

  Yields:
    A line-buffered stream on the real stdout, for what should be seen.
  """
  log.parent.mkdir(parents=True, exist_ok=True)
  sys.stdout.flush()
  sys.stderr.flush()
  stdout, stderr = os.dup(1), os.dup(2)
  shown = 2 if to_stderr else 1
  with log.open("ab") as file, os.fdopen(os.dup(shown), "w", buffering=1, encoding="utf-8") as terminal:
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    try:
      yield terminal
    finally:
      sys.stdout.flush()
      sys.stderr.flush()
      for copy, descriptor in ((stdout, 1), (stderr, 2)):
        os.dup2(copy, descriptor)
        os.close(copy)


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
  """Keeps what libraries, C++ ones included, write to stderr in a temporary file.

  The file goes when all goes well; else its path is printed, after what failed.
  """
  handle, path = tempfile.mkstemp(prefix="taskmix-", suffix=".log")
  sys.stderr.flush()
  stderr = os.dup(2)
  os.dup2(handle, 2)
  os.close(handle)
  failed = True
  try:
    yield
    failed = False
  finally:
    os.dup2(stderr, 2)
    os.close(stderr)
    if failed and os.path.getsize(path):
      print(f"What the libraries said: {path}", file=sys.stderr)
    else:
      os.remove(path)
