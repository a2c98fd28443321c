"""taskmix init, schema: a project's files, and what follows from its nets."""

import pathlib
from typing import Annotated

import typer

from pipeline.cli.shell import Debug, Set, plain_errors


def init(
  folder: Annotated[pathlib.Path, typer.Argument(help="Folder of the photos and their annotations.")],
  name: Annotated[str, typer.Option(help="Of the config; the folder's by default.")] = "",
  force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
  debug: Debug = False,
) -> None:
  """Look at a folder's annotations, and write a config and a net for them, to run and to change.

  Known are the formats of docs/formats.md, and images in a folder a class, or in
  several such folders, one a type of label.

  Example:

      taskmix init my_photos && taskmix run --config my_photos/my_photos_config.py
  """
  with plain_errors(debug=debug):
    from pipeline.start import finding, writing

    found = finding.look(folder)
    for each in found:
      typer.echo(f"found {writing.told(each)}")
    name = name or writing.project_name(folder)
    for path in writing.write(folder, writing.files(name, found), replace=force):
      typer.echo(f"wrote {path}")
    config = folder / f"{name}_config.py"
    typer.echo("\nNext")
    typer.echo(f"  taskmix doctor --config {config}")
    typer.echo(f"  taskmix run --config {config}")


def schema(
  net: Annotated[str, typer.Option(help="One net; all by default.")] = "",
  config: Annotated[str, typer.Option(help="The nets of this config, instead of taskmix's own.")] = "",
  settings: Set = None,
  write: Annotated[bool, typer.Option("--write", help="Write schemas/, for review.")] = False,
  debug: Debug = False,
) -> None:
  """Print the schema that follows from a net, or write it to schemas/.

  Examples:

      taskmix schema --write && git diff schemas/

      taskmix schema --config my_config.py --write
  """
  with plain_errors(debug=debug):
    from pipeline.config import REPOSITORY, load_config, schema_path
    from taskmix import schema as schemas
    from taskmix.nets import every_net

    loaded = load_config(config, settings or ()) if config else None
    for each in loaded.nets if loaded else every_net():
      if net not in ("", each.name):
        continue
      if write:
        path = schema_path(loaded, each) if loaded else REPOSITORY / "schemas" / f"{each.name}.pbtxt"
        schemas.write_schema(each, str(path))
        typer.echo(f"wrote {path}")
      else:
        typer.echo(schemas.schema_of(each))
