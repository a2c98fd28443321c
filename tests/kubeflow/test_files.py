"""The files of kubeflow/: Dockerfile, manifests, locks."""

import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from pipeline.kubeflow import rehearse

REPOSITORY = pathlib.Path(__file__).parent.parent.parent
FOLDER = REPOSITORY / "kubeflow"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()


def _copied() -> set[str]:
  """What the Dockerfile copies from the repository."""
  lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
  return {source for line in lines for source in line.split()[:-1]}


def test_every_file_that_the_dockerfile_copies_is_there():
  for lock in ("requirements.lock", "requirements-gpu.lock"):
    for source in _copied():
      assert (REPOSITORY / source.replace("${LOCK}", lock)).exists(), source


def test_a_rehearsal_has_what_the_dockerfile_copies():
  assert _copied() == {*rehearse.PACKAGE, *rehearse.BESIDE, "kubeflow/${LOCK}"}
  assert rehearse.LOCK == "kubeflow/requirements.lock"


def test_images_are_pinned_and_the_user_is_not_root():
  versions = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
  for image in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
    name, _, tag = image.partition(":")
    tag = re.sub(r"\$\{(\w+)\}", lambda found: versions[found[1]], tag)
    assert re.match(r"\d+\.\d+\.\d+", tag), f"{name} has no pinned tag"
  assert re.search(r"^USER [1-9]\d*$", DOCKERFILE, re.MULTILINE)
  assert not re.search(r"^USER (root|0)$", DOCKERFILE, re.MULTILINE)


def test_beam_in_the_image_is_the_launchers():
  import apache_beam

  assert f"ARG BEAM={apache_beam.__version__}" in DOCKERFILE
  assert f"apache-beam=={apache_beam.__version__}" in (FOLDER / "requirements.lock").read_text()


def test_the_images_packages_are_those_that_the_tests_ran_with():
  def pins(name: str) -> dict[str, str]:
    lines = (REPOSITORY / name).read_text().splitlines()
    return dict(line.split(" ")[0].split("==") for line in lines if re.match(r"[a-z0-9]\S*==", line))

  tested, image, gpu = map(
    pins, ("requirements.lock", "kubeflow/requirements.lock", "kubeflow/requirements-gpu.lock")
  )
  assert {name: version for name, version in image.items() if tested.get(name) != version} == {}
  assert {name: version for name, version in image.items() if gpu.get(name) != version} == {}
  assert "pytest" not in image
  assert [name for name in gpu if name.startswith("nvidia-cudnn")]


@pytest.mark.skipif(not shutil.which("docker"), reason="needs Docker, which is not here")
def test_the_image_builds():
  if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
    pytest.skip("needs a Docker daemon: there is a client, and nothing that answers it")
  command = ["docker", "build", "-f", "kubeflow/Dockerfile", "-t", "taskmix:test", "."]
  subprocess.run(command, cwd=REPOSITORY, check=True, timeout=580)


def _manifests(name: str) -> list[dict]:
  return list(yaml.safe_load_all((FOLDER / name).read_text()))


def test_every_manifest_is_one():
  for path in FOLDER.glob("*.yaml"):
    for manifest in _manifests(path.name):
      assert {"apiVersion", "kind", "metadata"} <= set(manifest), path
      assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", manifest["metadata"]["name"])


def test_the_inference_services_read_the_folder_that_the_pusher_writes():
  claims = {each["metadata"]["name"] for each in _manifests("volumes.yaml")}
  services = _manifests("kserve.yaml")
  assert [each["kind"] for each in services] == ["InferenceService"] * 2
  for service in services:
    assert service["apiVersion"] == "serving.kserve.io/v1beta1"
    predictor = service["spec"]["predictor"]
    assert predictor["model"]["modelFormat"]["name"] == "tensorflow"
    claim, folder = predictor["model"]["storageUri"].removeprefix("pvc://").split("/", 1)
    assert claim in claims
    assert folder == "serving/detector"
    assert 0 <= predictor["minReplicas"] <= predictor["maxReplicas"]


def test_a_gpu_is_asked_for_and_granted_alike():
  cpu, gpu = (each["spec"]["predictor"]["model"]["resources"] for each in _manifests("kserve.yaml"))
  assert "nvidia.com/gpu" not in cpu["limits"]
  assert gpu["requests"]["nvidia.com/gpu"] == gpu["limits"]["nvidia.com/gpu"] == "1"
  for resources in (cpu, gpu):
    assert int(resources["requests"]["cpu"]) <= int(resources["limits"]["cpu"])
