"""The process behind `taskmix.mixing.python_map`: calls the user's function, sample by sample.

Samples and results travel in shared memory; over the pipes go only a few bytes at a
time, so that no pipe is ever full and neither side can wait for the other:

    parent ── number, slot ──► child        the slot holds the pickled samples
    parent ◄── slot ────────── child        the slot holds the pickled result

The child ends when its pipe closes, also when the parent was killed.
"""

import dataclasses
import importlib
import mmap
import os
import pickle
import signal
import struct
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from taskmix.keys import keyed_rng

SIZE = struct.Struct("<Q")
TASK = struct.Struct("<qI")  # number of the first sample, slot
ANSWER = struct.Struct("<I")  # slot

_ALIGNMENT = 64
_FIRST_BYTES = 1 << 16


class Slot:
  """A piece of memory that two processes share; grows as either needs it.

      [count, bytes of each part] head | array | array ...

  The head is a pickle; contiguous arrays inside it lie beside it (PEP 574), so that
  each is copied once on its way in and once on its way out.
  """

  def __init__(self, fd: int):
    self.fd = fd
    self._map: mmap.mmap | None = None

  @classmethod
  def new(cls) -> "Slot":
    """One that no name in any folder stands for: it goes with the last process that has it."""
    if hasattr(os, "memfd_create"):
      fd = os.memfd_create("taskmix-python-map")
    else:
      with tempfile.TemporaryFile() as file:
        fd = os.dup(file.fileno())
    os.ftruncate(fd, _FIRST_BYTES)
    return cls(fd)

  def write(self, value: Any) -> None:
    """Raises what pickle raises for a value that it cannot carry."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    parts = [memoryview(head), *(array.raw() for array in arrays)]
    table = struct.pack(f"<{len(parts) + 1}Q", len(parts), *(part.nbytes for part in parts))
    starts, end = _starts(len(table), [part.nbytes for part in parts])
    memory = self._mapped(end)
    memory[: len(table)] = table
    for start, part in zip(starts, parts, strict=True):
      memory[start : start + part.nbytes] = part

  def read(self) -> Any:
    """What was written last; its arrays are the reader's own."""
    memory = self._mapped(0)
    (count,) = SIZE.unpack_from(memory)
    sizes = struct.unpack_from(f"<{count}Q", memory, SIZE.size)
    starts, _ = _starts(SIZE.size * (count + 1), sizes)
    copies: Any = [
      np.frombuffer(memory, np.uint8, size, start).copy() for start, size in zip(starts, sizes, strict=True)
    ]
    return pickle.loads(copies[0], buffers=copies[1:])

  def close(self) -> None:
    self._map = None
    os.close(self.fd)

  def _mapped(self, least: int) -> Any:
    size = os.fstat(self.fd).st_size
    if size < least:
      size = max(least, 2 * size)
      os.ftruncate(self.fd, size)
    if self._map is None or len(self._map) < size:
      self._map = mmap.mmap(self.fd, size)
    return self._map


def _starts(table: int, sizes: Any) -> tuple[list[int], int]:
  """Where each part starts, aligned as NumPy likes it, and where the last ends."""
  starts, end = [], table
  for size in sizes:
    start = -(-end // _ALIGNMENT) * _ALIGNMENT
    starts.append(start)
    end = start + size
  return starts, end


class RemoteError(Exception):
  """The text of an error whose exception could not travel."""


@dataclasses.dataclass(frozen=True)
class Failure:
  """What a function raised, as it travels.

  Attributes:
    place: of the sample among those given together.
    text: the worker's stack trace.
    error: the exception, or a RemoteError.
  """

  place: int
  text: str
  error: BaseException

  @classmethod
  def of(cls, error: BaseException, place: int = 0) -> "Failure":
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
      carried = pickle.loads(pickle.dumps(error))
    except Exception:
      # Its constructor wants more than its message.
      carried = RemoteError(f"{type(error).__name__}: {error}")
    return cls(place, text, carried)


@dataclasses.dataclass
class Work:
  """The user's function, over the samples of a slot.

  Attributes:
    function: (sample) or, where there is a seed, (sample, generator) -> result.
    seed: of the generators.
    stacked: whether the samples' results are joined; else there is one sample.
  """

  function: Callable[..., Any]
  seed: int | None
  stacked: bool

  def __call__(self, samples: Sequence[Any], number: int) -> Any:
    """The result of the samples from `number` on, or the Failure of the first that fails."""
    results = []
    for place, sample in enumerate(samples):
      try:
        results.append(self._call(sample, number + place))
      except Exception as error:
        return Failure.of(error, place)
    return stack(results) if self.stacked else results[0]

  def _call(self, sample: Any, number: int) -> Any:
    if self.seed is None:
      return self.function(sample)
    return self.function(sample, keyed_rng(self.seed, "python_map", number))


def stack(results: Sequence[Any]) -> Any:
  """Equal structures of dicts, lists and tuples as one, each leaf an array along a new first axis.

  >>> stack([{"x": 1}, {"x": 2}])
  {'x': array([1, 2])}

  Raises:
    ValueError: if the structures differ, or arrays in the same place have different shapes.
  """
  first = results[0]
  if isinstance(first, dict):
    if any(not isinstance(each, dict) or each.keys() != first.keys() for each in results):
      raise ValueError(f"results of one batch have different keys than {list(first)}")
    return {key: stack([each[key] for each in results]) for key in first}
  if isinstance(first, (list, tuple)):
    parts = [stack(column) for column in zip(*results, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
  return np.stack([np.asarray(each) for each in results])


def main() -> None:
  """A child's whole life; its arguments are the file descriptors of its slots."""
  source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
  # What a library prints must not get between the answers.
  os.dup2(2, 1)
  # Ctrl-C reaches the whole group; the parent ends its children itself.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  slots = [Slot(int(fd)) for fd in sys.argv[1:]]
  head = source.read(SIZE.unpack(source.read(SIZE.size))[0])
  work: Any = None
  while len(message := source.read(TASK.size)) == TASK.size:
    number, place = TASK.unpack(message)
    try:
      # cloudpickle understands functions of the main module, which pickle only names.
      work = work or importlib.import_module("cloudpickle").loads(head)
      result = work(slots[place].read(), number)
    except Exception as error:
      result = Failure.of(error)
    _put(slots[place], result)
    sink.write(ANSWER.pack(place))


def _put(slot: Slot, result: Any) -> None:
  """Writes the result, or why it cannot be written."""
  try:
    slot.write(result)
  except Exception as error:
    slot.write(Failure.of(error))
