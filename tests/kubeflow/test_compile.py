"""The compiled job of the whole cascade, against what Kubeflow Pipelines' backend runs."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

from pipeline.config import REPOSITORY, load_config
from pipeline.kubeflow.rehearse import in_order, require_runnable
from pipeline.kubeflow.settings import Kubeflow, Resources, Volume
from pipeline.runners import Dataflow, RunnerConfig
from taskmix.spec import Bound, Net

SETTINGS = Kubeflow(
  image="registry/taskmix:1",
  gpu_image="registry/taskmix:1-gpu",
  pipeline_root="minio://mlpipeline/v2/artifacts",
  data="/photos",
  resources=(Resources("Trainer", cpus=6, memory_gb=24, gpus=1),),
  retries=3,
  volumes=(Volume("taskmix-state", "/taskmix-state"), Volume("photos", "/photos")),
)


@pytest.fixture(scope="module")
def compiler():
  """The compiler's module; importing it takes TFX's half minute."""
  from pipeline.kubeflow import compile as module

  return module


@pytest.fixture(scope="module")
def job(compiler, demo) -> dict:
  return compiler.compile_job(
    load_config("demo"), runner=RunnerConfig("kubeflow", kubeflow=SETTINGS), data=demo
  )


def _tasks(job: dict) -> dict:
  return job["pipelineSpec"]["root"]["dag"]["tasks"]


def _container(job: dict, name: str) -> dict:
  return job["pipelineSpec"]["deploymentSpec"]["executors"][f"{name}_executor"]["container"]


def test_the_whole_cascade_compiles_to_what_the_backend_runs(job):
  require_runnable(job["pipelineSpec"])
  order = in_order(_tasks(job))
  assert len(order) == 40
  assert order.index("ModelPusher") < order.index("ReportGen")
  assert order.index("ModelGate-pnet") < order.index("HardExampleGen-rnet") < order.index("CascadeAssembler")
  assert order.index("DetectionEvaluator") < order.index("ModelPusher")


def test_other_bounds_judge_what_is_there_and_make_nothing_anew(job, compiler, demo):
  demo_config = load_config("demo")
  other = dataclasses.replace(
    demo_config,
    stages=tuple(
      dataclasses.replace(stage, net=_bounded(stage.net, Bound("accuracy", min=0.9)))
      for stage in demo_config.stages
    ),
  )
  job_of_other = compiler.compile_job(other, runner=RunnerConfig("kubeflow", kubeflow=SETTINGS), data=demo)
  before, after = _tasks(job), _tasks(job_of_other)
  changed = {name for name in before if before[name]["inputs"] != after[name]["inputs"]}
  assert {name.partition("-")[0] for name in changed} == {
    "Evaluator",
    "ModelGate",
    "ModelPusher",
    "ReportGen",
  }
  assert {f"Evaluator-{net.name}" for net in demo_config.nets} <= changed


def _bounded(net: Net, bound: Bound) -> Net:
  face, *others = net.tasks
  return dataclasses.replace(net, tasks=(dataclasses.replace(face, bounds=(bound,)), *others))


def test_the_backends_own_compiler_accepts_it(job, compiler, tmp_path):
  """Built from the sources of kubeflow/pipelines: backend/src/v2/cmd/compiler."""
  program = os.environ.get("KFP_COMPILER") or shutil.which("kfp-compiler")
  if not program:
    pytest.skip("needs the backend's compiler; its Go module is on no proxy. See docs/kubeflow.md")
  path, _ = compiler.write_job(job, SETTINGS, tmp_path / "job")
  done = subprocess.run([program, "--job", str(path)], capture_output=True, text=True, check=False)
  assert done.returncode == 0, done.stderr
  workflow = yaml.safe_load(done.stdout)
  (root,) = [template for template in workflow["spec"]["templates"] if template["name"] == "root"]
  assert {task["name"] for task in root["dag"]["tasks"]} >= set(_tasks(job))


def test_no_path_of_this_machine_is_left(job):
  text = json.dumps(job)
  assert str(REPOSITORY) not in text
  assert "TASKMIX-STATE" not in text


def test_paths_are_the_runs_data_the_volumes_and_the_images(job):
  def constant(task: str, key: str) -> str:
    return _tasks(job)[task]["inputs"]["parameters"][key]["runtimeValue"]["constant"]

  assert constant("CropExampleGen-pnet", "data_root") == "{data}"
  assert constant("ImportSchemaGen-rnet", "schema_file") == "schemas/rnet.pbtxt"
  assert constant("ModelPusher", "push_directory") == "/taskmix-state/serving/detector"
  assert '"/taskmix-state/checkpoints/onet"' in constant("Trainer-onet", "custom_config")


def test_a_run_has_parameters(job):
  parameters = job["pipelineSpec"]["root"]["inputDefinitions"]["parameters"]
  assert parameters["data"] == {"parameterType": "STRING", "defaultValue": "/photos"}
  assert parameters["steps_pnet"] == {"parameterType": "NUMBER_INTEGER", "defaultValue": 1500}
  given = _tasks(job)["Trainer-pnet"]["inputs"]["parameters"]
  assert given["taskmix_steps"] == {"componentInputParameter": "steps_pnet"}
  assert given["taskmix_batch_size"] == {"componentInputParameter": "batch_size_pnet"}
  for task in ("CropExampleGen-pnet", "HardExampleGen-onet", "DetectionEvaluator", "ServingCheck"):
    assert _tasks(job)[task]["inputs"]["parameters"]["taskmix_data"] == {"componentInputParameter": "data"}


def test_each_step_has_its_image_and_limits(job):
  trainer = _container(job, "Trainer-rnet")
  assert trainer["image"] == "registry/taskmix:1-gpu"
  assert trainer["resources"] == {
    "cpuLimit": 6.0,
    "memoryLimit": 24.0,
    "accelerator": {"type": "nvidia.com/gpu", "count": "1"},
  }
  pusher = _container(job, "ModelPusher")
  assert pusher["image"] == "registry/taskmix:1"
  assert pusher["resources"] == {"cpuLimit": 1.0, "memoryLimit": 4.0}
  assert pusher["command"] == ["python", "-m", "pipeline.kubeflow.step"]


def test_failed_steps_are_tried_again_and_only_what_looks_into_the_world_is_never_cached(job):
  for name, task in _tasks(job).items():
    assert task["retryPolicy"]["maxRetryCount"] == 3
    cached = task["cachingOptions"].get("enableCache", False)
    assert cached != name.startswith("LastBlessed"), name


def test_no_two_containers_are_equal(job):
  """The backend keeps components under the hash of their container."""
  containers = [json.dumps(_container(job, name), sort_keys=True) for name in _tasks(job)]
  assert len(set(containers)) == len(containers)


def test_the_written_pipeline_mounts_the_volumes(job, compiler, tmp_path):
  as_json, as_yaml = compiler.write_job(job, SETTINGS, tmp_path / "folder" / "job")
  assert json.loads(as_json.read_text()) == job
  pipeline, platform = yaml.safe_load_all(as_yaml.read_text())
  assert pipeline == job["pipelineSpec"]
  executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
  assert set(executors) == set(job["pipelineSpec"]["deploymentSpec"]["executors"])
  mounts = executors["ModelPusher_executor"]["pvcMount"]
  assert [(mount["constant"], mount["mountPath"]) for mount in mounts] == [
    ("taskmix-state", "/taskmix-state"),
    ("photos", "/photos"),
  ]


def test_dataflow_steps_take_the_steps_image_and_need_a_root_that_workers_see(compiler, demo):
  dataflow = Dataflow(project="p", region="r", temp_location="gs://b/tmp")
  runner = RunnerConfig("kubeflow", steps="dataflow", dataflow=dataflow, kubeflow=SETTINGS)
  with pytest.raises(ValueError, match="need a pipeline_root that its workers see: gs://"):
    compiler.compile_job(load_config("demo"), runner=runner, data=demo)
  settings = Kubeflow(image="registry/taskmix:1", pipeline_root="gs://b/root", state="gs://b/state")
  runner = RunnerConfig("kubeflow", steps="dataflow", dataflow=dataflow, kubeflow=settings)
  job = compiler.compile_job(load_config("demo"), runner=runner, data=demo)
  args = _container(job, "Transform-pnet")["args"]
  assert {"--runner=DataflowRunner", "--sdk_container_image=registry/taskmix:1"} <= set(args)
  assert not [arg for arg in args if arg.startswith("--setup_file")]
  assert job["runtimeConfig"]["gcsOutputDirectory"] == "gs://b/root"


def test_a_data_folder_that_is_not_there_is_refused(compiler):
  runner = RunnerConfig("kubeflow", kubeflow=SETTINGS)
  with pytest.raises(ValueError, match="no data folder"):
    compiler.compile_job(load_config("demo"), runner=runner, data=pathlib.Path("/nowhere"))


def test_the_runner_finds_every_artifact_of_ours_by_its_type_name():
  import components
  from components import artifacts

  ours = [each for each in vars(artifacts).values() if getattr(each, "__module__", "") == artifacts.__name__]
  assert len(ours) == 2
  for each in ours:
    assert getattr(components, each.TYPE_NAME.removeprefix("components.")) is each
