"""One run of a config on this machine, from its lock to its verdict."""

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import io
import os
import pathlib
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pipeline.config import Config, node_id
from pipeline.console import quiet_terminal
from pipeline.folders import RunFolder
from pipeline.journal import JournalFile
from pipeline.progress import Lines
from pipeline.recovery import recover
from taskmix.gates import GateError
from taskmix.report.material import Failure, Journal
from taskmix.spec import Net

if TYPE_CHECKING:
  from pipeline import local
  from pipeline.summary import Summary


# The component that runs last, and though another failed.
REPORT_GEN = "ReportGen"


class RunError(Exception):
  """A run that stopped; the message is all that the user needs, and `log` has the rest."""

  def __init__(self, message: str, log: pathlib.Path):
    super().__init__(message)
    self.log = log


def run(
  config: Config,
  *,
  data: pathlib.Path,
  folder: RunFolder,
  through: str = "",
  beam_args: Sequence[str] = (),
  narrate: bool = True,
  to_stderr: bool = False,
) -> "Summary":
  """Runs every component, or takes it from the cache, and sums the run up.

  Args:
    config: what to run.
    data: the data folder.
    folder: where everything goes.
    through: name of the last net wanted; "" runs everything.
    beam_args: of every Beam component, see `pipeline.runners`.
    narrate: print a line a component.
    to_stderr: print there, where stdout is for what machines read.

  Raises:
    RunError: if a component failed or a gate stopped the run.
    ValueError: if the configuration, the data folder or the weights to start from
      cannot be used, before any component runs.
  """
  nets = tuple(stage.net for stage in config.through(through))
  if not data.is_dir():
    raise ValueError(f"no data folder {data}: give the folder of your photos with --data")
  log = folder.logs / f"{datetime.datetime.now():%Y%m%d-%H%M%S}.log"
  with (
    _only_run_in(folder),
    quiet_terminal(log, to_stderr=to_stderr) as terminal,
    Lines(terminal if narrate else io.StringIO()) as lines,
  ):
    begin = time.monotonic()
    lines.say(f"taskmix run {config.name}: {data} -> {folder.root}   (log: {log})")
    for line in recover(folder, now=datetime.datetime.now()):
      lines.say(f"  {line}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # TFX takes some twenty seconds to import, on which a person would otherwise look at nothing.
    lines.began("Loading TFX", passing=True)

    from pipeline import dag, local, summary
    from taskmix.model import starting_weights

    for stage in config.through(through):
      starting_weights.require(stage.net, stage.training)
    steps: dict[str, local.Step] = {}
    journal = JournalFile(
      folder.journals / f"{log.stem}.json",
      Journal(
        run=log.stem,
        started=datetime.datetime.now().isoformat(timespec="seconds"),
        command=shlex.join(["taskmix", *sys.argv[1:]]),
        data=str(data.resolve()),
        log=str(log),
      ),
    )

    def ended(step: "local.Step") -> None:
      steps[step.component] = step
      journal.ended(step.component, cached=step.cached, seconds=step.seconds)
      state = "from cache" if step.cached else "done"
      lines.ended(state, seconds=step.seconds, told=summary.counts_of(step, nets))

    pipeline = dag.create_pipeline(
      config,
      data=str(data.resolve()),
      folder=folder,
      through=through,
      beam_args=beam_args,
      journal=str(journal.path),
    )

    lines.expect(node.id for node in pipeline.components)

    def failed(error: local.ComponentError) -> None:
      lines.ended("failed")
      # On a full disk the error that is told is the component's.
      with contextlib.suppress(OSError):
        journal.failed(_failure(error))

    def unreported(error: Exception) -> None:
      lines.ended("failed")
      lines.say(f"  The report could not be written: {_explain(error)}")

    runner = local.NarratingDagRunner(
      began=lines.began, ended=ended, failed=failed, report=REPORT_GEN, unreported=unreported
    )
    try:
      runner.run(pipeline)
    except local.ComponentError as error:
      told = f"\nReport: {folder.report}" if REPORT_GEN in steps else ""
      raise RunError(f"{_explain(error)}{told}", log) from error
    result = summary.summarise(nets, steps, policy=config.evaluation)
    if result.whole and result.blessed and len(nets) > 1:
      result = dataclasses.replace(result, picture=_draw(nets[0], result, steps, data, folder))
    report = str(folder.report) if REPORT_GEN in steps else ""
    return dataclasses.replace(result, seconds=time.monotonic() - begin, log=str(log), report=report)


def _draw(
  net: Net, result: "Summary", steps: dict[str, "local.Step"], data: pathlib.Path, folder: RunFolder
) -> str:
  """The picture of the pushed detector's version, drawn once."""
  from pipeline import pictures

  picture = folder.pictures / f"{pathlib.Path(result.pushed).name}.png"
  if not picture.is_file():
    (examples,) = steps[node_id("CropExampleGen", net)].outputs["examples"]
    pictures.draw_held_out(result.pushed, examples=examples.uri, data=str(data), to=picture)
  return str(picture)


def _failure(error: "local.ComponentError") -> Failure:
  """What the report says of it."""
  cause = _cause(error)
  by_gate = isinstance(cause, GateError)
  return Failure(error.component, _explain(error), by_gate, cause.where if by_gate else "")


def _cause(error: Exception) -> BaseException | None:
  """The gate's own error, or the first that was raised."""
  cause = error.__cause__
  seen: set[int] = set()
  while cause is not None and id(cause) not in seen:
    seen.add(id(cause))
    if isinstance(cause, GateError) or cause.__cause__ is None:
      break
    cause = cause.__cause__
  return cause


def _explain(error: Exception) -> str:
  """The cause in a user's words: a gate's findings or the first line that a component raised."""
  cause = _cause(error)
  if isinstance(cause, GateError):
    return str(cause)
  return "\n".join(filter(None, (f"{error}: {cause or ''}", remedy(cause))))


def remedy(cause: BaseException | None) -> str:
  """What to do where the machine is at fault, by the libraries' own words too: TensorFlow has no errno."""
  text, number = str(cause).lower(), getattr(cause, "errno", None)
  if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "no space left" in text:
    return "The disk is full: free some space and run again; it goes on from what was done."
  if number in (errno.EROFS, errno.EACCES, errno.EPERM) or "read-only file system" in text:
    return "Give a folder that this user may write, with --runs, or mend its rights and run again."
  if isinstance(cause, MemoryError) or number == errno.ENOMEM:
    return "Memory ran out: close other programs, or lower the batch size, and run again."
  return ""


@contextlib.contextmanager
def _only_run_in(folder: RunFolder) -> Iterator[None]:
  """Holds the folder's lock: SQLite and checkpoints are for one run at a time.

  Raises:
    ValueError: if another run holds it, or the folder cannot be written.
  """
  try:
    folder.root.mkdir(parents=True, exist_ok=True)
    file = (folder.root / ".lock").open("w")
  except OSError as error:
    raise ValueError(
      f"{folder.root} cannot be written ({error.strerror}): with --runs, give a folder that you may write"
    ) from None
  # The lock goes with the process, so a killed run leaves none behind.
  with file as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise ValueError(
        f"another run is using {folder.root}: wait for it, or give this one its own folder with --runs"
      ) from None
    yield
