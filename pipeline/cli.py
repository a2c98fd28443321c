"""The command `taskmix`.

Nothing heavy is imported before a command needs it, so that `--help` is quick.
"""

import pathlib
import sys
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
  name="taskmix",
  help="From annotated photos to a pushed, checked multi-task model.",
  no_args_is_help=True,
  add_completion=True,
  pretty_exceptions_enable=False,
)

# Exit codes: 0 pushed, 1 failed or refused, 2 unusable arguments or data, 130 interrupted.
REFUSED, UNUSABLE, INTERRUPTED = 1, 2, 130

Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]


@app.callback()
def _main() -> None:
  """From annotated photos to a pushed, checked multi-task model."""


@app.command()
def run(
  config: Annotated[
    str, typer.Option(help="A config's name, or a Python file that defines CONFIG.")
  ] = "demo",
  data: Annotated[
    pathlib.Path | None, typer.Option(help="The data folder; the config's own by default.")
  ] = None,
  runs: Annotated[pathlib.Path, typer.Option(help="Where run folders go.")] = pathlib.Path("runs"),
  debug: Debug = False,
) -> None:
  """Run a whole pipeline on this machine; what is done already comes from the cache.

  Examples:

      taskmix run --config demo

      taskmix run --config faces --data my_photos
  """
  from pipeline import run as pipeline_run
  from pipeline.config import REPOSITORY, load_config
  from pipeline.folders import RunFolder

  try:
    loaded = load_config(config)
    folder = RunFolder((runs / loaded.name).resolve())
    summary = pipeline_run.run(loaded, data=data or REPOSITORY / loaded.data, folder=folder)
  except KeyboardInterrupt:
    typer.echo("\nInterrupted. The same command goes on from what was done.", err=True)
    raise SystemExit(INTERRUPTED) from None
  except pipeline_run.RunError as error:
    _fail(error, code=REFUSED, hint=f"Log: {error.log}", debug=debug)
  except ValueError as error:
    _fail(error, code=UNUSABLE, debug=debug)
  from pipeline import summary as summaries

  typer.echo(summaries.text(loaded.net, summary))
  if not summary.blessed:
    raise SystemExit(REFUSED)


@app.command()
def schema(
  net: Annotated[str, typer.Option(help="A net of taskmix.nets.mtcnn; all by default.")] = "",
  write: Annotated[bool, typer.Option("--write", help="Write schemas/, for review.")] = False,
) -> None:
  """Print the schema that follows from a net, or write it to schemas/.

  Example:

      taskmix schema --write && git diff schemas/
  """
  from pipeline.config import REPOSITORY
  from taskmix import schema as schemas
  from taskmix.nets.mtcnn import MTCNN

  for each in MTCNN.nets:
    if net in ("", each.name):
      if write:
        path = REPOSITORY / "schemas" / f"{each.name}.pbtxt"
        schemas.write_schema(each, str(path))
        typer.echo(f"wrote {path}")
      else:
        typer.echo(schemas.schema_of(each))


def _fail(error: Exception, *, code: int, hint: str = "", debug: bool) -> NoReturn:
  if debug:
    raise error
  typer.echo(f"taskmix: {error}", err=True)
  if hint:
    typer.echo(hint, err=True)
  raise SystemExit(code)


def main() -> None:
  """The console script."""
  sys.exit(app())
