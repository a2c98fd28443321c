"""The lines of a run: one a component, with its state, time, counts and rate.

On a terminal the line of the component at work is drawn anew all the time; in a
file or a pipe it is written when it is over, and every half minute while it works:

    Trainer-pnet                 running       41.2 s   600 of 1,500 steps, 18,400 examples/s, 49 s left
    Trainer-pnet                 done         101.5 s   1,500 steps, 18,390 examples/s; face 0.16

On a terminal too narrow for it, what the component tells goes below its name.
"""

import dataclasses
import os
import textwrap
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TextIO

from taskmix.progress import Progress, hear

# Seconds between looks at the clock; between lines of a component in a file.
_DRAW, _WRITE = 0.25, 30.0

# Columns of a component's name.
_NAMES = 28

# Of what a component tells, below its name.
_INDENT = " " * 6

# Columns, however narrow the terminal says that it is.
_LEAST = 20


@dataclasses.dataclass
class _Work:
  """The component at work; a `passing` one leaves no line behind."""

  name: str
  began: float
  written: float
  passing: bool = False
  progress: Progress | None = None


class Lines:
  """Prints the lines of a run; a context manager, so that a terminal is left as it was.

  Args:
    stream: to print on.
    clock: seconds, rising.
    live: draw on a terminal; None finds out.
  """

  def __init__(
    self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic, live: bool | None = None
  ):
    self._stream, self._clock = stream, clock
    self._live = _is_terminal(stream) if live is None else live
    self._work: _Work | None = None
    # Lines of the terminal that are drawn anew.
    self._drawn = 1
    self._names = _NAMES
    self._lock = threading.RLock()
    self._over = threading.Event()
    self._thread = threading.Thread(target=self._watch, daemon=True)
    self._hearing = hear(self._heard)

  def __enter__(self) -> "Lines":
    self._hearing.__enter__()
    self._thread.start()
    return self

  def __exit__(
    self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
  ) -> None:
    self._over.set()
    self._hearing.__exit__(kind, error, trace)
    with self._lock:
      if self._work is not None:
        self.ended("stopped" if isinstance(error, KeyboardInterrupt) else "failed")

  def expect(self, names: Iterable[str]) -> None:
    """Makes room for the longest of the components' names."""
    self._names = max(self._names, *map(len, names))

  def say(self, line: str) -> None:
    """Prints a line of its own."""
    with self._lock:
      self._wipe()
      print(line, file=self._stream, flush=True)

  def began(self, name: str, *, passing: bool = False) -> None:
    """A component starts, or something `passing`, which is shown while it lasts and leaves no line."""
    with self._lock:
      self._work = _Work(name, self._clock(), self._clock(), passing)
      self._draw()

  def ended(self, state: str, *, seconds: float | None = None, told: str = "") -> None:
    """The component at work is over.

    Args:
      state: "done", "from cache", "failed", "stopped".
      seconds: that it took; None takes the clock's.
      told: counts; by default those of its last progress.
    """
    with self._lock:
      work, self._work = self._work, None
      if work is None or work.passing:
        self._wipe()
        return
      seconds = self._clock() - work.began if seconds is None else seconds
      if not told and work.progress and state != "from cache":
        told = text(work.progress, over=state == "done")
      self.say(self._line(work.name, state, seconds, told))

  def _heard(self, progress: Progress) -> None:
    with self._lock:
      if self._work is not None:
        self._work.progress = progress

  def _watch(self) -> None:
    while not self._over.wait(_DRAW):
      self.look()

  def look(self) -> None:
    """Draws the line at work anew, or writes it where half a minute has passed."""
    with self._lock:
      if self._work is None:
        return
      if self._live:
        self._draw()
      elif self._clock() - self._work.written >= _WRITE:
        self._work.written = self._clock()
        print(self._running(told=True), file=self._stream, flush=True)

  def _running(self, *, told: bool) -> str:
    assert self._work
    seconds = self._clock() - self._work.began
    return self._line(self._work.name, "running", seconds, self._told() if told else "")

  def _line(self, name: str, state: str, seconds: float, told: str) -> str:
    return line(name, state, seconds, told, width=self._names)

  def _told(self) -> str:
    assert self._work
    return text(self._work.progress) if self._work.progress else ""

  def _draw(self) -> None:
    if self._live:
      lines = self._fitting(_width(self._stream) - 1)
      self._wipe()
      print("\n".join(lines), end="", file=self._stream, flush=True)
      self._drawn = len(lines)

  def _fitting(self, width: int) -> list[str]:
    """The component at work in lines of at most that width."""
    whole = self._running(told=True)
    if len(whole) <= width:
      return [whole]
    below = textwrap.wrap(self._told(), max(width, _LEAST), initial_indent=_INDENT, subsequent_indent=_INDENT)
    return [self._running(told=False)[:width], *below]

  def _wipe(self) -> None:
    if self._live:
      print("\r\x1b[2K" + "\x1b[1A\x1b[2K" * (self._drawn - 1), end="", file=self._stream, flush=True)
      self._drawn = 1


def line(name: str, state: str, seconds: float, told: str = "", *, width: int = _NAMES) -> str:
  """A component's line; `width` columns are its name's."""
  return f"  {name:<{width}} {state:<11} {seconds:6.1f} s   {told}".rstrip()


def text(progress: Progress, *, over: bool = False) -> str:
  """Counts, rate, time left, figures.

  >>> text(Progress(600, 1500, "steps", rate=10.0, figures={"face": 0.2134}))
  '600 of 1,500 steps, 10.0 steps/s, 1 min 30 s left; face 0.2134'
  """
  whole = over or not progress.total
  parts = [
    f"{progress.done:,} {progress.unit}"
    if whole
    else f"{progress.done:,} of {progress.total:,} {progress.unit}"
  ]
  figures = dict(progress.figures)
  examples = figures.pop("examples/s", 0.0)
  if examples:
    parts.append(f"{examples:,.0f} examples/s")
  elif progress.rate:
    parts.append(f"{progress.rate:,.1f} {progress.unit}/s")
  if not over and progress.seconds_left is not None:
    parts.append(f"{duration(progress.seconds_left)} left")
  told = " ".join(f"{name} {value:.4f}" for name, value in figures.items())
  return ", ".join(parts) + (f"; {told}" if told else "")


def duration(seconds: float) -> str:
  """In words: "49 s", "2 min 5 s", "3 h 20 min"."""
  whole = round(seconds)
  if whole < 60:
    return f"{whole} s"
  if whole < 3600:
    return f"{whole // 60} min {whole % 60} s"
  return f"{whole // 3600} h {whole % 3600 // 60} min"


def _is_terminal(stream: TextIO) -> bool:
  return stream.isatty() and os.environ.get("TERM") != "dumb"


def _width(stream: TextIO) -> int:
  try:
    return os.get_terminal_size(stream.fileno()).columns or 80
  except (OSError, ValueError):
    return 80
