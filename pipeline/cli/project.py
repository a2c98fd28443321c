"""taskmix schema: what follows from a project's nets."""

from typing import Annotated

import typer

from pipeline.cli.shell import Debug, plain_errors


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
  with plain_errors(debug=debug):
    from pipeline.config import REPOSITORY, load_config
    from taskmix import schema as schemas
    from taskmix.nets import every_net

    for each in load_config(config).nets if config else every_net():
      if net not in ("", each.name):
        continue
      if write:
        path = REPOSITORY / "schemas" / f"{each.name}.pbtxt"
        schemas.write_schema(each, str(path))
        typer.echo(f"wrote {path}")
      else:
        typer.echo(schemas.schema_of(each))
