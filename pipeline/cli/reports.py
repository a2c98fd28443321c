"""taskmix report: what a run came to, and what changed from one run to another."""

import pathlib
from typing import Annotated

import typer

from pipeline.cli.shell import Debug, Json, plain_errors, print_json


def report(
  run: Annotated[
    list[pathlib.Path], typer.Argument(help="A run folder, or the folder of one report in its artifacts.")
  ],
  out: Annotated[pathlib.Path | None, typer.Option(help="The page to write; report.html by default.")] = None,
  compare: Annotated[
    bool, typer.Option("--compare", help="Tell what changed from RUN to a second RUN.")
  ] = False,
  mlflow: Annotated[
    str, typer.Option(metavar="URI", help="Log the run to this MLflow server or folder as well.")
  ] = "",
  as_json: Json = False,
  debug: Debug = False,
) -> None:
  """Write the page of a run anew, or compare two runs.

  Examples:

      taskmix report runs/demo

      taskmix report runs/demo --out demo.html

      taskmix report --compare runs/before/demo runs/demo

      taskmix report runs/demo --mlflow file:mlruns
  """
  with plain_errors(debug=debug):
    from pipeline import reports

    if compare:
      if len(run) != 2:
        raise ValueError(f"--compare takes two runs, not {len(run)}")
      compared = reports.compare_runs(*run, out=out)
      if as_json:
        print_json(compared.differences)
        return
      typer.echo(compared.text)
      typer.echo(f"Page: {compared.page}", err=True)
      return
    if len(run) != 1:
      raise ValueError(f"one run, not {len(run)}; --compare takes two")
    written = reports.write_report(run[0], out=out)
    if mlflow:
      reports.log_to_mlflow(run[0], uri=mlflow)
    print_json({"report": written}) if as_json else typer.echo(str(written))
