"""Whether this machine, these photos and this config can make a model; each doubt with its remedy.

machine.py   what any run needs of the machine
data.py      the config's photos: counts a kind, and how long the ratio holds
far.py       whether workers elsewhere and Kubeflow would understand the pipeline
"""

import pathlib
from collections.abc import Iterator

from pipeline.config import REPOSITORY, Config
from pipeline.doctor.check import Check, failed
from pipeline.folders import RunFolder

__all__ = ["Check", "examine", "failed"]


def examine(
  config: Config, *, data: pathlib.Path, runs: pathlib.Path, quick: bool = False
) -> Iterator[Check]:
  """Every check, as each is done.

  Args:
    config: that is to be run.
    data: its data folder.
    runs: where run folders go.
    quick: leave out what takes half a minute: far.py.
  """
  from pipeline.doctor import data as photos
  from pipeline.doctor import far, machine

  yield from machine.checks(RunFolder(runs.resolve() / config.name), lock=REPOSITORY / "requirements.lock")
  yield from photos.checks(config, data)
  if not quick:
    yield from far.checks(config, data)
