"""Conversions through a Beam job server, with the Python code in processes of its own.

This is how Flink and Spark run a pipeline too: a job goes to a server, and the
functions go, pickled, to a worker pool beside each node.
"""

import hashlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.engines


def _command(output: pathlib.Path, *options: str) -> list[str]:
  taskmix = str(pathlib.Path(sys.executable).with_name("taskmix"))
  return [taskmix, "convert", str(output), "--config", "demo", *options]


def _portable(job_server: str, pool: str) -> list[str]:
  return [
    "--runner=portable",
    f"--job_endpoint={job_server}",
    "--environment_type=EXTERNAL",
    f"--environment_config={pool}",
    "--job_server_timeout=600",
  ]


def _digests(folder: pathlib.Path) -> dict[str, str]:
  files = (path for path in folder.rglob("*") if path.is_file())
  return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def local(tmp_path_factory) -> dict[str, str]:
  """Digests of the files that the local runner writes."""
  output = tmp_path_factory.mktemp("local") / "out"
  subprocess.run(_command(output, "--runner=direct"), check=True, capture_output=True, timeout=300)
  return _digests(output)


def test_a_job_server_gives_the_local_runners_bytes(job_server, worker_pool, local, tmp_path):
  _, pool = worker_pool()
  command = _command(tmp_path / "out", *_portable(job_server, pool))
  subprocess.run(command, check=True, capture_output=True, timeout=300)
  assert _digests(tmp_path / "out") == local


def test_a_lost_worker_fails_the_command_and_leaves_nothing_half_done(
  job_server, worker_pool, wait_until, local, tmp_path
):
  """The engine here tries nothing again; one that does meets the same files, whole or not at all."""
  workers, pool = worker_pool()
  output = tmp_path / "out"
  command = subprocess.Popen(
    _command(output, *_portable(job_server, pool)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
  )
  spill = pathlib.Path(f"{output}.partial") / "spill"
  wait_until(lambda: list(spill.glob("*.report")), what="the first photos are cut")
  os.killpg(workers.pid, signal.SIGKILL)
  _, said = command.communicate(timeout=300)
  assert command.returncode != 0
  assert said
  assert not output.exists()
  _, pool = worker_pool()
  again = _command(output, *_portable(job_server, pool))
  subprocess.run(again, check=True, capture_output=True, timeout=300)
  assert _digests(output) == local
