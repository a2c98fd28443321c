"""Which engine runs a pipeline: one config, many runners.

    RunnerConfig ─► Beam pipeline arguments ─► every Beam component
                                               (examples, statistics, Transform,
                                               mining, Evaluator) and `taskmix convert`

A short name stands for the defaults; a JSON file holds settings of your own:

    {"name": "dataflow", "dataflow": {"project": "p", "region": "europe-west4",
     "temp_location": "gs://bucket/tmp", "max_workers": 50}}
"""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Literal, get_args

import pydantic

from pipeline.kubeflow.settings import Kubeflow
from taskmix.spec import from_json, to_json

_STRICT = pydantic.ConfigDict(extra="forbid")

Name = Literal["direct", "flink", "dataflow", "portable", "kubeflow"]
Engine = Literal["direct", "flink", "dataflow", "portable"]
NAMES: tuple[str, ...] = get_args(Name)

# The repository of a checkout; where taskmix is installed, there is no setup.py to stage.
_SETUP = pathlib.Path(__file__).parent.parent / "setup.py"


@dataclasses.dataclass(frozen=True)
class Workers:
  """Where a portable engine runs our Python code.

  Attributes:
    environment: "LOOPBACK" runs it in the process that submits, for trying out;
      "PROCESS" starts `config` on every worker machine; "EXTERNAL" asks the
      worker pool at `config`, host:port, such as a sidecar has; "DOCKER" starts
      the image `config`. "" leaves it to the engine.
    config: as above; for "PROCESS" a JSON object with "command" and "env".
    processes: Python processes a worker machine; 0 lets the engine choose.
  """

  __pydantic_config__ = _STRICT

  environment: Literal["", "LOOPBACK", "PROCESS", "EXTERNAL", "DOCKER"] = ""
  config: str = ""
  processes: int = 1

  def __post_init__(self):
    if self.environment in ("PROCESS", "EXTERNAL", "DOCKER") and not self.config:
      wanted = {"PROCESS": "a command", "EXTERNAL": "host:port of a worker pool", "DOCKER": "an image"}
      raise ValueError(f"workers of environment {self.environment} need {wanted[self.environment]} as config")

  def beam_args(self) -> list[str]:
    return _flags(
      environment_type=self.environment, environment_config=self.config, sdk_worker_parallelism=self.processes
    )


@dataclasses.dataclass(frozen=True)
class Flink:
  """A Flink cluster.

  Attributes:
    master: host:port of its REST interface; "[local]" starts one in the job server.
    version: of the cluster; the job server is built for one.
    job_server_jar: path or URL; "" takes Beam's own of its version, from Maven Central.
    parallelism: slots to use; 0 takes the cluster's default.
    artifacts_dir: where staged packages go; must be seen by all task managers.
    workers: where Python runs.
  """

  __pydantic_config__ = _STRICT

  master: str = "[local]"
  version: Literal["1.17", "1.18", "1.19"] = "1.19"
  job_server_jar: str = ""
  parallelism: int = 0
  artifacts_dir: str = ""
  workers: Workers = Workers()

  def __post_init__(self):
    if self.parallelism < 0:
      raise ValueError(f"flink: parallelism must be 0 (the cluster's) or more, not {self.parallelism}")

  def beam_args(self) -> list[str]:
    flags = _flags(
      flink_master=self.master,
      flink_version=self.version,
      flink_job_server_jar=self.job_server_jar,
      parallelism=self.parallelism,
      artifacts_dir=self.artifacts_dir,
    )
    return ["--runner=FlinkRunner", *flags, *self.workers.beam_args()]


@dataclasses.dataclass(frozen=True)
class Portable:
  """Any engine behind a Beam job server, such as Spark's.

  Attributes:
    job_endpoint: host:port of the job server.
    workers: where Python runs.
  """

  __pydantic_config__ = _STRICT

  job_endpoint: str = "localhost:8099"
  workers: Workers = Workers()

  def beam_args(self) -> list[str]:
    return ["--runner=PortableRunner", *_flags(job_endpoint=self.job_endpoint), *self.workers.beam_args()]


@dataclasses.dataclass(frozen=True)
class Dataflow:
  """Google's service.

  Attributes:
    project, region, temp_location: where; temp_location is gs://.
    staging_location: of packages; "" takes temp_location's.
    image: container image of the workers, as kubeflow/Dockerfile builds it; ""
      stages this checkout as a source package, which every worker installs.
    machine_type: of the workers.
    workers: at the start; 0 lets Dataflow choose.
    max_workers: most; equal to `workers`, the number stays.
    disk_gb, disk_type: of a worker; 0 and "" are Dataflow's defaults.
    service_account: that workers run as; "" is the project's default.
    subnetwork: regions/REGION/subnetworks/NAME.
    public_ips: whether workers have addresses of their own.
    labels: of the job, for the bill.
    experiments, service_options: passed on.
  """

  __pydantic_config__ = _STRICT

  project: str = ""
  region: str = ""
  temp_location: str = ""
  staging_location: str = ""
  image: str = ""
  machine_type: str = "n2-standard-4"
  workers: int = 0
  max_workers: int = 20
  disk_gb: int = 50
  disk_type: str = ""
  service_account: str = ""
  subnetwork: str = ""
  public_ips: bool = True
  labels: tuple[tuple[str, str], ...] = ()
  experiments: tuple[str, ...] = ()
  service_options: tuple[str, ...] = ()

  def __post_init__(self):
    if not 0 <= self.workers <= self.max_workers or not self.max_workers:
      raise ValueError(
        f"dataflow: need 0 <= workers <= max_workers, not {self.workers} and {self.max_workers}"
      )
    for name in ("temp_location", "staging_location"):
      value = getattr(self, name)
      if value and not value.startswith("gs://"):
        raise ValueError(f"dataflow: {name} must be gs://, not {value!r}")

  def beam_args(self) -> list[str]:
    fixed = self.workers == self.max_workers
    flags = _flags(
      project=self.project,
      region=self.region,
      temp_location=self.temp_location,
      staging_location=self.staging_location,
      machine_type=self.machine_type,
      num_workers=self.workers,
      max_num_workers=self.max_workers,
      autoscaling_algorithm="NONE" if fixed else "THROUGHPUT_BASED",
      disk_size_gb=self.disk_gb,
      worker_disk_type=self.disk_type,
      service_account_email=self.service_account,
      subnetwork=self.subnetwork,
    )
    flags += [] if self.public_ips else ["--no_use_public_ips"]
    flags += [f"--labels={key}={value}" for key, value in self.labels]
    flags += [f"--experiments={name}" for name in self.experiments]
    flags += [f"--dataflow_service_options={name}" for name in self.service_options]
    return ["--runner=DataflowRunner", *flags, *self._code()]

  def _code(self) -> list[str]:
    """How workers get taskmix."""
    if self.image:
      # The image has Beam and taskmix: nothing is staged.
      return [f"--sdk_container_image={self.image}", "--sdk_location=container"]
    return [f"--setup_file={_SETUP}"] if _SETUP.is_file() else []


@dataclasses.dataclass(frozen=True)
class RunnerConfig:
  """Which engine, and its settings; those of other engines are not looked at.

  Attributes:
    name: "direct" is Beam on this machine. "kubeflow" runs the pipeline's steps
      as containers, see pipeline.kubeflow; `steps` is then the engine of the
      Beam steps.
    flink, dataflow, portable, kubeflow: settings.
    steps: the engine of the Beam steps inside Kubeflow.
    beam_args: further flags of Beam's own; they win.
  """

  __pydantic_config__ = _STRICT

  name: Name = "direct"
  flink: Flink = Flink()
  dataflow: Dataflow = Dataflow()
  portable: Portable = Portable()
  kubeflow: Kubeflow = Kubeflow()
  steps: Engine = "direct"
  beam_args: tuple[str, ...] = ()

  @property
  def engine(self) -> Engine:
    """Of the Beam components."""
    return self.steps if self.name == "kubeflow" else self.name

  def beam_pipeline_args(self, extra: Sequence[str] = ()) -> list[str]:
    """The flags that Beam is given, `--runner` the first.

    Raises:
      ValueError: if the engine needs a setting that is given nowhere.
    """
    engine = self.engine
    settings = [] if engine == "direct" else getattr(self, engine).beam_args()
    given = [*self.beam_args, *extra]
    args = [flag for flag in settings or ["--runner=DirectRunner"] if not _given_again(flag, given)]
    args += given
    if engine == "dataflow":
      _require_flags(args, ("project", "region", "temp_location"))
    return args

  def to_json(self) -> str:
    return to_json(self)


def load_runner(name: str) -> RunnerConfig:
  """The RunnerConfig of a short name, or of a JSON file.

  Raises:
    ValueError: if it is neither, or the file has unknown or ill-typed settings.
  """
  if name in NAMES:
    return RunnerConfig(name=name)  # type: ignore[arg-type] - NAMES are the literal's
  path = pathlib.Path(name)
  if path.suffix != ".json":
    raise ValueError(
      f"no runner {name!r}; there is {', '.join(NAMES)}, or give the .json file of a RunnerConfig"
    )
  if not path.is_file():
    raise ValueError(f"no runner file {name}")
  try:
    return from_json(RunnerConfig, path.read_text())
  except ValueError as error:
    raise ValueError(f"{name}: {error}") from None


def run_args(runner: RunnerConfig, extra: Sequence[str] = ()) -> list[str]:
  """Beam's flags for the components of a run on this machine.

  Args:
    runner: where their Beam jobs run; a run on Kubeflow is its own cluster's.
    extra: Beam's own flags, which win.

  Raises:
    ValueError: for flags that the runner has no use for.
  """
  # Beam passes over a flag that it does not know: a slip must not run something else.
  own = [word for word in extra[:1] if not word.startswith("--")]
  own += [word for word in extra if runner.name == "direct" and word.startswith("--")]
  strays = [word for word in own if not word.startswith("--direct_")]
  if strays:
    raise ValueError(f"no option {strays[0]}; see taskmix run --help")
  return runner.beam_pipeline_args(extra)


def convert_args(name: str, extra: Sequence[str] = ()) -> list[str]:
  """Beam's flags for a conversion by `taskmix convert --runner NAME`, `--runner` the first.

  Args:
    name: as of `load_runner`, or a runner class of Beam's own, such as "PrismRunner".
    extra: Beam's own flags, which win.

  Raises:
    ValueError: as `load_runner`, and for "kubeflow", which converts nothing by itself.
  """
  if name.endswith("Runner") and name.isidentifier():
    return [f"--runner={name}", *extra]
  runner = load_runner(name)
  if runner.name == "kubeflow":
    raise ValueError(
      "a conversion runs on direct, flink, dataflow or portable; Kubeflow runs a whole pipeline: "
      "taskmix compile-kubeflow"
    )
  return runner.beam_pipeline_args(extra)


def _flags(**values: str | int) -> list[str]:
  """--name=value of those that say something."""
  return [f"--{name}={value}" for name, value in values.items() if value != "" and value != 0]


def _given_again(flag: str, given: Sequence[str]) -> bool:
  """Whether a single-valued flag is among `given`, in either of its spellings."""
  name = flag.partition("=")[0]
  if name in ("--labels", "--experiments", "--dataflow_service_options"):
    return False
  return any(each.partition("=")[0] == name for each in given)


def _require_flags(args: Sequence[str], names: Sequence[str]) -> None:
  given = {each.partition("=")[0].lstrip("-") for each in args}
  missing = [name for name in names if name not in given]
  if missing:
    raise ValueError(
      f"dataflow needs {', '.join(missing)}: give --{missing[0]}=..., or set it in the runner's JSON file"
    )
