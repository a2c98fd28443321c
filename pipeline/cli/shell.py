"""What every command shares: exit codes, options, errors in plain words, JSON for machines."""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import typer

# Exit codes; docs/cli.md tells users. 0 is done, and of a run: pushed.
REFUSED, UNUSABLE, BUG, INTERRUPTED = 1, 2, 3, 130

# For commands that hand what they do not know on to Beam.
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def _configs(incomplete: str) -> list[str]:
  """For the shell's completion."""
  from pipeline.configs import config_names

  return [name for name in config_names() if name.startswith(incomplete)]


Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
ConfigName = Annotated[
  str, typer.Option(help="A config's name, or a Python file that defines CONFIG.", autocompletion=_configs)
]
Set = Annotated[
  list[str] | None,
  typer.Option(
    "--set", metavar="FIELD=VALUE", help="A field of the config, such as train.steps=500; may be repeated."
  ),
]
DataFolder = Annotated[
  pathlib.Path | None, typer.Option(help="The data folder; the config's own by default.")
]
Detector = Annotated[
  pathlib.Path, typer.Argument(help="A detector's SavedModel, or the folder of its versions.")
]


@contextlib.contextmanager
def plain_errors(*, debug: bool, interrupted: str = "") -> Iterator[None]:
  """Ends the command with what went wrong as one line, without its stack trace.

  Args:
    debug: raise it instead.
    interrupted: what to say of Ctrl-C beside that it was pressed.
  """
  try:
    yield
  except (ValueError, OSError, ImportError) as error:
    from pipeline.run import remedy

    fail(error, code=UNUSABLE, hint=remedy(error), debug=debug)
  except KeyboardInterrupt:
    typer.echo(f"\nInterrupted. {interrupted}".rstrip(), err=True)
    sys.stdout.flush()
    # Not by SystemExit: Python would wait for the threads of Beam and TensorFlow,
    # which go on with what they were at. A kill at any time is safe, so is this.
    os._exit(INTERRUPTED)
  except (typer.Exit, typer.Abort):
    raise
  except Exception as error:
    hint = "This is not your mistake. The same command with --debug shows where it happened."
    fail(f"{type(error).__name__}: {error}", code=BUG, hint=hint, debug=debug)


def fail(error: Exception | str, *, code: int, hint: str = "", debug: bool) -> NoReturn:
  """Ends the command with `code`; `debug` raises the error that is being handled instead."""
  if debug and isinstance(error, Exception):
    raise error
  if debug:
    raise
  typer.echo(f"taskmix: {error}", err=True)
  if hint:
    typer.echo(hint, err=True)
  raise SystemExit(code)


def styled(line: str, part: str, colour: str) -> str:
  """The line with its first `part` in colour, on a terminal that wants colours."""
  if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
    return line
  return line.replace(part, typer.style(part, fg=colour), 1)


def print_json(value: Any) -> None:
  """Prints dataclasses, paths and what JSON has itself; NaN and infinity as null."""
  typer.echo(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
  if dataclasses.is_dataclass(value) and not isinstance(value, type):
    return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
  if isinstance(value, dict):
    return {str(key): _plain(each) for key, each in value.items()}
  if isinstance(value, (list, tuple)):
    return [_plain(each) for each in value]
  if isinstance(value, float) and not math.isfinite(value):
    return None
  if isinstance(value, pathlib.PurePath):
    return str(value)
  return value
