"""taskmix models: the versions of a pushed model."""

import pathlib
from typing import Annotated

import typer

from pipeline.cli.shell import Debug, Json, plain_errors, print_json

Folder = Annotated[pathlib.Path, typer.Argument(help="The folder that a server watches.")]
Served = Annotated[int | None, typer.Argument(help="The one that is served by default.")]


def list_models(folder: Folder, as_json: Json = False, debug: Debug = False) -> None:
  """List the versions, newest first.

  Example:

      taskmix models list runs/demo/serving/detector
  """
  with plain_errors(debug=debug):
    from taskmix.serving import versions

    found = versions.list_versions(folder)
    print_json(found) if as_json else typer.echo(versions.listing(found))


def show_model(folder: Folder, version: Served = None, as_json: Json = False, debug: Debug = False) -> None:
  """Show a version's blessing, metrics and lineage.

  Examples:

      taskmix models show runs/demo/serving/detector

      taskmix models show runs/demo/serving/detector --json | jq .record.metrics
  """
  with plain_errors(debug=debug):
    from taskmix.serving import versions

    found = versions.show_version(folder, version)
    print_json(found) if as_json else typer.echo(versions.details(found))


def roll_back_model(
  folder: Folder,
  version: Annotated[int | None, typer.Argument(help="The last other one by default.")] = None,
  as_json: Json = False,
  debug: Debug = False,
) -> None:
  """Publish an older version once more, as the newest.

  Example:

      taskmix models rollback runs/demo/serving/detector
  """
  with plain_errors(debug=debug):
    from taskmix.serving import versions

    made = versions.rollback(folder, version)
    print_json(made) if as_json else typer.echo(versions.details(made))


def model_lineage(
  folder: Folder,
  version: Served = None,
  photos: Annotated[bool, typer.Option("--photos", help="Print the photos as JSON lines.")] = False,
  as_json: Json = False,
  debug: Debug = False,
) -> None:
  """Tell what a version was made from, back to the hashes of the photos.

  The folder must lie in the run folder that pushed it.

  Examples:

      taskmix models lineage runs/demo/serving/detector

      taskmix models lineage runs/demo/serving/detector --photos
  """
  with plain_errors(debug=debug):
    import dataclasses
    import json

    from pipeline import lineage
    from pipeline.folders import RunFolder
    from taskmix.serving import versions

    shown = versions.show_version(folder, version)
    found = lineage.ancestors(RunFolder(folder.resolve().parent.parent), pathlib.Path(shown.path))
    if photos:
      for photo in lineage.photos(found):
        typer.echo(json.dumps(dataclasses.asdict(photo)))
    elif as_json:
      print_json({"ancestors": found, "photos": lineage.photos(found)})
    else:
      typer.echo(lineage.text(found))
