"""taskmix doctor, bench: what is wrong before it goes wrong, and how fast it goes."""

import pathlib
from typing import Annotated

import typer

from pipeline.cli.shell import (
  REFUSED,
  ConfigName,
  DataFolder,
  Debug,
  Json,
  Set,
  plain_errors,
  print_json,
  styled,
)

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


def _names(incomplete: str) -> list[str]:
  from pipeline.benches import BENCHES

  return [name for name in BENCHES if name.startswith(incomplete)]


def doctor(
  config: ConfigName = "demo",
  data: DataFolder = None,
  settings: Set = None,
  runs: Annotated[pathlib.Path, typer.Option(help="Where run folders go.")] = pathlib.Path("runs"),
  quick: Annotated[
    bool, typer.Option("--quick", help="Leave out worker imports and Kubeflow, which take half a minute.")
  ] = False,
  as_json: Json = False,
  debug: Debug = False,
) -> None:
  """Look at the machine, the photos and the config; a line each: ok, warning or error, with the remedy.

  Ends with exit code 1 if there is an error.

  Examples:

      taskmix doctor

      taskmix doctor --config faces --data my_photos --quick

      taskmix doctor --config my_faces/config.py --json | jq '.checks[] | select(.state != "ok")'
  """
  with plain_errors(debug=debug):
    from pipeline.config import REPOSITORY, load_config
    from pipeline.doctor import examine, failed
    from pipeline.doctor.check import no_noise

    loaded = load_config(config, settings or ())
    done = []
    with no_noise():
      for check in examine(loaded, data=data or REPOSITORY / loaded.data, runs=runs, quick=quick):
        done.append(check)
        if not as_json:
          typer.echo(styled(str(check), check.state, _COLOURS[check.state]))
    counts = {state: sum(check.state == state for check in done) for state in _COLOURS}
    if as_json:
      print_json({"checks": done, **counts})
    else:
      typer.echo(", ".join(f"{number} {state}" for state, number in counts.items()))
  if failed(done):
    raise SystemExit(REFUSED)


def bench(
  context: typer.Context,
  name: Annotated[str, typer.Argument(help="Which; none lists them.", autocompletion=_names)] = "",
  debug: Debug = False,
) -> None:
  """Measure ours against a baseline; the last line is JSON. Needs the source tree.

  Options that are not listed here are the benchmark's own.

  Examples:

      taskmix bench

      taskmix bench input

      taskmix bench convert --data my_photos
  """
  with plain_errors(debug=debug):
    from pipeline import benches

    if not name:
      typer.echo(benches.listing())
      return
    code = benches.run(name, context.args)
  if code:
    raise SystemExit(REFUSED)
