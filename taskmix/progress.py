"""How far a long piece of work is: told where it is done, heard where a person looks.

    with hear(print):
      ...
      tell(Progress(done=40, total=100, unit="photos"))

Who works need not know who listens, nor whether anyone does: TFX stands between
the command and what its components run, and hands nothing through.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping


@dataclasses.dataclass(frozen=True)
class Progress:
  """Where a piece of work stands.

  Attributes:
    done, total: of what; total is 0 where nobody knows.
    unit: "photos", "steps".
    rate: units a second; 0 where nobody knows.
    figures: what else is worth a look by name, such as a task's loss.
  """

  done: int
  total: int
  unit: str
  rate: float = 0.0
  figures: Mapping[str, float] = dataclasses.field(default_factory=dict)

  @property
  def seconds_left(self) -> float | None:
    """At this rate; None where it cannot be told."""
    if not self.rate or not self.total:
      return None
    return max(self.total - self.done, 0) / self.rate


Listener = Callable[[Progress], None]

_listeners: list[Listener] = []
_lock = threading.Lock()


def tell(progress: Progress) -> None:
  """Lets those who listen in this process know; nobody may."""
  with _lock:
    listeners = list(_listeners)
  for listener in listeners:
    listener(progress)


@contextlib.contextmanager
def hear(listener: Listener) -> Iterator[None]:
  """Calls `listener`, from any thread, with all that is told meanwhile."""
  with _lock:
    _listeners.append(listener)
  try:
    yield
  finally:
    with _lock:
      _listeners.remove(listener)
