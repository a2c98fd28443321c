"""Starts a model server on this machine: our own in a clean process, or the real one."""

import contextlib
import dataclasses
import importlib.util
import json
import os
import pathlib
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator, Sequence

from taskmix.serving.policy import ServingPolicy

LOOPBACK, BINARY, DOCKER = "loopback", "tensorflow_model_server", "docker"

# A served graph must need none of these.
FOREIGN = ("taskmix", "components", "pipeline", "tfx", "tensorflow_transform", "tensorflow_model_analysis")

# Run by `python -I -S -c`: no environment, no site-packages with their .pth
# files, no current folder; only the folders that hold the server's own needs,
# and a finder that refuses our packages where they are installed among those.
_CLEAN = """
import json, runpy, sys
paths, foreign, script, sys.argv[1:] = *json.loads(sys.argv[1]), sys.argv[2:]
class Refuse:
  def find_spec(self, name, path=None, target=None):
    if name.partition('.')[0] in foreign:
      raise ModuleNotFoundError('a served model must not need the package ' + name)
sys.meta_path.insert(0, Refuse())
sys.path += paths
runpy.run_path(script, run_name='__main__')
"""


class NotServed(Exception):
  """A server would not serve the model; the message is its reason."""


class NotReadyInTime(Exception):
  """A server took longer to start than the policy gives it."""


@dataclasses.dataclass
class Server:
  """A server that serves.

  Attributes:
    kind: LOOPBACK, BINARY or DOCKER.
    grpc, rest: host:port.
    model: the name to ask for.
    start_seconds: from its start to its readiness.
    log: what it says.
  """

  kind: str
  grpc: str
  rest: str
  model: str
  start_seconds: float
  log: pathlib.Path
  _process: subprocess.Popen

  @property
  def alive(self) -> bool:
    return self._process.poll() is None

  def peak_mib(self) -> float | None:
    """Peak resident memory in MiB; None for a container, whose memory Docker bounds instead."""
    if self.kind == DOCKER:
      return None
    with contextlib.suppress(OSError, IndexError):
      status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
      return int(status.split("VmHWM:")[1].split()[0]) / 1024
    return None

  def last_words(self) -> str:
    return _last_line(self.log)


def server_kinds(policy: ServingPolicy) -> list[str]:
  """The servers that this machine has, as far as the policy wants them."""
  kinds = [LOOPBACK]
  if policy.server == "auto":
    if shutil.which("tensorflow_model_server"):
      kinds.append(BINARY)
    elif _has_image(policy.docker_image):
      kinds.append(DOCKER)
  return kinds


@contextlib.contextmanager
def serving(
  base: str | os.PathLike,
  kind: str = LOOPBACK,
  *,
  name: str = "model",
  policy: ServingPolicy | None = None,
  watch: float = 0,
) -> Iterator[Server]:
  """Serves the newest version in `base` while the context is open.

  Args:
    base: folder of numbered versions.
    kind: of `server_kinds`.
    name: under which clients ask for it.
    policy: its load_seconds is how long the start may take.
    watch: seconds between the loopback server's looks for a newer version.

  Raises:
    NotServed: if it ended, or gave the model up.
    NotReadyInTime: if it did not come to serve in time.
  """
  policy = policy or ServingPolicy()
  base = pathlib.Path(base).resolve()
  with tempfile.TemporaryDirectory(prefix="taskmix-serving-") as scratch:
    log = pathlib.Path(scratch, "log")
    begin = time.monotonic()
    if kind == LOOPBACK:
      process = _start([*_loopback_command(base, name), "--watch", str(watch)], log)
    else:
      ports = _free_port(), _free_port()
      container = f"taskmix-{uuid.uuid4().hex[:12]}"
      command = _binary_command(base, name, ports)
      if kind == DOCKER:
        command = _docker_command(base, name, ports, container, policy)
      process = _start(command, log)
    try:
      deadline = begin + policy.load_seconds
      if kind == LOOPBACK:
        ports = _wait_for_line(process, log, deadline)
      else:
        _wait_for_rest(process, log, deadline, f"http://127.0.0.1:{ports[1]}/v1/models/{name}")
      yield Server(
        kind,
        f"127.0.0.1:{ports[0]}",
        f"127.0.0.1:{ports[1]}",
        name,
        time.monotonic() - begin,
        log,
        process,
      )
    finally:
      if kind == DOCKER:
        subprocess.run(["docker", "kill", container], capture_output=True, timeout=60, check=False)
      _stop(process)


def _loopback_command(base: pathlib.Path, name: str) -> list[str]:
  from taskmix import serving as package

  script = pathlib.Path(package.__file__).with_name("server.py")
  boot = json.dumps([_library_folders(), FOREIGN, str(script)])
  return [sys.executable, "-I", "-S", "-c", _CLEAN, boot, str(base), "--name", name, "--until-stdin-ends"]


def _library_folders() -> list[str]:
  """The folders that hold the packages which the server imports."""
  folders = []
  for package in ("tensorflow", "grpc", "numpy", "tensorflow_serving", "google.protobuf"):
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
      continue
    folder = str(pathlib.Path(spec.origin).parents[1 + package.count(".")])
    if folder not in folders:
      folders.append(folder)
  return folders


def _binary_command(base: pathlib.Path, name: str, ports: tuple[int, int]) -> list[str]:
  return [
    "tensorflow_model_server",
    f"--port={ports[0]}",
    f"--rest_api_port={ports[1]}",
    f"--model_name={name}",
    f"--model_base_path={base}",
  ]


def _docker_command(
  base: pathlib.Path, name: str, ports: tuple[int, int], container: str, policy: ServingPolicy
) -> list[str]:
  return [
    *("docker", "run", "--rm", "--name", container, "--memory", f"{policy.memory_mib}m"),
    *("-p", f"127.0.0.1:{ports[0]}:8500", "-p", f"127.0.0.1:{ports[1]}:8501"),
    *("-v", f"{base}:/models/{name}:ro", "-e", f"MODEL_NAME={name}", policy.docker_image),
  ]


def _start(command: Sequence[str], log: pathlib.Path) -> subprocess.Popen:
  """Its stdout is a pipe for the line that says it is ready; all else goes to `log`."""
  # CPU only: what fits beside other work, and what every server has.
  environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "1"}
  with log.open("wb") as file:
    piped = command[0] == sys.executable
    return subprocess.Popen(
      command,
      # Held open by us alone, so that our own server ends when we do, even by kill -9.
      stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
      stdout=subprocess.PIPE if piped else file,
      stderr=file,
      env=environment,
      text=True,
    )


def _wait_for_line(process: subprocess.Popen, log: pathlib.Path, deadline: float) -> tuple[int, int]:
  """The loopback server's ports, from the line that it prints when ready."""
  assert process.stdout
  left = max(0.0, deadline - time.monotonic())
  if not select.select([process.stdout], [], [], left)[0]:
    raise NotReadyInTime(_late(log))
  line = process.stdout.readline()
  if not line:
    process.wait()
    raise NotServed(_death(process, log))
  ready = json.loads(line)
  return ready["grpc"], ready["rest"]


def _wait_for_rest(process: subprocess.Popen, log: pathlib.Path, deadline: float, url: str) -> None:
  """Until the status page calls a version AVAILABLE."""
  open_url = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
  while time.monotonic() < deadline:
    if process.poll() is not None:
      raise NotServed(_death(process, log))
    with contextlib.suppress(OSError, ValueError), open_url(url, timeout=2) as response:
      states = json.load(response).get("model_version_status", [])
      if any(status.get("state") == "AVAILABLE" for status in states):
        return
      for status in states:
        if status.get("state") == "END":
          raise NotServed(status.get("status", {}).get("error_message", "it gave the model up"))
    time.sleep(0.1)
  raise NotReadyInTime(_late(log))


def _late(log: pathlib.Path) -> str:
  return f"it was not ready in time; its last words: {_last_line(log)}"


def _death(process: subprocess.Popen, log: pathlib.Path) -> str:
  ended = f"signal {-process.returncode}" if process.returncode < 0 else f"exit status {process.returncode}"
  return f"{_last_line(log)} ({ended})"


def _stop(process: subprocess.Popen) -> None:
  process.terminate()
  try:
    process.wait(10)
  except subprocess.TimeoutExpired:
    process.kill()
    process.wait()
  for pipe in (process.stdin, process.stdout):
    if pipe:
      pipe.close()


def _last_line(log: pathlib.Path) -> str:
  lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
  return lines[-1].strip() if lines else "it said nothing"


def _free_port() -> int:
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    return free.getsockname()[1]


def _has_image(image: str) -> bool:
  """Whether Docker runs here and has the image; nothing is pulled."""
  if not shutil.which("docker"):
    return False
  try:
    found = subprocess.run(
      ["docker", "image", "inspect", image], capture_output=True, timeout=20, check=False
    )
  except (OSError, subprocess.TimeoutExpired):
    return False
  return found.returncode == 0
