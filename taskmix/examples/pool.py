"""A function over many arguments on every core of this machine.

Beam's local runner has one process, or processes that cost seconds to start, each
with Beam in its memory. These start in half a second with what the function
needs, and hold nothing else. Not `multiprocessing`: its spawned children import
the main module again, which may be a whole TFX pipeline; its forked ones inherit
threads and locks.
"""

import contextlib
import gc
import importlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

_SIZE = struct.Struct("<Q")

# A decoded photo is some megabytes, which glibc hands back to the kernel each time
# and faults in again, a fifth of decoding's cost; these keep it. Without the pad,
# the pieces that photos of many sizes leave still cost 150 faults a photo.
_ALLOCATOR = {
  "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
  "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
  "MALLOC_TOP_PAD_": str(64 << 20),
}


def cores() -> int:
  """Cores that this process may run on."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fan_out(function: Callable[[Any], Any], items: Iterable[Any], *, processes: int) -> Iterator[Any]:
  """`function(item)` for every item, as each is done.

  Args:
    function: picklable; it and all it needs are imported in the children.
    items: taken as children get free.
    processes: 1 or less calls the function here.

  Raises:
    What the function raises; RuntimeError
    if a child dies (killed for want of memory, say).
  """
  if processes <= 1:
    yield from map(function, items)
    return
  tasks, head = iter(items), pickle.dumps(function)
  lock, results = threading.Lock(), queue.Queue()
  stop = threading.Event()
  children = _take(processes)
  threads = [
    threading.Thread(target=_serve, args=(child, head, tasks, lock, results, stop), daemon=True)
    for child in children
  ]
  _working.extend(children)
  whole = False
  try:
    for thread in threads:
      thread.start()
    yield from _collect(results, len(threads))
    whole = True
  finally:
    stop.set()
    _working[:] = [child for child in _working if child not in children]
    _give_back(children) if whole else _end(children)
    for thread in threads:
      thread.join()


# Children of the fan-outs that are under way.
_working: list[subprocess.Popen] = []


def end_all() -> None:
  """Kills the children of every fan-out that is under way.

  One whose reader was interrupted elsewhere than in it does not know that yet, and
  its children would go on writing into folders that are being removed.
  """
  _end(_working)
  _working.clear()


# Children without work: started ahead, or left by the last fan-out.
_idle: list[subprocess.Popen] = []
_keeping = 0


@contextlib.contextmanager
def kept_warm(processes: int) -> Iterator[None]:
  """Starts children now, and lets all fan-outs inside share them.

  They import what they need while the caller does something else.
  """
  global _keeping
  _keeping += 1
  try:
    if processes > 1:
      _idle.extend(_start() for _ in range(processes - len(_idle)))
    yield
  finally:
    _keeping -= 1
    if not _keeping:
      _end(_idle)
      _idle.clear()


def _take(count: int) -> list[subprocess.Popen]:
  return [_idle.pop() if _idle else _start() for _ in range(count)]


def _give_back(children: list[subprocess.Popen]) -> None:
  if _keeping:
    _idle.extend(children)
  else:
    _end(children)


def _end(children: list[subprocess.Popen]) -> None:
  for child in children:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
      with contextlib.suppress(OSError):
        assert pipe
        pipe.close()


def _collect(results: queue.Queue, threads: int) -> Iterator[Any]:
  while threads:
    kind, value = results.get()
    if kind == "end":
      threads -= 1
    elif kind == "error":
      raise value
    else:
      yield value


def _start() -> subprocess.Popen:
  path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
  return subprocess.Popen(
    [sys.executable, "-c", "from taskmix.examples.pool import child; child()"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    env={**os.environ, **_ALLOCATOR, "PYTHONPATH": path},
  )


def _serve(
  child: subprocess.Popen,
  head: bytes,
  tasks: Iterator,
  lock: threading.Lock,
  results: queue.Queue,
  stop: threading.Event,
) -> None:
  """Hands tasks to one child until none is left, or it fails."""
  assert child.stdin and child.stdout
  item: Any = "its start"
  try:
    _send(child.stdin, _FUNCTION + head)
    while not stop.is_set():
      with lock:
        item = next(tasks, _NO_MORE)
      if item is _NO_MORE:
        break
      _send(child.stdin, _ITEM + pickle.dumps(item))
      answer = _receive(child.stdout)
      if answer is None:
        raise BrokenPipeError
      failed, value = pickle.loads(answer)
      if failed:
        raise value
      results.put(("result", value))
  except (BrokenPipeError, ConnectionError):
    status = child.wait()
    results.put(("error", RuntimeError(f"a worker process died (exit status {status}) at {item!r:.200}")))
  except BaseException as error:
    results.put(("error", error))
  results.put(("end", None))


_FUNCTION, _ITEM = b"f", b"i"
_NO_MORE = object()


def child() -> None:
  """A child's whole life: functions and items come, until the pipe closes."""
  source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
  # What a library prints must not get between the answers.
  os.dup2(2, 1)
  # Imported while the parent still looks for work; a function that needs less is as well served.
  importlib.import_module("taskmix.examples.cutting")
  # What is imported stays: no use looking through it for garbage again and again.
  gc.freeze()
  head, function = b"", None
  while (message := _receive(source)) is not None:
    if message[:1] == _FUNCTION:
      head, function = message[1:], None
      continue
    try:
      function = function or pickle.loads(head)
      answer = (False, function(pickle.loads(message[1:])))
    except Exception as error:
      answer = (True, error)
    _send(sink, _dump(answer))


def _dump(answer: tuple[bool, Any]) -> bytes:
  try:
    data = pickle.dumps(answer)
    pickle.loads(data)
  except Exception:
    # An exception whose constructor wants more than its message.
    failed, value = answer
    return pickle.dumps(
      (True, RuntimeError(f"{type(value).__name__}: {value}" if failed else "unpicklable result"))
    )
  return data


def _send(pipe: BinaryIO | Any, data: bytes) -> None:
  pipe.write(_SIZE.pack(len(data)) + data)
  pipe.flush()


def _receive(pipe: BinaryIO | Any) -> bytes | None:
  head = pipe.read(_SIZE.size)
  if len(head) < _SIZE.size:
    return None
  (size,) = _SIZE.unpack(head)
  data = pipe.read(size)
  return data if len(data) == size else None
