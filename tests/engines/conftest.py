"""Engines other than Beam's local one, started on loopback for the tests and stopped after them."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest


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
        running(["-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"])
      )
      wait_until(lambda: _listens(port), what="the worker pool listens")
      return process, f"localhost:{port}"

    yield start


@pytest.fixture(scope="session")
def job_server(tmp_path_factory, wait_until) -> Iterator[str]:
  """host:port of Beam's own job server, a process of its own."""
  port_file = tmp_path_factory.mktemp("job_server") / "port"
  module = "apache_beam.runners.portability.local_job_service_main"
  with running(["-m", module, f"--port_file={port_file}"]):
    wait_until(lambda: port_file.is_file() and port_file.read_text(), what="the job server listens")
    yield f"localhost:{port_file.read_text()}"


@contextlib.contextmanager
def running(arguments: list[str]) -> Iterator[subprocess.Popen]:
  """A Python process in a session of its own, ended with all its children."""
  # A worker pool starts `python`, whichever comes first on the path.
  path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
  process = subprocess.Popen(
    [sys.executable, "-W", "ignore", *arguments],
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
