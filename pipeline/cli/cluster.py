"""taskmix compile-kubeflow, rehearse-kubeflow: a config as a job of a cluster."""

import pathlib
from typing import Annotated

import typer

from pipeline.cli.shell import REFUSED, ConfigName, Debug, Set, fail, plain_errors


def compile_kubeflow(
  output: Annotated[pathlib.Path, typer.Argument(help="Files to write, without .json and .yaml.")],
  config: ConfigName = "demo",
  settings: Set = None,
  data: Annotated[
    pathlib.Path | None, typer.Option(help="A copy of the data folder on this machine, to check.")
  ] = None,
  runner: Annotated[
    str, typer.Option(help="A RunnerConfig's .json file: images, places, resources.")
  ] = "kubeflow",
  debug: Debug = False,
) -> None:
  """Compile a config to a job of Kubeflow Pipelines; see docs/kubeflow.md.

  Example:

      taskmix compile-kubeflow job/faces --config faces --data my_photos --runner cluster.json
  """
  with plain_errors(debug=debug):
    from pipeline.config import REPOSITORY, load_config
    from pipeline.runners import load_runner

    loaded, where = load_config(config, settings or ()), load_runner(runner)
    from pipeline.kubeflow.compile import compile_job, write_job

    job = compile_job(loaded, runner=where, data=data or REPOSITORY / loaded.data)
    for path in write_job(job, where.kubeflow, output):
      typer.echo(f"wrote {path}")


def rehearse_kubeflow(
  job: Annotated[pathlib.Path, typer.Argument(help="The .json file of compile-kubeflow.")],
  folder: Annotated[pathlib.Path, typer.Option(help="Where everything goes.")] = pathlib.Path("rehearsal"),
  parameter: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the run; may be repeated.")] = None,
  python: Annotated[
    pathlib.Path | None, typer.Option(help="An interpreter with the image's packages; made by default.")
  ] = None,
  debug: Debug = False,
) -> None:
  """Run every step of a compiled job here, by its own command, as the cluster would.

  Example:

      taskmix rehearse-kubeflow job/faces.json --parameter data=$PWD/my_photos --parameter steps_pnet=20
  """
  with plain_errors(debug=debug):
    import json

    from pipeline.kubeflow import rehearse

    def ended(done: rehearse.Done) -> None:
      typer.echo(f"  {done.name:<28} {done.seconds:6.1f} s")

    given = dict(_parameter(each) for each in parameter or ())
    loaded = json.loads(job.read_text())
    python = python or rehearse.build_environment(pathlib.Path.home() / ".cache" / "taskmix", say=typer.echo)
    try:
      rehearse.rehearse(loaded, python=python, folder=folder, parameters=given, ended=ended)
    except rehearse.RehearsalError as error:
      fail(error, code=REFUSED, debug=debug)
  typer.echo(f"Every step ran. What they left is in {folder}")


def _parameter(text: str) -> tuple[str, str | int]:
  """NAME=VALUE; a whole number is one."""
  name, equals, value = text.partition("=")
  if not equals:
    raise ValueError(f"--parameter {text!r}: write NAME=VALUE")
  return name, int(value) if value.isdecimal() else value
