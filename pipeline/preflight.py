"""Will workers far away understand the job? Every function is unpickled elsewhere first.

The launcher's environment hides what a worker lacks: a module of the checkout that
the staged package leaves out fails on the hundredth machine, half an hour later.
"""

import base64
import dataclasses
import json
import pathlib
import subprocess
import sys
import sysconfig
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

# Runs apart: with Beam and the other dependencies, the package in TARGET, and neither the
# checkout nor any .pth file, through which an editable install would find it.
_CHILD = """
import base64, json, sys
target, libraries, checkout = sys.argv[1:4]
sys.path[:0] = [target, libraries]
import warnings
warnings.simplefilter("ignore")
from apache_beam.internal import pickler
failed = {}
for name, text in json.load(sys.stdin).items():
  try:
    pickler.loads(base64.b64decode(text))
  except BaseException as error:
    failed[name] = f"{type(error).__name__}: {error}"
strays = sorted(
  name for name, module in sys.modules.items()
  if str(getattr(module, "__file__", "")).startswith(checkout) and not module.__file__.startswith(libraries)
)
print(json.dumps({"failed": failed, "strays": strays}))
"""


class PreflightError(ValueError):
  """Workers would not understand the job; the message lists what, and why."""


@dataclasses.dataclass(frozen=True)
class Function:
  """A pickled function of a job: the transform's name, and the pickle."""

  transform: str
  pickled: bytes


def functions_of(pipeline: beam_runner_api_pb2.Pipeline) -> list[Function]:
  """Every DoFn and CombineFn of the job."""
  found = []
  for transform in pipeline.components.transforms.values():
    spec = transform.spec
    if spec.urn == common_urns.primitives.PAR_DO.urn:
      payload = beam_runner_api_pb2.ParDoPayload.FromString(spec.payload)
      found.append(Function(transform.unique_name, payload.do_fn.payload))
    elif spec.urn in _COMBINES:
      payload = beam_runner_api_pb2.CombinePayload.FromString(spec.payload)
      found.append(Function(transform.unique_name, payload.combine_fn.payload))
  return found


_COMBINES = {
  common_urns.composites.COMBINE_PER_KEY.urn,
  common_urns.composites.COMBINE_GLOBALLY.urn,
}


def build_package(setup_file: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
  """The source package that Beam stages for `--setup_file`."""
  command = [sys.executable, setup_file.name, "--quiet", "sdist", "--dist-dir", str(folder.resolve())]
  done = subprocess.run(command, cwd=setup_file.parent, capture_output=True, text=True, check=False)
  if done.returncode:
    raise PreflightError(f"{setup_file} makes no source package:\n{done.stderr[-2000:]}")
  (package,) = folder.glob("*.tar.gz")
  return package


def require_understood(
  pipeline: beam_runner_api_pb2.Pipeline, *, package: pathlib.Path, folder: pathlib.Path
) -> int:
  """Unpickles every function of the job where only the package is; their number.

  Args:
    pipeline: of a Beam pipeline, `pipeline.to_runner_api()`, or of a job.
    package: that is staged: a source package or a wheel.
    folder: to install it into; empty.

  Raises:
    PreflightError: if one cannot be unpickled, or takes a module from the checkout.
  """
  _install(package, folder)
  functions = functions_of(pipeline)
  answer = _ask({each.transform: base64.b64encode(each.pickled).decode() for each in functions}, folder)
  problems = [f"{name}: {reason}" for name, reason in answer["failed"].items()]
  problems += [f"{name} came from the checkout" for name in answer["strays"]]
  if problems:
    raise PreflightError(f"workers with {package.name} would fail:\n  " + "\n  ".join(problems))
  return len(functions)


def _install(package: pathlib.Path, folder: pathlib.Path) -> None:
  command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
  command += ["--no-build-isolation", "--no-index", "--target", str(folder), str(package)]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode:
    raise PreflightError(f"{package} cannot be installed:\n{done.stderr[-2000:]}")


def _ask(pickles: dict[str, str], folder: pathlib.Path) -> dict[str, Any]:
  checkout = str(pathlib.Path(__file__).parent.parent)
  command = [sys.executable, "-I", "-S", "-c", _CHILD, str(folder), sysconfig.get_path("purelib"), checkout]
  done = subprocess.run(
    command, input=json.dumps(pickles), cwd=folder, capture_output=True, text=True, check=False
  )
  if done.returncode:
    raise PreflightError(f"the worker's stand-in failed:\n{done.stderr[-2000:]}")
  return json.loads(done.stdout.splitlines()[-1])
