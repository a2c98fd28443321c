"""The command `taskmix`.

Nothing heavy is imported before a command needs it, so that `--help` is quick.
"""

import contextlib
import os
import pathlib
import sys
import warnings
from collections.abc import Iterator
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


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
  context: typer.Context,
  config: Annotated[
    str, typer.Option(help="A config's name, or a Python file that defines CONFIG.")
  ] = "demo",
  data: Annotated[
    pathlib.Path | None, typer.Option(help="The data folder; the config's own by default.")
  ] = None,
  runs: Annotated[pathlib.Path, typer.Option(help="Where run folders go.")] = pathlib.Path("runs"),
  net: Annotated[str, typer.Option(help="Run a part: up to this net, and push nothing.")] = "",
  runner: Annotated[
    str, typer.Option(help="direct, flink, dataflow or portable, or a RunnerConfig's .json file.")
  ] = "direct",
  debug: Debug = False,
) -> None:
  """Run a whole pipeline; what is done already comes from the cache.

  The components run on this machine, one after the other; `--runner` says where
  their Beam jobs do. Options that are not listed here are Beam's own.

  Examples:

      taskmix run --config demo

      taskmix run --config demo --net pnet

      taskmix run --config faces --data my_photos

      taskmix run --config faces --data my_photos --runner flink --flink_master=jobmanager:8081
  """
  # Imports take seconds too, in which a person may press Ctrl-C.
  with _plain_errors(debug=debug, interrupted="The same command goes on from what was done."):
    from pipeline import run as pipeline_run
    from pipeline import summary as summaries
    from pipeline.config import REPOSITORY, load_config
    from pipeline.folders import RunFolder
    from pipeline.runners import run_args

    loaded = load_config(config)
    folder = RunFolder((runs / loaded.name).resolve())
    try:
      summary = pipeline_run.run(
        loaded,
        data=data or REPOSITORY / loaded.data,
        folder=folder,
        through=net,
        beam_args=run_args(runner, context.args),
      )
    except pipeline_run.RunError as error:
      _fail(error, code=REFUSED, hint=f"Log: {error.log}", debug=debug)
    typer.echo(summaries.text(summary))
  if not summary.blessed:
    raise SystemExit(REFUSED)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def convert(
  context: typer.Context,
  output: Annotated[str, typer.Argument(help="Folder to make: local, gs:// or s3://.")],
  config: Annotated[
    str, typer.Option(help="A config's name, or a Python file that defines CONFIG.")
  ] = "demo",
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

  with _plain_errors(debug=debug):
    loaded = load_config(config)
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


@app.command("compile-kubeflow")
def compile_kubeflow(
  output: Annotated[pathlib.Path, typer.Argument(help="Files to write, without .json and .yaml.")],
  config: Annotated[
    str, typer.Option(help="A config's name, or a Python file that defines CONFIG.")
  ] = "demo",
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
  from pipeline.config import REPOSITORY, load_config
  from pipeline.runners import load_runner

  with _plain_errors(debug=debug):
    loaded, settings = load_config(config), load_runner(runner)
    from pipeline.kubeflow.compile import compile_job, write_job

    job = compile_job(loaded, runner=settings, data=data or REPOSITORY / loaded.data)
    for path in write_job(job, settings.kubeflow, output):
      typer.echo(f"wrote {path}")


@app.command("rehearse-kubeflow")
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
  import json

  from pipeline.kubeflow import rehearse

  def ended(done: rehearse.Done) -> None:
    typer.echo(f"  {done.name:<28} {done.seconds:6.1f} s")

  with _plain_errors(debug=debug):
    given = dict(_parameter(each) for each in parameter or ())
    loaded = json.loads(job.read_text())
    python = python or rehearse.build_environment(pathlib.Path.home() / ".cache" / "taskmix", say=typer.echo)
    try:
      rehearse.rehearse(loaded, python=python, folder=folder, parameters=given, ended=ended)
    except rehearse.RehearsalError as error:
      _fail(error, code=REFUSED, debug=debug)
  typer.echo(f"Every step ran. What they left is in {folder}")


def _parameter(text: str) -> tuple[str, str | int]:
  """NAME=VALUE; a whole number is one."""
  name, equals, value = text.partition("=")
  if not equals:
    raise ValueError(f"--parameter {text!r}: write NAME=VALUE")
  return name, int(value) if value.isdecimal() else value


models = typer.Typer(no_args_is_help=True, help="The versions of a pushed model: list, show, roll back.")
app.add_typer(models, name="models")
ModelFolder = Annotated[pathlib.Path, typer.Argument(help="The folder that a server watches.")]


@models.command("list")
def list_models(folder: ModelFolder, debug: Debug = False) -> None:
  """List the versions, newest first.

  Example:

      taskmix models list runs/demo/serving/detector
  """
  from taskmix.serving import versions

  with _plain_errors(debug=debug):
    typer.echo(versions.listing(versions.list_versions(folder)))


@models.command("show")
def show_model(
  folder: ModelFolder,
  version: Annotated[int | None, typer.Argument(help="The one that is served by default.")] = None,
  debug: Debug = False,
) -> None:
  """Show a version's blessing, metrics and lineage.

  Example:

      taskmix models show runs/demo/serving/detector
  """
  from taskmix.serving import versions

  with _plain_errors(debug=debug):
    typer.echo(versions.details(versions.show_version(folder, version)))


@models.command("rollback")
def roll_back_model(
  folder: ModelFolder,
  version: Annotated[int | None, typer.Argument(help="The last other one by default.")] = None,
  debug: Debug = False,
) -> None:
  """Publish an older version once more, as the newest.

  Example:

      taskmix models rollback runs/demo/serving/detector
  """
  from taskmix.serving import versions

  with _plain_errors(debug=debug):
    typer.echo(versions.details(versions.rollback(folder, version)))


@models.command("lineage")
def model_lineage(
  folder: ModelFolder,
  version: Annotated[int | None, typer.Argument(help="The one that is served by default.")] = None,
  photos: Annotated[bool, typer.Option("--photos", help="Print the photos as JSON lines.")] = False,
  debug: Debug = False,
) -> None:
  """Tell what a version was made from, back to the hashes of the photos.

  The folder must lie in the run folder that pushed it.

  Examples:

      taskmix models lineage runs/demo/serving/detector

      taskmix models lineage runs/demo/serving/detector --photos
  """
  import dataclasses
  import json

  from pipeline import lineage
  from pipeline.folders import RunFolder
  from taskmix.serving import versions

  with _plain_errors(debug=debug):
    shown = versions.show_version(folder, version)
    found = lineage.ancestors(RunFolder(folder.resolve().parent.parent), pathlib.Path(shown.path))
    if not photos:
      typer.echo(lineage.text(found))
      return
    for photo in lineage.photos(found):
      typer.echo(json.dumps(dataclasses.asdict(photo)))


@app.command()
def detect(
  model: Annotated[
    pathlib.Path, typer.Argument(help="A detector's SavedModel, or the folder of its versions.")
  ],
  photos: Annotated[list[pathlib.Path], typer.Argument(help="Photos, or folders of them.")],
  out: Annotated[pathlib.Path | None, typer.Option(help="Folder for the photos with faces drawn.")] = None,
  min_face: Annotated[float | None, typer.Option(help="Side of the smallest face in pixels.")] = None,
  debug: Debug = False,
) -> None:
  """Print the faces of photos as JSON lines.

  A photo that cannot be read gets a line with its error, and exit code 1.

  Example:

      taskmix detect released/detector demo/photos --out drawn
  """
  _fast_kernels()
  from taskmix.faces.detect import detect_photos, write_lines

  with _plain_errors(debug=debug):
    errors = write_lines(detect_photos(model, photos, out=out, min_face=min_face), sys.stdout)
  if errors:
    raise SystemExit(REFUSED)


@app.command()
def tune(
  model: Annotated[
    pathlib.Path, typer.Argument(help="A detector's SavedModel, or the folder of its versions.")
  ],
  goal: Annotated[str, typer.Argument(help="recall=0.9, precision=0.95 or seconds=0.05 (a photo).")],
  data: Annotated[pathlib.Path, typer.Option(help="Folder of the photos; none was trained on.")],
  annotations: Annotated[str, typer.Option(help="Annotation file in it; it marks every face.")],
  images: Annotated[str, typer.Option(help="Folder in it that the file's paths start from.")] = ".",
  format: Annotated[str, typer.Option(help="Of the annotation file.")] = "wider_face",
  most: Annotated[int, typer.Option(help="Photos to try, spread evenly over all.")] = 100,
  debug: Debug = False,
) -> None:
  """Choose a detector's thresholds for a goal and store them in it.

  Example:

      taskmix tune released/detector recall=0.9 --data demo --annotations bbx_gt.txt
  """
  _fast_kernels()
  from taskmix.faces.detection_evaluation.held_out import annotated
  from taskmix.faces.tuning import Goal, tune_model

  with _plain_errors(debug=debug):
    wanted = Goal.parse(goal)
    held = annotated(format, annotations, images=images, data_root=str(data))
    tuned = tune_model(model, held, wanted, most=most)
    thresholds = ", ".join(f"{each:.4g}" for each in tuned.options.thresholds)
    typer.echo(
      f"thresholds {thresholds}: recall {tuned.recall:.3f}, precision {tuned.precision:.3f}, "
      f"{tuned.seconds:.3f} s a photo"
    )


def _fast_kernels() -> None:
  """Has TensorFlow, which is not loaded yet, use oneDNN's kernels: a third less time a photo.

  It does so by itself on processors with AVX-512 VNNI only.
  """
  os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


@app.command("import-weights")
def import_weights(
  out: Annotated[pathlib.Path, typer.Argument(help="Folder for the nets' weights and the detector.")],
  package: Annotated[
    pathlib.Path | None, typer.Option(help="Folder that holds the package `mtcnn`, if it is not installed.")
  ] = None,
  debug: Debug = False,
) -> None:
  """Turn the released MTCNN weights (PyPI: mtcnn 1.0.0) into our nets and a detector.

  Example:

      pip install --target mtcnn_release --no-deps mtcnn==1.0.0 lz4

      taskmix import-weights released --package mtcnn_release
  """
  from taskmix.faces.import_weights import import_weights as import_released

  with _plain_errors(debug=debug):
    for name, path in import_released(out, package=package).items():
      typer.echo(f"{name}: {path}")


@app.command()
def schema(
  net: Annotated[str, typer.Option(help="One net; all by default.")] = "",
  config: Annotated[str, typer.Option(help="The nets of this config, instead of taskmix's own.")] = "",
  write: Annotated[bool, typer.Option("--write", help="Write schemas/, for review.")] = False,
  debug: Debug = False,
) -> None:
  """Print the schema that follows from a net, or write it to schemas/.

  Examples:

      taskmix schema --write && git diff schemas/

      taskmix schema --config my_config.py --write
  """
  from pipeline.config import REPOSITORY, load_config
  from taskmix import schema as schemas
  from taskmix.nets import every_net

  with _plain_errors(debug=debug):
    for each in load_config(config).nets if config else every_net():
      if net not in ("", each.name):
        continue
      if write:
        path = REPOSITORY / "schemas" / f"{each.name}.pbtxt"
        schemas.write_schema(each, str(path))
        typer.echo(f"wrote {path}")
      else:
        typer.echo(schemas.schema_of(each))


@contextlib.contextmanager
def _plain_errors(*, debug: bool, interrupted: str = "") -> Iterator[None]:
  """Ends the command with a user's mistake as one line, without its stack trace.

  Args:
    debug: raise it instead.
    interrupted: what to say of Ctrl-C beside that it was pressed.
  """
  try:
    yield
  except (ValueError, OSError, ImportError) as error:
    from pipeline.run import remedy

    _fail(error, code=UNUSABLE, hint=remedy(error), debug=debug)
  except KeyboardInterrupt:
    typer.echo(f"\nInterrupted. {interrupted}".rstrip(), err=True)
    sys.stdout.flush()
    # Not by SystemExit: Python would wait for the threads of Beam and TensorFlow,
    # which go on with what they were at. A kill at any time is safe, so is this.
    os._exit(INTERRUPTED)


def _fail(error: Exception, *, code: int, hint: str = "", debug: bool) -> NoReturn:
  if debug:
    raise error
  typer.echo(f"taskmix: {error}", err=True)
  if hint:
    typer.echo(hint, err=True)
  raise SystemExit(code)


def main() -> None:
  """The console script."""
  # Google's clients warn at import of what their next releases will want.
  warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")
  sys.exit(app())
