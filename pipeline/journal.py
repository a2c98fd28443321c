"""What a run tells of itself while it goes on: a file that the report reads."""

import dataclasses
import os
import pathlib
import time

from taskmix.report.material import Failure, Journal, StepRecord
from taskmix.spec import to_json


class JournalFile:
  """A Journal on the disk, whole after every change."""

  def __init__(self, path: pathlib.Path, journal: Journal):
    """Writes the journal as it is when the run begins."""
    self.path = path
    self._journal = journal
    self._begin = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    self._write()

  def ended(self, component: str, *, cached: bool, seconds: float) -> None:
    """Adds a component that ended well."""
    record = StepRecord(component, "cached" if cached else "done", round(seconds, 3))
    self._journal = dataclasses.replace(self._journal, steps=(*self._journal.steps, record))
    self._write()

  def failed(self, failure: Failure) -> None:
    """Tells what ends the run."""
    self._journal = dataclasses.replace(self._journal, failure=failure)
    self._write()

  def _write(self) -> None:
    self._journal = dataclasses.replace(self._journal, seconds=round(time.monotonic() - self._begin, 3))
    partial = self.path.with_suffix(".partial")
    partial.write_text(to_json(self._journal) + "\n")
    os.replace(partial, self.path)
