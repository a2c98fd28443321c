"""Engines other than Beam's local one, started on loopback for the tests and stopped after them."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

PYTHON = [sys.executable, "-W", "ignore"]


@pytest.fixture(scope="session")
def wait_until():
  """A function that waits until another gives something, and returns that."""

  def wait(condition: Callable, *, what: str, seconds: float = 120.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
      if value := condition():
        return value
      time.sleep(0.2)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")

  return wait


@pytest.fixture(scope="session")
def free_port():
  """A function that gives a port of 127.0.0.1 that nothing listens on."""

  def choose() -> int:
    with socket.socket() as probe:
      probe.bind(("127.0.0.1", 0))
      return probe.getsockname()[1]

  return choose


@pytest.fixture(scope="session")
def worker_pool(free_port, wait_until) -> Iterator[Callable]:
  """A function that starts a pool of Python workers, as runs beside each node of a cluster.

  It gives the process and the pool's host:port.
  """
  with contextlib.ExitStack() as pools:

    def start() -> tuple[subprocess.Popen, str]:
      port = free_port()
      process = pools.enter_context(
        running([*PYTHON, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"])
      )
      wait_until(lambda: _listens(port), what="the worker pool listens")
      return process, f"localhost:{port}"

    yield start


@pytest.fixture(scope="session")
def prism() -> str:
  """Path of Prism, Beam's engine in Go, of the version that ./prism/go.mod pins; built once."""
  go = shutil.which("go")
  if not go:
    pytest.skip("Prism is built with Go 1.24 or newer, which is not here: https://go.dev/dl")
  module = pathlib.Path(__file__).parent / "prism"
  pinned = hashlib.sha256((module / "go.sum").read_bytes()).hexdigest()[:16]
  built = pathlib.Path.home() / ".cache" / "taskmix" / f"prism-{pinned}"
  if not built.is_file():
    built.parent.mkdir(parents=True, exist_ok=True)
    aside = built.with_suffix(f".{os.getpid()}")
    subprocess.run(
      [go, "build", "-o", str(aside), "github.com/apache/beam/sdks/v2/go/cmd/prism"],
      cwd=module,
      check=True,
      timeout=900,
    )
    aside.rename(built)
  return str(built)


@pytest.fixture(scope="session")
def python_server(tmp_path_factory, wait_until) -> Iterator[str]:
  """host:port of Beam's job server in Python, a process of its own."""
  port_file = tmp_path_factory.mktemp("job_server") / "port"
  module = "apache_beam.runners.portability.local_job_service_main"
  with running([*PYTHON, "-m", module, f"--port_file={port_file}"]):
    wait_until(lambda: port_file.is_file() and port_file.read_text(), what="the job server listens")
    yield f"localhost:{port_file.read_text()}"


@pytest.fixture(scope="session")
def prism_server(prism, free_port, wait_until) -> Iterator[str]:
  """host:port of Prism, a process of its own."""
  port = free_port()
  with running([prism, f"-job_port={port}", "-serve_http=false", "-log_level=error"]):
    wait_until(lambda: _listens(port), what="Prism listens")
    yield f"localhost:{port}"


@pytest.fixture(params=["python_server", "prism_server"])
def job_server(request) -> str:
  """host:port of each of the two."""
  return request.getfixturevalue(request.param)


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen]:
  """A process in a session of its own, ended with all its children."""
  # A worker pool starts `python`, whichever comes first on the path.
  path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
  process = subprocess.Popen(
    command,
    env={**os.environ, "PATH": path},
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    start_new_session=True,
  )
  try:
    yield process
  finally:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(process.pid, 9)
    process.wait()


def _listens(port: int) -> bool:
  with socket.socket() as probe:
    return probe.connect_ex(("127.0.0.1", port)) == 0
