"""Conversions through a Beam job server, with the Python code in processes of its own.

This is how Flink and Spark run a pipeline too: a job goes to a server, and the
functions go, pickled, to a worker pool beside each node. Two engines take them
here: Beam's in Python, and Prism, its engine in Go.
"""

import hashlib
import os
import pathlib
import signal
import subprocess
import sys

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.config import load_config
from taskmix.examples.convert import Conversions
from taskmix.examples.manifest import Manifest
from taskmix.faces.mining import Miner, Mining
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Conversion

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
  python_server, worker_pool, wait_until, local, tmp_path
):
  """The engine here tries nothing again; one that does meets the same files, whole or not at all.

  Prism waits for a lost worker without end.
  """
  workers, pool = worker_pool()
  output = tmp_path / "out"
  command = subprocess.Popen(
    _command(output, *_portable(python_server, pool)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
  )
  spill = pathlib.Path(f"{output}.partial") / "spill"
  wait_until(lambda: list(spill.glob("*.report")), what="the first photos are cut")
  os.killpg(workers.pid, signal.SIGKILL)
  _, said = command.communicate(timeout=300)
  assert command.returncode != 0
  assert said
  assert not output.exists()
  _, pool = worker_pool()
  again = _command(output, *_portable(python_server, pool))
  subprocess.run(again, check=True, capture_output=True, timeout=300)
  assert _digests(output) == local


def test_a_net_mines_on_an_engine_what_it_mines_here(job_server, worker_pool, handful, pnet, tmp_path):
  _, pool = worker_pool()
  here = _mine(handful, tmp_path / "here", pnet, ["--runner=DirectRunner"])
  assert here.counts["train-neg"] > 0
  there = _mine(
    handful, tmp_path / "there", pnet, ["--runner=PortableRunner", *_portable(job_server, pool)[1:]]
  )
  assert there.counts == here.counts
  assert _digests(tmp_path / "there") == _digests(tmp_path / "here")


@pytest.fixture(scope="module")
def pnet(tmp_path_factory) -> str:
  """A P-Net as the Trainer exports one, of random weights: it gives about a half to everything."""
  from taskmix.model import serving
  from taskmix.model.build import build

  folder = str(tmp_path_factory.mktemp("pnet"))
  serving.export(folder, PNET, model=build(PNET))
  return folder


def _mine(data: pathlib.Path, output: pathlib.Path, model: str, beam_args: list[str]) -> Manifest:
  """R-Net's examples with what the model takes for faces, by the executor's own steps."""
  (demo,) = (net for net in load_config("demo").nets if net.name == "rnet")
  miner = Miner((model,), Mining((0.4, 0.4, 0.4), min_face=60.0))
  steps = Conversions(demo, data_root=str(data), output=str(output), conversion=Conversion(), mine=miner)
  with steps:
    with steps.problems(), beam.Pipeline(options=PipelineOptions(beam_args)) as pipeline:
      steps.add_to(pipeline)
    return steps.finish()
