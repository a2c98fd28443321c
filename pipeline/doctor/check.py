"""One line of the doctor's."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclasses.dataclass(frozen=True)
class Check:
  """What was looked at, and what was found.

  Attributes:
    name: of what was looked at.
    state: "warning" is what a run may do without, or do badly with.
    found: in words.
    remedy: what to do; "" where all is well.
  """

  name: str
  state: State
  found: str
  remedy: str = ""

  def __str__(self) -> str:
    remedy = f"\n{'':>9}{self.remedy}" if self.remedy else ""
    return f"{self.state:<9}{self.name}: {self.found}{remedy}"


def failed(checks: Iterable[Check]) -> bool:
  return any(check.state == "error" for check in checks)


def guarded(name: str, check: Callable[[], Iterable[Check]], *, remedy: str) -> Iterator[Check]:
  """The checks; an error where one cannot even be made."""
  try:
    yield from check()
  except Exception as error:
    yield Check(name, "error", f"{error}" if isinstance(error, ValueError) else repr(error), remedy)


def at_least(name: str, have: float, *, need: float, good: float, found: str, remedy: str) -> Check:
  """An amount: "error" below `need`, "warning" below `good`."""
  state: State = "error" if have < need else "warning" if have < good else "ok"
  return Check(name, state, found, "" if state == "ok" else remedy)


@contextlib.contextmanager
def no_noise() -> Iterator[None]:
  """Keeps warnings of libraries off the doctor's lines."""
  import logging
  import os
  import warnings

  # TensorFlow is not loaded yet.
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  logging.disable(logging.WARNING)
  try:
    with warnings.catch_warnings():
      warnings.simplefilter("ignore")
      yield
  finally:
    logging.disable(logging.NOTSET)
