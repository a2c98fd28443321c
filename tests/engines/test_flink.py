"""A real Flink cluster on loopback: two task managers, one of which is killed.

Needs Java and Beam's Flink job server, which has Flink inside: the jar that
TASKMIX_FLINK_JOB_SERVER names, else Maven Central's, kept in ~/.cache/taskmix.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.engines

BEAM, FLINK = "2.67.0", "1.19"
CACHE = pathlib.Path.home() / ".cache" / "taskmix"

# What Flink's start scripts say to Java 17.
OPENED = ("java.lang", "java.net", "java.nio", "java.text", "java.time", "java.util", "java.util.concurrent")
JAVA = [
  "java",
  "-Xmx512m",
  *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*OPENED, "sun.nio.ch")),
  "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
]
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"

# Memory is what TaskManagerRunner wants to be told where no script works it out.
CONFIG = """
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: {rpc}
jobmanager.bind-host: 127.0.0.1
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: {rest}
blob.server.port: 0
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: 2
taskmanager.cpu.cores: 2.0
taskmanager.memory.task.heap.size: 256m
taskmanager.memory.task.off-heap.size: 0b
taskmanager.memory.network.min: 64m
taskmanager.memory.network.max: 64m
taskmanager.memory.managed.size: 64m
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
heartbeat.interval: 1000
heartbeat.timeout: 8000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 10
restart-strategy.fixed-delay.delay: 1 s
io.tmp.dirs: {folder}
"""


@pytest.fixture(scope="module")
def job_server_jar() -> str:
  """Path of Beam's Flink job server; skips with the reason where there is none."""
  if not shutil.which("java"):
    pytest.skip("Flink needs Java, which is not here: apt-get install openjdk-17-jre-headless")
  from apache_beam.utils.subprocess_server import JavaJarServer

  given = os.environ.get("TASKMIX_FLINK_JOB_SERVER")
  if given:
    return given
  url = JavaJarServer.path_to_maven_jar(f"beam-runners-flink-{FLINK}-job-server", "org.apache.beam", BEAM)
  try:
    return JavaJarServer.local_jar(url, cache_dir=str(CACHE))
  except (RuntimeError, OSError) as error:
    pytest.skip(f"Beam's Flink job server is not to be had: {error}")


class Cluster:
  """A session cluster; `task_managers` are its processes, `rest` its host:port."""

  def __init__(self, rest: str, task_managers: list[subprocess.Popen]):
    self.rest, self.task_managers = rest, task_managers

  def registered(self) -> int:
    """Task managers that the job manager counts; 0 while it is not up."""
    try:
      with urllib.request.urlopen(f"http://{self.rest}/overview", timeout=5) as answer:
        return json.load(answer)["taskmanagers"]
    except OSError:
      return 0


@pytest.fixture
def cluster(job_server_jar, free_port, wait_until, tmp_path) -> Iterator[Cluster]:
  """One job manager and two task managers."""
  rest = free_port()
  folder = tmp_path / "flink"
  folder.mkdir()
  config = CONFIG.format(rpc=free_port(), rest=rest, folder=folder).lstrip()
  for name in ("config.yaml", "flink-conf.yaml"):
    (folder / name).write_text(config)
  with contextlib.ExitStack() as processes:

    def start(main: str) -> subprocess.Popen:
      log = processes.enter_context((folder / f"{main.rpartition('.')[2]}.log").open("a"))
      command = [*JAVA, "-cp", job_server_jar, main, "--configDir", str(folder)]
      process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
      processes.callback(process.wait)
      processes.callback(process.kill)
      return process

    start(JOB_MANAGER)
    started = Cluster(f"127.0.0.1:{rest}", [start(TASK_MANAGER), start(TASK_MANAGER)])
    wait_until(lambda: started.registered() == 2, what="two task managers register")
    yield started


def _convert(output: pathlib.Path, *options: str) -> list[str]:
  taskmix = str(pathlib.Path(sys.executable).with_name("taskmix"))
  return [taskmix, "convert", str(output), "--config", "demo", *options]


def _on_flink(cluster: Cluster, jar: str, pool: str) -> list[str]:
  return [
    "--runner=flink",
    f"--flink_master={cluster.rest}",
    f"--flink_version={FLINK}",
    f"--flink_job_server_jar={jar}",
    "--parallelism=2",
    "--environment_type=EXTERNAL",
    f"--environment_config={pool}",
    "--job_server_timeout=600",
  ]


def _digests(folder: pathlib.Path) -> dict[str, str]:
  files = (path for path in folder.rglob("*") if path.is_file())
  return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_flink_gives_the_local_runners_bytes_though_a_task_manager_is_killed(
  cluster, job_server_jar, worker_pool, wait_until, tmp_path
):
  _, pool = worker_pool()
  output = tmp_path / "out"
  command = subprocess.Popen(_convert(output, *_on_flink(cluster, job_server_jar, pool)))
  spill = pathlib.Path(f"{output}.partial") / "spill"
  wait_until(lambda: list(spill.glob("*.report")), what="the first photos are cut")
  cluster.task_managers[0].kill()
  assert command.wait(timeout=300) == 0
  assert cluster.registered() == 1
  local = tmp_path / "local"
  subprocess.run(_convert(local, "--runner=direct"), check=True, capture_output=True, timeout=300)
  assert _digests(output) == _digests(local)
