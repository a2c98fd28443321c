"""The check against TensorFlow Serving itself where it is here, and against a stand-in for Docker."""

import os
import pathlib
import sys

import numpy as np
import pytest

from taskmix.serving import launch, versions
from taskmix.serving.check import check_model
from taskmix.serving.client import GrpcClient, RestClient
from taskmix.serving.policy import ServingPolicy

IMAGE = "tensorflow/serving:stand-in"

# Takes what the check asks of Docker; the container is our own server on the published ports.
_FAKE_DOCKER = """#!{python}
import os, pathlib, signal, sys
verb, *rest = sys.argv[1:]
notes = pathlib.Path({notes!r})
with (notes / "calls").open("a") as calls:
  print(verb, *rest, file=calls)
if verb == "image":
  sys.exit(rest != ["inspect", {image!r}])
if verb == "kill":
  os.kill(int((notes / rest[0]).read_text()), signal.SIGKILL)
  sys.exit(0)
assert verb == "run" and rest[-1] == {image!r}, rest
options = list(zip(rest[1:-1:2], rest[2:-1:2]))
given = lambda flag: [value for name, value in options if name == flag]
(notes / given("--name")[0]).write_text(str(os.getpid()))
ports = dict(reversed(value.removeprefix("127.0.0.1:").split(":")) for value in given("-p"))
(host, inside, mode), = (value.split(":") for value in given("-v"))
(name,) = (value.removeprefix("MODEL_NAME=") for value in given("-e"))
assert inside == "/models/" + name and mode == "ro", inside
from taskmix.serving import server
server.main([host, "--name", name, "--grpc-port", ports["8500"], "--rest-port", ports["8501"]])
"""


def test_the_real_server_gives_the_trainers_answers(toy_model, toy_records, tmp_path):
  policy = ServingPolicy(large_batch=32)
  _, *real = launch.server_kinds(policy)
  if not real:
    pytest.skip(
      f"no tensorflow_model_server is on the path, and Docker has no {policy.docker_image} "
      "(`docker pull` it): TensorFlow Serving itself is not asked here"
    )
  report = check_model(toy_model, tmp_path / "pushed", examples=toy_records, policy=policy, name="toy")
  assert report.findings == ()
  assert set(report.measured) == {launch.LOOPBACK, *real}


@pytest.fixture
def docker(tmp_path, monkeypatch) -> pathlib.Path:
  """A folder with what a stand-in for Docker was called with; it alone is on the path."""
  (tmp_path / "bin").mkdir()
  script = tmp_path / "bin" / "docker"
  script.write_text(_FAKE_DOCKER.format(python=sys.executable, notes=str(tmp_path), image=IMAGE))
  script.chmod(0o755)
  monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
  return tmp_path


def test_a_container_is_asked_where_docker_has_the_image_and_is_gone_afterwards(docker, toy_model, tmp_path):
  assert launch.server_kinds(ServingPolicy(docker_image="other:1")) == [launch.LOOPBACK]
  policy = ServingPolicy(docker_image=IMAGE)
  assert launch.server_kinds(policy) == [launch.LOOPBACK, launch.DOCKER]
  versions.publish(toy_model, tmp_path / "base", record=versions.Record("toy"))
  asked = {"image": np.zeros((2, 4, 4, 3), np.uint8)}
  with launch.serving(tmp_path / "base", launch.DOCKER, name="toy", policy=policy) as server:
    answers = [client.ask("serving_default", asked, timeout=30) for client in _clients(server)]
    assert server.peak_mib() is None
  np.testing.assert_allclose(answers[0]["box"], answers[1]["box"], rtol=1e-5)
  assert not server.alive
  *_, run, kill = (docker / "calls").read_text().splitlines()
  assert f"--memory {policy.memory_mib}m" in run
  assert kill.split() == ["kill", run.split()[run.split().index("--name") + 1]]


def _clients(server: launch.Server) -> list[GrpcClient | RestClient]:
  return [GrpcClient(server.grpc, "toy"), RestClient(server.rest, "toy")]
