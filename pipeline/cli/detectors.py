"""taskmix detect, evaluate, tune, import-weights: detectors and what they find."""

import pathlib
import sys
from typing import Annotated

import typer

from pipeline.cli.shell import (
  REFUSED,
  ConfigName,
  DataFolder,
  Debug,
  Detector,
  Json,
  Set,
  plain_errors,
  print_json,
)
from pipeline.console import quiet_libraries

Annotations = Annotated[str, typer.Option(help="Annotation file in it; it marks every face.")]
Images = Annotated[str, typer.Option(help="Folder in it that the file's paths start from.")]
Format = Annotated[str, typer.Option(help="Of the annotation file.")]


def detect(
  model: Detector,
  photos: Annotated[list[pathlib.Path], typer.Argument(help="Photos, or folders of them.")],
  out: Annotated[pathlib.Path | None, typer.Option(help="Folder for the photos with faces drawn.")] = None,
  min_face: Annotated[float | None, typer.Option(help="Side of the smallest face in pixels.")] = None,
  as_json: Annotated[
    bool, typer.Option("--json/--text", help="A line of JSON a photo, or a line to read.")
  ] = True,
  debug: Debug = False,
) -> None:
  """Print the faces of photos as JSON lines.

  A photo that cannot be read gets a line with its error, and exit code 1.

  Examples:

      taskmix detect released/detector demo/photos --out drawn

      taskmix detect released/detector photo.jpg | jq '.faces | length'

      taskmix detect released/detector demo/photos --text
  """
  with plain_errors(debug=debug), quiet_libraries():
    from taskmix.faces.detect import detect_photos, write_lines, write_text

    write = write_lines if as_json else write_text
    errors = write(detect_photos(model, photos, out=out, min_face=min_face), sys.stdout)
  if errors:
    raise SystemExit(REFUSED)


def tune(
  model: Detector,
  goal: Annotated[str, typer.Argument(help="recall=0.9, precision=0.95 or seconds=0.05 (a photo).")],
  data: Annotated[pathlib.Path, typer.Option(help="Folder of the photos; none was trained on.")],
  annotations: Annotations,
  images: Images = ".",
  format: Format = "wider_face",
  most: Annotated[int, typer.Option(help="Photos to try, spread evenly over all.")] = 100,
  debug: Debug = False,
) -> None:
  """Choose a detector's thresholds for a goal and store them in it.

  Example:

      taskmix tune released/detector recall=0.9 --data demo --annotations bbx_gt.txt
  """
  with plain_errors(debug=debug), quiet_libraries():
    from taskmix.faces.detection_evaluation.held_out import annotated
    from taskmix.faces.tuning import Goal, tune_model

    wanted = Goal.parse(goal)
    held = annotated(format, annotations, images=images, data_root=str(data))
    tuned = tune_model(model, held, wanted, most=most)
    thresholds = ", ".join(f"{each:.4g}" for each in tuned.options.thresholds)
    typer.echo(
      f"thresholds {thresholds}: recall {tuned.recall:.3f}, precision {tuned.precision:.3f}, "
      f"{tuned.seconds:.3f} s a photo"
    )


def evaluate(
  model: Annotated[pathlib.Path, typer.Argument(help="A SavedModel, or the folder of its versions.")],
  data: DataFolder = None,
  annotations: Annotated[str, typer.Option(help="Of a detector's photos: file that marks every face.")] = "",
  images: Images = ".",
  format: Format = "wider_face",
  config: ConfigName = "demo",
  settings: Set = None,
  out: Annotated[
    pathlib.Path | None, typer.Option(help="Folder for a detector's metrics.json, curves, worst photos.")
  ] = None,
  as_json: Json = False,
  debug: Debug = False,
) -> None:
  """Judge a model on annotated photos, outside of a run and by the same figures.

  A detector is judged on an annotation file; the model of a net on what the
  sources of `--config` give. Bounds are the config's; where one does not hold,
  the exit code is 1.

  Examples:

      taskmix evaluate runs/demo/serving/detector --data my_photos --annotations bbx_gt.txt --out judged

      taskmix evaluate runs/cifar10/serving/cifar10 --config cifar10 --data cifar-10-batches-bin --json
  """
  with plain_errors(debug=debug), quiet_libraries():
    from pipeline import evaluate as evaluation
    from pipeline.config import REPOSITORY, load_config

    loaded = load_config(config, settings or ())
    folder = data or REPOSITORY / loaded.data
    if evaluation.is_detector(model):
      if not annotations:
        raise ValueError(
          f"{model} is a detector: give the file that marks the faces, --annotations bbx_gt.txt"
        )
      given = {"annotations": annotations, "images": images, "format": format, "out": out}
      figures = evaluation.detector(model, config=loaded, data=folder, **given)
    else:
      figures = evaluation.net(model, config=loaded, data=folder)
    print_json(figures) if as_json else typer.echo(evaluation.text(figures))
  if not figures["blessed"]:
    raise SystemExit(REFUSED)


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
  with plain_errors(debug=debug):
    from taskmix.faces.import_weights import import_weights as import_released

    for name, path in import_released(out, package=package).items():
      typer.echo(f"{name}: {path}")
