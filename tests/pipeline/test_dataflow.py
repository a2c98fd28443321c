"""The job that Dataflow would be given, caught where the client would send it."""

import io
import pathlib
import tarfile
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.dataflow.internal import apiclient

from pipeline import preflight
from pipeline.config import REPOSITORY, load_config
from pipeline.runners import Dataflow, RunnerConfig
from taskmix.examples.convert import Conversions

SETTINGS = Dataflow(
  project="faces-project",
  region="europe-west4",
  temp_location="gs://bucket/tmp",
  staging_location="gs://bucket/staging",
  machine_type="n2-highcpu-8",
  workers=5,
  max_workers=120,
  disk_gb=64,
  service_account="workers@faces-project.iam.gserviceaccount.com",
  subnetwork="regions/europe-west4/subnetworks/private",
  public_ips=False,
  labels=(("team", "faces"),),
  experiments=("use_runner_v2",),
)


class _SubmittedError(Exception):
  """Raised in the submission's place."""


class Client:
  """What the client was about to send: `job`, the `pipeline` in it, and the `staged` files."""

  def __init__(self):
    self.job = self.pipeline = None
    self.staged: dict[str, bytes] = {}


@pytest.fixture
def client(monkeypatch) -> Client:
  """Catches the job; nothing reaches a network."""
  caught = Client()

  def stage(self, pipeline, options, **given):
    caught.pipeline = pipeline
    for environment in pipeline.components.environments.values():
      for dependency in environment.dependencies:
        role = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(dependency.role_payload)
        file = beam_runner_api_pb2.ArtifactFilePayload.FromString(dependency.type_payload)
        caught.staged[role.staged_name] = pathlib.Path(file.path).read_bytes()
    return []

  def submit(self, job):
    caught.job = job.proto
    raise _SubmittedError

  cls = apiclient.DataflowApplicationClient
  monkeypatch.setattr(GoogleCloudOptions, "_handle_temp_and_staging_locations", lambda self, validator: [])
  monkeypatch.setattr(cls, "_stage_resources", stage)
  monkeypatch.setattr(cls, "stage_file", mock.Mock())
  monkeypatch.setattr(cls, "stage_file_with_retry", mock.Mock(), raising=False)
  monkeypatch.setattr(cls, "submit_job_description", submit)
  return caught


def _submit(settings: Dataflow, data: pathlib.Path, output: pathlib.Path) -> None:
  config = load_config("demo")
  options = beam.options.pipeline_options.PipelineOptions(
    # Without credentials: the client would look for some on the network.
    RunnerConfig("dataflow", dataflow=settings).beam_pipeline_args(["--no_auth"])
  )
  net = config.nets[0]
  steps = Conversions(net, data_root=str(data), output=str(output), conversion=config.conversion)
  with steps, pytest.raises(_SubmittedError), beam.Pipeline(options=options) as pipeline:
    steps.add_to(pipeline)


def test_the_job_has_every_setting(client, handful, tmp_path):
  _submit(SETTINGS, handful, tmp_path / "out")
  environment = client.job.environment
  (pool,) = [each for each in environment.workerPools if each.kind == "harness"]
  assert pool.machineType == "n2-highcpu-8"
  assert pool.numWorkers == 5
  assert pool.autoscalingSettings.maxNumWorkers == 120
  assert "BASIC" in str(pool.autoscalingSettings.algorithm)
  assert pool.diskSizeGb == 64
  assert pool.subnetwork == SETTINGS.subnetwork
  assert "PRIVATE" in str(pool.ipConfiguration)
  assert environment.serviceAccountEmail == SETTINGS.service_account
  assert "use_runner_v2" in environment.experiments
  labels = {each.key: each.value for each in client.job.labels.additionalProperties}
  assert labels["team"] == "faces"
  options = {each.key: each.value for each in environment.sdkPipelineOptions.additionalProperties}
  shown = str(options["options"])
  for value in ("faces-project", "europe-west4", "gs://bucket/tmp", "gs://bucket/staging"):
    assert value in shown


def test_without_an_image_our_source_package_is_staged(client, handful, tmp_path):
  _submit(SETTINGS, handful, tmp_path / "out")
  with tarfile.open(fileobj=io.BytesIO(client.staged["workflow.tar.gz"])) as package:
    names = {name.partition("/")[2] for name in package.getnames()}
  assert {"setup.py", "taskmix/examples/beam.py", "components/hard_example_gen/executor.py"} <= names


def test_an_image_is_what_every_worker_starts(client, handful, tmp_path):
  image = "europe-docker.pkg.dev/faces-project/taskmix/taskmix:1"
  _submit(Dataflow(**{**vars(SETTINGS), "image": image}), handful, tmp_path / "out")
  images = {
    beam_runner_api_pb2.DockerPayload.FromString(each.payload).container_image
    for each in client.pipeline.components.environments.values()
    if each.urn == beam.portability.common_urns.environments.DOCKER.urn
  }
  assert images == {image}
  assert "workflow.tar.gz" not in client.staged


def test_every_function_is_understood_where_only_the_staged_package_is(client, handful, tmp_path):
  _submit(SETTINGS, handful, tmp_path / "out")
  package = preflight.build_package(REPOSITORY / "setup.py", tmp_path / "dist")
  (tmp_path / "site").mkdir()
  assert preflight.require_understood(client.pipeline, package=package, folder=tmp_path / "site") >= 4


def test_a_function_of_a_module_that_is_not_staged_is_found_out(tmp_path, monkeypatch):
  module = tmp_path / "left_out.py"
  module.write_text("def double(x):\n  return 2 * x\n")
  monkeypatch.syspath_prepend(str(tmp_path))
  import left_out

  pipeline = beam.Pipeline()
  _ = pipeline | beam.Create([1]) | "Double" >> beam.Map(left_out.double)
  package = preflight.build_package(REPOSITORY / "setup.py", tmp_path / "dist")
  (tmp_path / "site").mkdir()
  with pytest.raises(preflight.PreflightError, match=r"Double.*No module named 'left_out'"):
    preflight.require_understood(pipeline.to_runner_api(), package=package, folder=tmp_path / "site")
