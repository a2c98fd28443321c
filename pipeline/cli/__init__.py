"""The command `taskmix`: which commands there are; each is in the module of its group.

Nothing heavy is imported before a command needs it, so that `--help` is quick:
the modules of this package import typer alone, and commands import inside.
"""

import os
import sys
import warnings
from typing import Annotated

import typer

import taskmix
from pipeline.cli import checks, cluster, detectors, models, project, reports, running
from pipeline.cli.shell import BUG, INTERRUPTED, PASS_ON, REFUSED, UNUSABLE

__all__ = ["BUG", "INTERRUPTED", "REFUSED", "UNUSABLE", "app", "main"]

app = typer.Typer(
  name="taskmix",
  help="From annotated photos to a pushed, checked multi-task model.",
  no_args_is_help=True,
  add_completion=True,
  pretty_exceptions_enable=False,
)
versions = typer.Typer(no_args_is_help=True, help="The versions of a pushed model: list, show, roll back.")

# In the order of the help: panel -> name -> function.
_COMMANDS = {
  "From photos to a model": {
    "run": running.run,
    "report": reports.report,
    "convert": running.convert,
  },
  "Detectors": {
    "detect": detectors.detect,
    "evaluate": detectors.evaluate,
    "tune": detectors.tune,
    "import-weights": detectors.import_weights,
  },
  "Projects": {
    "init": project.init,
    "doctor": checks.doctor,
    "schema": project.schema,
    "bench": checks.bench,
  },
  "Kubeflow": {
    "compile-kubeflow": cluster.compile_kubeflow,
    "rehearse-kubeflow": cluster.rehearse_kubeflow,
  },
}
_PASSING_ON = ("run", "convert", "bench")

for _panel, _commands in _COMMANDS.items():
  for _name, _command in _commands.items():
    _settings = PASS_ON if _name in _PASSING_ON else None
    app.command(_name, rich_help_panel=_panel, context_settings=_settings)(_command)

for _name, _command in {
  "list": models.list_models,
  "show": models.show_model,
  "rollback": models.roll_back_model,
  "lineage": models.model_lineage,
}.items():
  versions.command(_name)(_command)
app.add_typer(versions, name="models", rich_help_panel="Detectors")


def _version(wanted: bool) -> None:
  if wanted:
    typer.echo(f"taskmix {taskmix.__version__}")
    raise typer.Exit


@app.callback()
def _main(
  version: Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
  ] = False,
) -> None:
  """From annotated photos to a pushed, checked multi-task model."""


def main() -> None:
  """The console script."""
  # Google's clients warn at import of what their next releases will want.
  warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")
  if os.environ.get("NO_COLOR"):
    # Typer would take FORCE_COLOR or a CI's variable for a terminal.
    os.environ["_TYPER_FORCE_DISABLE_TERMINAL"] = "1"
  sys.exit(app(prog_name="taskmix"))
