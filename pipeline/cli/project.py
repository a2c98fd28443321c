"""taskmix schema: what follows from a project's nets."""

from typing import Annotated

import typer

from pipeline.cli.shell import Debug, Set, plain_errors


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
