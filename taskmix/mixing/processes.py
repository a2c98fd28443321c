"""A Python function over samples, in processes of its own, at training time.

For what cannot be traced into a graph: dictionaries, PIL, any library. Results come
in the order of the samples, whatever worker made them.

    samples ─► waiting, at most 2 x workers x ahead ─► worker ─► results, in order
                                                    └► worker ─┘

`tf.py_function` and Keras' threads share one interpreter, hence one core, for such a
function; `multiprocessing` forks threads and locks or imports the main module again,
and its pool waits for ever for a child that was killed.
"""

import collections
import contextlib
import dataclasses
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import cloudpickle

from taskmix.mixing.child import ANSWER, SIZE, TASK, Failure, Slot, Work

# A sample that ends its worker so often is given up: it, not chance, is the cause.
_TRIES = 3

# Workers share the cores; threads of a library inside one would only get in the way.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class PythonMapError(RuntimeError):
  """A sample that gave no result; the message names it, `__cause__` is what the function raised."""


def python_map(
  function: Callable[..., Any],
  samples: Iterable[Any],
  workers: int = 0,
  *,
  batch: int = 0,
  seed: int | None = None,
  start: int = 0,
  ahead: int = 4,
  name: Callable[[Any], object] = repr,
) -> Generator[Any, None, None]:
  """`function(sample)` of every sample, in order, made by other processes.

  >>> def caption_length(row, rng):
  ...   return {"image": draw(row["file"], rng), "length": len(row["caption"])}
  >>> for made in python_map(caption_length, rows, workers=8, seed=1):
  ...   ...

  Args:
    function: any, also a lambda or one of the main module. Called with the sample,
      and with a `numpy.random.Generator` if `seed` is given.
    samples: taken one by one as workers get free, so they may be endless; each, and
      each result, must be something that pickle can carry. Arrays in them go through
      shared memory.
    workers: processes; 0 is one a core.
    batch: results to yield together, stacked along a new first axis by the worker that
      made them; the last may be fewer. 0 yields each by itself.
    seed: the generator of a sample depends on this and on the sample's number alone,
      not on the worker.
    start: number of the first sample, for a run that goes on in the middle.
    ahead: samples, or batches, that each worker has in hand. Results that wait for
      their turn are at most twice as many over all workers.
    name: what error messages call a sample, beside its number.

  Yields:
    The results; arrays in them are the caller's own. Closing the iterator, or dropping
    it, ends the processes.

  Raises:
    ValueError: for settings that make no sense.
    PythonMapError: in the turn of a sample whose function raised, whose result pickle
      cannot carry, or that ended three workers. A worker that ends otherwise (killed
      for want of memory, say) is replaced, and what it had in hand is done again.
  """
  for option, value, least in (
    ("workers", workers, 0),
    ("batch", batch, 0),
    ("ahead", ahead, 1),
    ("start", start, 0),
  ):
    if value < least:
      raise ValueError(f"{option} must be {least} or more, not {value}")
  work = cloudpickle.dumps(Work(function, seed, stacked=batch > 0))
  return _results(_Crew(work, workers or _cores(), ahead), _tasks(samples, batch or 1, start, name))


@dataclasses.dataclass(eq=False)
class _Task:
  """Samples on their way together.

  Attributes:
    number: of the first.
    name: see `python_map`.
    tries: workers that were ended by it.
    done: whether `value` is the result, or `error` says why there is none.
  """

  number: int
  samples: list[Any]
  name: Callable[[Any], object]
  tries: int = 0
  done: bool = False
  value: Any = None
  error: str = ""
  cause: BaseException | None = None

  def finish(self, value: Any) -> None:
    if isinstance(value, Failure):
      text = f"{type(value.error).__name__}: {value.error}\n\nIn the worker:\n{value.text}"
      self.fail(text, value.error, place=value.place)
    else:
      self.done, self.value, self.samples = True, value, []

  def fail(self, error: str, cause: BaseException | None = None, *, place: int | None = None) -> None:
    """`place`: of the sample at fault; None does not know which."""
    self.done, self.cause = True, cause
    more = len(self.samples) - 1
    which = f"sample {self.number + (place or 0)}"
    if place is None and more:
      which = f"one of the samples {self.number} to {self.number + more}"
    self.error = f"{which} ({str(self.name(self.samples[place or 0]))[:200]}): {error}"

  def result(self) -> Any:
    if self.error:
      raise PythonMapError(self.error) from self.cause
    return self.value


def _tasks(samples: Iterable[Any], size: int, start: int, name: Callable[[Any], object]) -> Iterator[_Task]:
  """The samples, `size` together; an error of theirs comes after those that came before it."""
  taken, together, broken = iter(samples), [], None
  while True:
    try:
      together.append(next(taken))
    except StopIteration:
      break
    except Exception as error:
      broken = error
      break
    if len(together) == size:
      yield _Task(start, together, name)
      start, together = start + size, []
  if together:
    yield _Task(start, together, name)
  if broken is not None:
    raise broken


def _results(crew: "_Crew", tasks: Iterator[_Task]) -> Generator[Any, None, None]:
  waiting: collections.deque[_Task] = collections.deque()
  broken: BaseException | None = None
  more = True
  with contextlib.closing(crew):
    while True:
      while more and crew.has_room and len(waiting) < 2 * crew.room:
        try:
          waiting.append(next(tasks))
        except StopIteration:
          more = False
        except Exception as error:
          # In its turn: what came before it is delivered first.
          more, broken = False, error
        else:
          crew.give(waiting[-1])
      if waiting and waiting[0].done:
        yield waiting.popleft().result()
      elif waiting:
        crew.wait()
      elif broken is not None:
        raise broken
      else:
        return


class _Crew:
  """The workers; started when the first task is given."""

  def __init__(self, function: bytes, workers: int, ahead: int):
    self._function, self._ahead = function, ahead
    self._selector = selectors.DefaultSelector()
    self._workers: list[_Worker] = []
    self._size = workers

  @property
  def room(self) -> int:
    """Tasks that all workers together can have in hand."""
    return self._size * self._ahead

  @property
  def has_room(self) -> bool:
    return len(self._workers) < self._size or any(worker.free for worker in self._workers)

  def give(self, task: _Task) -> None:
    while len(self._workers) < self._size:
      self._start()
    self._give(max(self._workers, key=lambda worker: len(worker.free)), task)

  def wait(self) -> None:
    """Until a worker answers, or ends."""
    for key, _ in self._selector.select():
      worker: _Worker = key.data
      if not worker.take():
        self._replace(worker)

  def close(self) -> None:
    for worker in self._workers:
      worker.end()
    self._workers.clear()
    self._selector.close()

  def _start(self) -> "_Worker":
    worker = _Worker(self._function, self._ahead)
    self._selector.register(worker.answers, selectors.EVENT_READ, worker)
    self._workers.append(worker)
    return worker

  def _give(self, worker: "_Worker", task: _Task) -> None:
    # A worker that has ended is found when its answers are read.
    with contextlib.suppress(BrokenPipeError):
      worker.give(task)

  def _replace(self, worker: "_Worker") -> None:
    """Has another worker do what this one, which ended, had in hand."""
    self._selector.unregister(worker.answers)
    self._workers.remove(worker)
    status, tasks = worker.end(), list(worker.in_hand.values())
    # Tasks are taken in order: the first was being worked on.
    tasks[:1] = [task for task in tasks[:1] if not _gives_up(task, status)]
    another = self._start()
    for task in tasks:
      self._give(another, task)


def _gives_up(task: _Task, status: int) -> bool:
  task.tries += 1
  if task.tries >= _TRIES:
    task.fail(f"it ended {_TRIES} workers, the last with exit status {status}")
  return task.done


class _Worker:
  """One process, its slots and what it has in hand.

  Attributes:
    answers: what it writes to.
    free: slots without a task.
    in_hand: slot -> task, in the order in which they were given.
  """

  def __init__(self, function: bytes, ahead: int):
    self._slots = [Slot.new() for _ in range(ahead)]
    self.free = list(range(ahead))
    self.in_hand: dict[int, _Task] = {}
    fds = [slot.fd for slot in self._slots]
    self._process = subprocess.Popen(
      [sys.executable, "-c", "from taskmix.mixing.child import main; main()", *map(str, fds)],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      bufsize=0,
      pass_fds=fds,
      env=_environment(),
    )
    assert self._process.stdin and self._process.stdout
    self._tasks, self.answers = self._process.stdin, self._process.stdout
    with contextlib.suppress(BrokenPipeError):
      _write_all(self._tasks, SIZE.pack(len(function)) + function)

  def give(self, task: _Task) -> None:
    """Raises BrokenPipeError if the process has ended; the task is in its hand all the same."""
    place = self.free.pop()
    try:
      self._slots[place].write(task.samples)
    except Exception as error:
      self.free.append(place)
      task.fail(f"pickle cannot carry it: {error}", error)
      return
    self.in_hand[place] = task
    _write_all(self._tasks, TASK.pack(task.number, place))

  def take(self) -> bool:
    """Reads one answer; False if the process has ended."""
    message = b""
    while len(message) < ANSWER.size:
      part = os.read(self.answers.fileno(), ANSWER.size - len(message))
      if not part:
        return False
      message += part
    (place,) = ANSWER.unpack(message)
    self.in_hand.pop(place).finish(self._slots[place].read())
    self.free.append(place)
    return True

  def end(self) -> int:
    """Ends the process, however far it is; its exit status."""
    self._process.kill()
    status = self._process.wait()
    for pipe in (self._tasks, self.answers):
      with contextlib.suppress(OSError):
        pipe.close()
    for slot in self._slots:
      slot.close()
    return status


def _write_all(pipe: Any, data: bytes) -> None:
  view = memoryview(data)
  while view:
    view = view[pipe.write(view) :]


def _environment() -> dict[str, str]:
  path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
  return {**dict.fromkeys(_ONE_THREAD, "1"), **os.environ, "PYTHONPATH": path}


def _cores() -> int:
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
