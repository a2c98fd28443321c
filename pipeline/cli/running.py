"""taskmix run, convert: from photos to a pushed model, or to examples."""

import pathlib
from typing import Annotated

import typer

from pipeline.cli import cluster
from pipeline.cli.shell import (
  REFUSED,
  ConfigName,
  DataFolder,
  Debug,
  Json,
  Set,
  fail,
  plain_errors,
  print_json,
)


def run(
  context: typer.Context,
  config: ConfigName = "demo",
  settings: Set = None,
  data: DataFolder = None,
  runs: Annotated[pathlib.Path, typer.Option(help="Where run folders go.")] = pathlib.Path("runs"),
  net: Annotated[str, typer.Option(help="Run a part: up to this net, and push nothing.")] = "",
  runner: Annotated[
    str, typer.Option(help="direct, flink, dataflow, portable or kubeflow, or a RunnerConfig's .json file.")
  ] = "direct",
  print_config: Annotated[
    bool, typer.Option("--print-config", help="Print every field as --set takes it, and run nothing.")
  ] = False,
  as_json: Json = False,
  debug: Debug = False,
) -> None:
  """Run a whole pipeline; what is done already comes from the cache.

  The components run on this machine, one after the other; `--runner` says where
  their Beam jobs do. With `--runner kubeflow` the whole run is a Kubeflow cluster's,
  and is followed from here. Options that are not listed here are Beam's own.

  Examples:

      taskmix run --config demo

      taskmix run --config demo --net pnet

      taskmix run --config demo --set train.steps=500 --set pnet.train.batch_size=224

      taskmix run --config my_faces/config.py --print-config

      taskmix run --config faces --data my_photos

      taskmix run --config faces --data my_photos --runner flink --flink_master=jobmanager:8081

      taskmix run --config faces --data my_photos --runner cluster.json
  """
  # Imports take seconds too, in which a person may press Ctrl-C.
  with plain_errors(debug=debug, interrupted="The same command goes on from what was done."):
    from pipeline import run as pipeline_run
    from pipeline import summary as summaries
    from pipeline.config import REPOSITORY, load_config
    from pipeline.folders import RunFolder
    from pipeline.runners import load_runner, run_args
    from pipeline.settings import lines

    loaded = load_config(config, settings or ())
    if print_config:
      print_json(loaded) if as_json else typer.echo("\n".join(lines(loaded)))
      return
    folder, where = RunFolder((runs / loaded.name).resolve()), load_runner(runner)
    if where.name == "kubeflow":
      strays = ["--net"] if net else context.args
      if strays:
        raise ValueError(f"no option {strays[0]} on Kubeflow, which runs the whole job; see docs/kubeflow.md")
      photos = data or REPOSITORY / loaded.data
      cluster.run(loaded, runner=where, data=photos, folder=folder.root, as_json=as_json)
      return
    try:
      summary = pipeline_run.run(
        loaded,
        data=data or REPOSITORY / loaded.data,
        folder=folder,
        through=net,
        beam_args=run_args(where, context.args),
        to_stderr=as_json,
      )
    except pipeline_run.RunError as error:
      fail(error, code=REFUSED, hint=f"Log: {error.log}", debug=debug)
    print_json(summaries.as_json(summary)) if as_json else typer.echo(summaries.text(summary))
  if not summary.blessed:
    raise SystemExit(REFUSED)


def convert(
  context: typer.Context,
  output: Annotated[str, typer.Argument(help="Folder to make: local, gs:// or s3://.")],
  config: ConfigName = "demo",
  settings: Set = None,
  net: Annotated[str, typer.Option(help="Which of the config's nets; its first by default.")] = "",
  data: Annotated[str, typer.Option(help="The data folder; the config's own by default.")] = "",
  runner: Annotated[
    str,
    typer.Option(help="direct, flink, dataflow, portable, a RunnerConfig's .json file, or Beam's own name."),
  ] = "direct",
  overwrite: Annotated[
    bool, typer.Option("--overwrite", help="Replace a finished conversion at OUTPUT.")
  ] = False,
  debug: Debug = False,
) -> None:
  """Turn annotated photos into sharded, shuffled TFRecords, without a pipeline.

  Options that are not listed here are Beam's own and are passed on.

  Examples:

      taskmix convert out --config demo

      taskmix convert gs://bucket/crops --config faces --data gs://bucket/photos \\
        --runner dataflow --project P --region R --temp_location gs://bucket/tmp
  """
  from pipeline.config import REPOSITORY, load_config
  from pipeline.runners import convert_args
  from taskmix.examples.convert import convert_command

  with plain_errors(debug=debug):
    loaded = load_config(config, settings or ())
    engine, *beam_args = convert_args(runner, context.args)
    convert_command(
      loaded.through(net or loaded.nets[0].name)[-1].net,
      data=data or str(REPOSITORY / loaded.data),
      output=output,
      conversion=loaded.conversion,
      runner=engine.removeprefix("--runner="),
      beam_args=beam_args,
      overwrite=overwrite,
      say=typer.echo,
    )
