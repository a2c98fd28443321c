"""taskmix compile-kubeflow, rehearse-kubeflow, run --runner kubeflow: a config as a job of a cluster."""

import pathlib
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.shell import INTERRUPTED, REFUSED, ConfigName, Debug, Set, fail, plain_errors, print_json

if TYPE_CHECKING:
  from pipeline.config import Config
  from pipeline.runners import RunnerConfig


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


def run(
  config: "Config", *, runner: "RunnerConfig", data: pathlib.Path, folder: pathlib.Path, as_json: bool
) -> None:
  """Compiles the config, hands it to the cluster, and follows it; exits with REFUSED if it does not succeed.

  Args:
    config: what to run.
    runner: with name "kubeflow".
    data: a copy of the data folder on this machine, to check.
    folder: of the config's runs; the job is left there.
    as_json: print the outcome as JSON, and progress on stderr.
  """
  import datetime

  from pipeline.kubeflow import submit
  from pipeline.kubeflow.compile import compile_job, write_job
  from pipeline.progress import line

  submit.endpoint_of(runner.kubeflow)
  name = f"{config.name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
  job = compile_job(config, runner=runner, data=data)
  _, package = write_job(job, runner.kubeflow, folder / "kubeflow" / name)
  submitted = submit.submit(job, package, settings=runner.kubeflow, experiment=config.name, name=name)
  typer.echo(f"taskmix run {config.name} on Kubeflow: {submitted.url}   (job: {package})", err=as_json)

  def ended(step: submit.Step) -> None:
    typer.echo(line(step.name, step.state, step.seconds), err=as_json)

  try:
    outcome = submitted.follow(ended)
  except KeyboardInterrupt:
    typer.echo(f"\nThe run goes on in the cluster: {submitted.url}", err=True)
    raise SystemExit(INTERRUPTED) from None
  if as_json:
    print_json(outcome)
  if outcome.state != "done":
    at = f" at {', '.join(outcome.failed)}" if outcome.failed else ""
    fail(f"the run {outcome.state}{at}; the step's log says why: {outcome.url}", code=REFUSED, debug=False)
  if not as_json:
    typer.echo(f"Done. The report is report.html in {runner.kubeflow.state}: {outcome.url}")


def _parameter(text: str) -> tuple[str, str | int]:
  """NAME=VALUE; a whole number is one."""
  name, equals, value = text.partition("=")
  if not equals:
    raise ValueError(f"--parameter {text!r}: write NAME=VALUE")
  return name, int(value) if value.isdecimal() else value
