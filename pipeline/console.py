"""Keeps third-party noise in a log file and the terminal for what a person reads."""

import contextlib
import os
import pathlib
import sys
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
