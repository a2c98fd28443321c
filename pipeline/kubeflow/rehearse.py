"""Runs a compiled job on this machine, step by step, as the cluster's backend would.

Each step is a process with the job's own command and arguments, in an environment
that holds what kubeflow/Dockerfile installs and nothing else, in a folder that holds
what the Dockerfile copies. It sees its inputs alone, and only what it says of its
outputs reaches the next.

    FOLDER/image/        the image's working folder: schemas/ demo/
    FOLDER/store/        the object store: minio/taskmix/RUN/STEP/OUTPUT
    FOLDER/volumes/      volumes, each at its own path
    FOLDER/steps/NAME/   one step's container: minio/..., executor_input.json, log
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from pipeline.config import REPOSITORY

# What kubeflow/Dockerfile copies: into the installed package, and beside it.
PACKAGE = ("setup.py", "README.md", "taskmix", "components", "pipeline")
BESIDE = ("schemas", "demo")
LOCK = "kubeflow/requirements.lock"

_BUCKET = "minio://taskmix/rehearsal"


class RehearsalError(RuntimeError):
  """A step failed; the message says which, how it was called, and how its log ends."""


@dataclasses.dataclass(frozen=True)
class Done:
  """A step that succeeded.

  Attributes:
    name: its task's.
    seconds: that it took.
    outputs: key -> its artifact, as the next step is told of it.
  """

  name: str
  seconds: float
  outputs: Mapping[str, dict[str, Any]]


def rehearse(
  job: Mapping[str, Any],
  *,
  python: pathlib.Path,
  folder: pathlib.Path,
  parameters: Mapping[str, Any] | None = None,
  ended: Callable[[Done], None] = lambda done: None,
) -> list[Done]:
  """Runs every step in order.

  Args:
    job: of `compile_job`.
    python: interpreter of an environment such as `build_environment` makes.
    folder: for everything; one that was used before gives its state to this run.
    parameters: of the run; those left out have the job's defaults.
    ended: called after each step.

  Raises:
    RehearsalError: if a step fails.
    ValueError: if the job has something that the backend does not run, or no such parameter.
  """
  spec = job["pipelineSpec"]
  require_runnable(spec)
  run = _Run(spec, python, folder.resolve(), _parameters(spec, parameters or {}))
  run.lay_out()
  done: list[Done] = []
  for name in in_order(spec["root"]["dag"]["tasks"]):
    done.append(run.step(name))
    ended(done[-1])
  return done


def require_runnable(spec: Mapping[str, Any]) -> None:
  """Raises ValueError for what open-source Kubeflow Pipelines refuses, of what TFX compiles to.

  Its compiler knows containers and importers; Argo takes letters, digits and
  hyphens in a task's name; parameters without the type of pipeline spec 2.1
  have no value.
  """
  problems = []
  for name, task in spec["root"]["dag"]["tasks"].items():
    if not name.replace("-", "").isalnum() or not name.isascii():
      problems.append(f"{name}: a task's name has letters, digits and hyphens")
    component = spec["components"][task["componentRef"]["name"]]
    executor = spec["deploymentSpec"]["executors"][component["executorLabel"]]
    if "container" not in executor:
      problems.append(f"{name}: {', '.join(executor)} is neither container nor importer")
    elif executor["container"].get("lifecycle"):
      problems.append(f"{name}: a container's lifecycle is not run")
    for key, parameter in component.get("inputDefinitions", {}).get("parameters", {}).items():
      if "parameterType" not in parameter:
        problems.append(f"{name}: parameter {key} has no parameterType")
    for key, given in task.get("inputs", {}).get("artifacts", {}).items():
      if "taskOutputArtifact" not in given:
        problems.append(f"{name}: artifact {key} comes from no task")
  if problems:
    raise ValueError("Kubeflow Pipelines would refuse the job:\n  " + "\n  ".join(problems))


def in_order(tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
  """Names, each after those that it depends on; else as they are listed."""
  order: list[str] = []
  left = {name: set(task.get("dependentTasks", ())) for name, task in tasks.items()}
  while left:
    ready = [name for name, before in left.items() if not before - set(order)]
    if not ready:
      raise ValueError(f"the tasks {', '.join(left)} wait for each other")
    order.append(ready[0])
    del left[ready[0]]
  return order


def build_environment(cache: pathlib.Path, *, say: Callable[[str], None] = print) -> pathlib.Path:
  """An environment with what the Dockerfile installs; its interpreter.

  The dependencies are kept in `cache` under the hash of their lock; taskmix is
  installed anew, from a copy of what the Dockerfile copies.
  """
  lock = REPOSITORY / LOCK
  name = hashlib.blake2b(lock.read_bytes(), digest_size=8).hexdigest()
  home = cache / f"image-{name}"
  python = home / "bin" / "python"
  # A link to an interpreter that has gone is as good as none.
  if not ((home / ".ready").exists() and python.exists()):
    say(f"Installing {LOCK} into {home}")
    shutil.rmtree(home, ignore_errors=True)
    # Not this environment's own interpreter, which goes with it.
    _command([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(home)])
    _uv(python, "-r", str(lock))
    (home / ".ready").touch()
  sources = home / "sources"
  shutil.rmtree(sources, ignore_errors=True)
  sources.mkdir()
  _copy(PACKAGE, sources)
  _uv(python, "--no-deps", "--no-build-isolation", "--reinstall-package", "taskmix", str(sources))
  return python


@dataclasses.dataclass(frozen=True)
class _Run:
  """One rehearsal."""

  spec: Mapping[str, Any]
  python: pathlib.Path
  folder: pathlib.Path
  parameters: Mapping[str, Any]
  outputs: dict[tuple[str, str], dict[str, Any]] = dataclasses.field(default_factory=dict)

  def lay_out(self) -> None:
    """Makes the folders, of which store and steps are this run's own."""
    for name in ("image", "store", "steps"):
      shutil.rmtree(self.folder / name, ignore_errors=True)
      (self.folder / name).mkdir(parents=True)
    (self.folder / "volumes").mkdir(exist_ok=True)
    _copy(BESIDE, self.folder / "image")

  def step(self, name: str) -> Done:
    task = self.spec["root"]["dag"]["tasks"][name]
    component = self.spec["components"][task["componentRef"]["name"]]
    container = self.spec["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
    place = self.folder / "steps" / name
    place.mkdir()
    invocation = self._executor_input(name, task, component, place)
    (place / "executor_input.json").write_text(json.dumps(invocation, indent=1))
    begin = time.monotonic()
    self._call(name, container, invocation, place)
    self._upload(name, invocation, place)
    outputs = {key: self.outputs[name, key] for key in invocation["outputs"]["artifacts"]}
    return Done(name, time.monotonic() - begin, outputs)

  def _executor_input(
    self, name: str, task: Mapping[str, Any], component: Mapping[str, Any], place: pathlib.Path
  ) -> dict[str, Any]:
    """As the backend's driver fills it in; brings the inputs into the step's place."""
    given = task.get("inputs", {})
    values = {key: self._value(each) for key, each in given.get("parameters", {}).items()}
    inputs = {}
    for key, each in given.get("artifacts", {}).items():
      source = each["taskOutputArtifact"]
      artifact = self.outputs[source["producerTask"], source["outputArtifactKey"]]
      inputs[key] = {"artifacts": [artifact]}
      _copy_artifact(self.folder / "store", place, artifact["uri"])
    outputs = {
      key: {"artifacts": [{"name": key, "type": each["artifactType"], "uri": f"{_BUCKET}/{name}/{key}"}]}
      for key, each in component.get("outputDefinitions", {}).get("artifacts", {}).items()
    }
    # The launcher makes the folders above an output, and not the output itself.
    for key in outputs:
      _local(place, f"{_BUCKET}/{name}/{key}").parent.mkdir(parents=True, exist_ok=True)
    output_file = place / "tmp" / "kfp_outputs" / "output_metadata.json"
    return {
      "inputs": {"parameterValues": values, "artifacts": inputs},
      "outputs": {"artifacts": outputs, "outputFile": str(output_file)},
    }

  def _value(self, given: Mapping[str, Any]) -> Any:
    if "componentInputParameter" in given:
      return self.parameters[given["componentInputParameter"]]
    constant = given["runtimeValue"]["constant"]
    return self._with_volumes(constant) if isinstance(constant, str) else constant

  def _with_volumes(self, text: str) -> str:
    """Paths of volumes as they are here."""
    for volume in volumes_of(self.spec):
      here = self.folder / "volumes" / volume.strip("/")
      text = text.replace(volume, str(here))
    return text

  def _call(
    self, name: str, container: Mapping[str, Any], invocation: Mapping[str, Any], place: pathlib.Path
  ) -> None:
    filled = json.dumps(invocation)
    command = [*container["command"], *(arg.replace("{{$}}", filled) for arg in container["args"])]
    log = place / "log"
    with log.open("wb") as file:
      status = subprocess.call(
        command, cwd=self.folder / "image", env=self._environment(place), stdout=file, stderr=file
      )
    if status:
      tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
      raise RehearsalError(f"{name} ended with status {status}; its log is {log}:\n{tail}")

  def _environment(self, place: pathlib.Path) -> dict[str, str]:
    """What the image sets, and nothing of this process's."""
    home = place / "home"
    home.mkdir()
    path = os.pathsep.join([str(self.python.parent), "/usr/bin", "/bin"])
    return {
      "PATH": path,
      "HOME": str(home),
      "TASKMIX_LAUNCHER_ROOT": str(place),
      "LANG": "C.UTF-8",
      "TF_CPP_MIN_LOG_LEVEL": "1",
    }

  def _upload(self, name: str, invocation: Mapping[str, Any], place: pathlib.Path) -> None:
    """Takes what the step wrote, and what it says of it."""
    file = pathlib.Path(invocation["outputs"]["outputFile"])
    told = json.loads(file.read_text()).get("artifacts", {}) if file.is_file() else {}
    for key, given in invocation["outputs"]["artifacts"].items():
      artifact = dict(given["artifacts"][0])
      for said in told.get(key, {}).get("artifacts", [])[:1]:
        artifact.update({field: said[field] for field in ("uri", "metadata") if said.get(field)})
      if artifact["uri"] != given["artifacts"][0]["uri"]:
        raise RehearsalError(f"{name} says that its {key} is at {artifact['uri']}, where nobody looks for it")
      # Of a name that an input once had, the backend's metadata keeps nothing.
      del artifact["name"]
      _copy_artifact(place, self.folder / "store", artifact["uri"])
      self.outputs[name, key] = artifact


def volumes_of(spec: Mapping[str, Any]) -> list[str]:
  """Top folders of the absolute paths that steps are told of as state, longest first."""
  found = set()
  for task in spec["root"]["dag"]["tasks"].values():
    for key in ("folder", "push_directory"):
      value = task.get("inputs", {}).get("parameters", {}).get(key, {})
      constant = value.get("runtimeValue", {}).get("constant", "")
      if constant.startswith("/"):
        found.add("/" + constant.split("/")[1])
  return sorted(found, key=len, reverse=True)


def _parameters(spec: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
  known = spec["root"].get("inputDefinitions", {}).get("parameters", {})
  unknown = sorted(set(given) - set(known))
  if unknown:
    raise ValueError(f"the job has no parameter {', '.join(unknown)}; there is {', '.join(sorted(known))}")
  return {name: given.get(name, each.get("defaultValue")) for name, each in known.items()}


def _local(root: pathlib.Path, uri: str) -> pathlib.Path:
  scheme, _, rest = uri.partition("://")
  return root / scheme / rest


def _copy_artifact(source: pathlib.Path, target: pathlib.Path, uri: str) -> None:
  there, here = _local(source, uri), _local(target, uri)
  if there.is_dir():
    shutil.copytree(there, here, dirs_exist_ok=True)
  elif there.is_file():
    here.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(there, here)


def _copy(names: tuple[str, ...], target: pathlib.Path) -> None:
  for name in names:
    source = REPOSITORY / name
    if source.is_dir():
      shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    else:
      shutil.copy(source, target / name)


def _uv(python: pathlib.Path, *arguments: str) -> None:
  _command([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python), *arguments])


def _command(command: list[str]) -> None:
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode:
    raise ValueError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
