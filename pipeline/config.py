"""What one run is: nets, their data, and the settings of each step."""

import dataclasses
import difflib
import importlib
import importlib.util
import pathlib

import pydantic

from pipeline.configs import config_names
from taskmix.evaluation import EvaluationPolicy
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.faces.mining import Mining
from taskmix.gates import GatePolicy
from taskmix.gates.policy import require_columns
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import Conversion, Net, Training

REPOSITORY = pathlib.Path(__file__).parent.parent


@dataclasses.dataclass(frozen=True)
class Stage:
  """A net, and how it is trained.

  Attributes:
    net: with its sources.
    training: of the net.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  net: Net
  training: Training

  def __post_init__(self):
    net = self.net
    if not net.sources:
      raise ValueError(f"net {net.name!r} has no sources")
    given = {kind for source in net.sources for kind in source.kinds}
    missing = [kind for kind in net.mixture.names if kind not in given]
    if missing:
      raise ValueError(f"net {net.name!r}: no source gives the kind {', '.join(missing)}")
    # Found here, on the launcher, rather than an hour later in the Trainer.
    net.mixture.counts(self.training.batch_size)


@dataclasses.dataclass(frozen=True)
class Config:
  """Everything that decides a run's result.

  One stage trains a net and pushes it. Several are a cascade: each net is trained
  on what the blessed ones before it take for faces, and what is pushed is the
  detector that they make together.

  Attributes:
    name: names the run folder.
    stages: the nets, in the order in which they see a photo; at most three.
    conversion: of photos to examples.
    mining: what the nets before a stage are asked for.
    gate: what the ExampleGate lets pass.
    evaluation: which checks of a net's metrics only warn; its bounds are the net's.
    goal: of a cascade, what the detector's thresholds must reach on the held-out
      photos: "recall=0.9", "precision=0.95" or "seconds=0.05" a photo; "" keeps
      those of Zhang et al. 2016's release.
    detection: what a cascade's detector must keep to on the held-out photos.
    reference: of a cascade, folder of a detector to compare with, such as the one
      that `taskmix import-weights` writes; "" for none.
    serving: what the ServingCheck asks, and its budgets.
    keep_versions: pushed versions that stay.
    data: the default data folder, relative to the repository; `--data` wins.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  name: str
  stages: tuple[Stage, ...]
  conversion: Conversion = Conversion()
  mining: Mining = Mining()
  gate: GatePolicy = GatePolicy()
  evaluation: EvaluationPolicy = EvaluationPolicy()
  goal: str = ""
  detection: DetectionPolicy = DetectionPolicy()
  reference: str = ""
  serving: ServingPolicy = ServingPolicy()
  keep_versions: int = 5
  data: str = "demo"

  def __post_init__(self):
    if not 1 <= len(self.stages) <= 3:
      raise ValueError(f"config {self.name!r}: one to three stages, not {len(self.stages)}")
    names = [net.name for net in self.nets]
    if len(set(names)) < len(names):
      raise ValueError(f"config {self.name!r}: every net needs a name of its own, not {', '.join(names)}")
    for net in self.nets:
      require_columns(self.gate, net)

  @property
  def nets(self) -> tuple[Net, ...]:
    return tuple(stage.net for stage in self.stages)

  def through(self, net: str) -> tuple[Stage, ...]:
    """The stages up to that of `net`; all for "".

    Raises:
      ValueError: if no stage has it.
    """
    names = [each.name for each in self.nets]
    if net and net not in names:
      raise ValueError(f"config {self.name!r} has no net {net!r}; there is {', '.join(names)}")
    return self.stages[: names.index(net) + 1] if net else self.stages


def node_id(component: str, net: Net) -> str:
  """The id of a net's component in a pipeline: "Trainer-pnet"."""
  return f"{component}-{net.name}"


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
