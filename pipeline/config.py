"""What one run is: nets, their data, and the settings of each step."""

import dataclasses
import difflib
import importlib
import importlib.util
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Sequence

import pydantic

from pipeline.configs import config_names
from pipeline.settings import apply
from taskmix.evaluation import EvaluationPolicy
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.faces.mining import Mining
from taskmix.fields import dataclasses_below, field_names, nearest
from taskmix.gates import GatePolicy
from taskmix.gates.policy import require_columns
from taskmix.report.card import CardNotes
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
    wider_lists: of a cascade that is held to WIDER FACE's validation photos, the
      folder of its official easy, medium and hard lists (.mat), relative to the
      data folder; "" for none.
    serving: what the ServingCheck asks, and its budgets.
    keep_versions: pushed versions that stay.
    card: what the model card says that no artifact knows: what the model is for,
      and the licence of its data.
    data: the default data folder, relative to the repository; `--data` wins.
    schemas: folder of the nets' curated schemas; "" is the repository's schemas/.
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
  wider_lists: str = ""
  serving: ServingPolicy = ServingPolicy()
  keep_versions: int = 5
  card: CardNotes = CardNotes()
  data: str = "demo"
  schemas: str = ""

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


def schema_path(config: Config, net: Net) -> pathlib.Path:
  """Where the curated schema of one of the config's nets is, or will be."""
  folder = pathlib.Path(config.schemas) if config.schemas else REPOSITORY / "schemas"
  return folder / f"{net.name}.pbtxt"


def node_id(component: str, net: Net) -> str:
  """The id of a net's component in a pipeline: "Trainer-pnet"."""
  return f"{component}-{net.name}"


def load_config(name: str, settings: Sequence[str] = ()) -> Config:
  """The config of that name, or of that Python file.

  Args:
    name: a module of `pipeline.configs`, or the path of a .py file of your own;
      either defines `CONFIG`. Modules beside the file can be imported, as from a
      script.
    settings: "FIELD=VALUE" each, as of `pipeline.settings`.

  Raises:
    ValueError: if there is none, naming the nearest; if the file cannot be run, or
      gives a field that there is not; for settings that do not fit.
  """
  if name.endswith(".py"):
    module = _run_file(pathlib.Path(name))
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
  return apply(config, settings)


def _run_file(path: pathlib.Path) -> types.ModuleType:
  """The module of a config file; raises ValueError with the line where it fails."""
  if not path.is_file():
    raise ValueError(f"no config file {path}")
  folder = str(path.resolve().parent)
  if folder not in sys.path:
    # Before the installed: what lies beside the config is meant.
    sys.path.insert(0, folder)
  spec = importlib.util.spec_from_file_location(path.stem, path)
  assert spec and spec.loader
  module = importlib.util.module_from_spec(spec)
  try:
    spec.loader.exec_module(module)
  except Exception as error:
    raise ValueError(f"{path}{_line_of(error, path)}: {_reason(error)}") from error
  return module


def _line_of(error: Exception, path: pathlib.Path) -> str:
  """ ":12", the last line of the file that was at work."""
  if isinstance(error, SyntaxError):
    return f":{error.lineno}"
  frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
  return f":{frames[-1].lineno}" if frames else ""


def _reason(error: Exception) -> str:
  """The error in words; the nearest field to one that a dataclass of ours has not."""
  found = re.match(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error))
  known = dataclasses_below(Config)
  if isinstance(error, TypeError) and found and found[1] in known:
    return f"{found[1]} has no field {found[2]!r}{nearest(found[2], field_names(known[found[1]]))}"
  return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
