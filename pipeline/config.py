"""What one run is: a net, its data, and the settings of each step."""

import dataclasses
import difflib
import importlib
import importlib.util
import pathlib
import pkgutil

import pydantic

from taskmix.gates import GatePolicy
from taskmix.gates.policy import require_columns
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import Conversion, Net, Training

REPOSITORY = pathlib.Path(__file__).parent.parent


@dataclasses.dataclass(frozen=True)
class Config:
  """Everything that decides a run's result.

  Attributes:
    name: names the run folder.
    net: with its sources.
    training: of the net.
    conversion: of photos to examples.
    gate: what the ExampleGate lets pass.
    serving: what the ServingCheck asks, and its budgets.
    keep_versions: pushed versions that stay.
    data: the default data folder, relative to the repository; `--data` wins.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  name: str
  net: Net
  training: Training
  conversion: Conversion = Conversion()
  gate: GatePolicy = GatePolicy()
  serving: ServingPolicy = ServingPolicy()
  keep_versions: int = 5
  data: str = "demo"

  def __post_init__(self):
    if not self.net.sources:
      raise ValueError(f"config {self.name!r}: its net {self.net.name!r} has no sources")
    given = {kind for source in self.net.sources for kind in source.kinds}
    missing = [kind for kind in self.net.mixture.names if kind not in given]
    if missing:
      raise ValueError(f"config {self.name!r}: no source gives the kind {', '.join(missing)}")
    require_columns(self.gate, self.net)
    # Found here, on the launcher, rather than an hour later in the Trainer.
    self.net.mixture.counts(self.training.batch_size)


def config_names() -> list[str]:
  """The configs that come with taskmix."""
  from pipeline import configs

  return sorted(module.name for module in pkgutil.iter_modules(configs.__path__))


def load_config(name: str) -> Config:
  """The config of that name, or of that Python file.

  Args:
    name: a module of `pipeline.configs`, or the path of a .py file of your own;
      either defines `CONFIG`.

  Raises:
    ValueError: if there is none, naming the nearest.
  """
  if name.endswith(".py"):
    path = pathlib.Path(name)
    if not path.is_file():
      raise ValueError(f"no config file {name}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
  else:
    if name not in config_names():
      near = difflib.get_close_matches(name, config_names(), n=1)
      hint = f"; did you mean {near[0]}?" if near else ""
      raise ValueError(
        f"no config {name!r}; there is {', '.join(config_names())}, or give the path of a .py file{hint}"
      )
    module = importlib.import_module(f"pipeline.configs.{name}")
  config = getattr(module, "CONFIG", None)
  if not isinstance(config, Config):
    raise ValueError(f"{name} must define CONFIG, a pipeline.config.Config")
  return config
