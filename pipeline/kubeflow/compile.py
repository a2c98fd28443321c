"""A config as a job of Kubeflow Pipelines, from TFX's own compiler and what it leaves undone.

Open-source Kubeflow Pipelines runs containers and importers. What TFX's compiler
writes beyond that, or leaves out, is put right here:

* a Resolver compiles to a query that the backend refuses: `StoredHistory` puts
  plain steps in its place;
* retries, no cache for what looks into the world, and parameters of a run for
  what TFX keeps inside JSON are added to the compiled job;
* paths of this machine become the image's, the volume's or the run's;
* every step begins in `pipeline.kubeflow.step`, which mends what reaches it.
"""

import json
import pathlib
from typing import Any

from kfp.pipeline_spec import pipeline_spec_pb2
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.dsl.components.base.base_node import BaseNode
from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner as tfx_runner
from tfx.orchestration.kubeflow.v2.pipeline_builder import DEFAULT_IMAGE_PATH_KEY
from tfx.types.channel import BaseChannel

from components.blessed_store.component import LastBlessedModel, LastBlessedStatistics, RememberBlessed
from pipeline import dag
from pipeline.config import REPOSITORY, Config, node_id
from pipeline.folders import RunFolder
from pipeline.kubeflow.settings import Kubeflow
from pipeline.kubeflow.step import DATA, RUN_PREFIX
from pipeline.runners import RunnerConfig
from taskmix.spec import Net

COMMAND = ["python", "-m", "pipeline.kubeflow.step"]

# Stands for Kubeflow.state while TFX components are made, which want local paths.
_STATE = "/TASKMIX-STATE"

# Their answer hangs on more than their inputs.
_UNCACHED = ("LastBlessedModel", "LastBlessedStatistics")

_Resources = pipeline_spec_pb2.PipelineDeploymentConfig.PipelineContainerSpec.ResourceSpec


class StoredHistory(dag.MetadataHistory):
  """What was blessed before, kept in folders by plain steps; see components/blessed_store."""

  def __init__(self, folder: str):
    """`folder` holds one of each producer of models."""
    self._folder = folder

  def statistics(self, net: Net) -> BaseNode:
    return LastBlessedStatistics(folder=self._of(node_id("Trainer", net)))

  def model(self, candidate: BaseChannel, *, producer: str) -> BaseNode:
    return LastBlessedModel(candidate, folder=self._of(producer))

  def remember(
    self, model: BaseChannel, *, producer: str, blessing: BaseChannel, statistics: BaseChannel | None = None
  ) -> list[BaseNode]:
    return [RememberBlessed(model, blessing=blessing, statistics=statistics, folder=self._of(producer))]

  def _of(self, producer: str) -> str:
    return f"{self._folder}/{producer}"


def compile_job(config: Config, *, runner: RunnerConfig, data: pathlib.Path) -> dict[str, Any]:
  """The PipelineJob, as JSON.

  Args:
    config: what to run.
    runner: `kubeflow` says where and how, `steps` on which engine the Beam steps.
    data: a copy of the data folder on this machine, whose annotations are
      checked; the cluster reads `runner.kubeflow.data`.

  Raises:
    ValueError: if config, data or settings cannot be used.
  """
  settings = runner.kubeflow
  _check(config, runner)
  pipeline = dag.create_pipeline(
    config,
    data=str(data.resolve()),
    folder=RunFolder(pathlib.Path(_STATE)),
    beam_args=_beam_args(runner),
    history=StoredHistory(f"{_STATE}/blessed"),
  )
  images = {DEFAULT_IMAGE_PATH_KEY: settings.image}
  for component in pipeline.components:
    images[component.id] = settings.image_of(component.id)
    if isinstance(component, BaseComponent):
      component.with_platform_config(_resource_spec(settings, component.id))
  compiler = tfx_runner.KubeflowV2DagRunner(
    tfx_runner.KubeflowV2DagRunnerConfig(
      display_name=config.name, default_image=images, default_commands=COMMAND, use_pipeline_spec_2_1=True
    )
  )
  job = compiler.run(pipeline, write_out=False)
  return _finish(job, config, settings, data=data.resolve())


def _check(config: Config, runner: RunnerConfig) -> None:
  if config.schemas and REPOSITORY not in pathlib.Path(config.schemas).resolve().parents:
    raise ValueError(
      f"the image has this repository's schemas, not those of {config.schemas}: copy them to schemas/ and "
      'leave Config.schemas ""'
    )
  root = runner.kubeflow.pipeline_root
  if runner.steps != "direct" and not root.startswith("gs://"):
    raise ValueError(
      f"Beam steps on {runner.steps} need a pipeline_root that its workers see: gs://, not {root!r}"
    )


def _beam_args(runner: RunnerConfig) -> list[str]:
  """Of the Beam steps; Dataflow's workers take the steps' image, where no source package lies."""
  args = runner.beam_pipeline_args()
  if runner.steps == "dataflow" and not runner.dataflow.image:
    args = [flag for flag in args if not flag.startswith("--setup_file")]
    args += [f"--sdk_container_image={runner.kubeflow.image}", "--sdk_location=container"]
  return args


def _resource_spec(settings: Kubeflow, node: str) -> Any:
  limits = settings.resources_of(node)
  spec = _Resources(cpu_limit=limits.cpus, memory_limit=limits.memory_gb)
  if limits.gpus:
    spec.accelerator.type, spec.accelerator.count = limits.gpu_type, limits.gpus
  return spec


def _finish(job: dict[str, Any], config: Config, settings: Kubeflow, *, data: pathlib.Path) -> dict[str, Any]:
  """The job with what TFX's compiler leaves undone."""
  spec = job["pipelineSpec"]
  # Kubernetes names the run's objects after it.
  spec["pipelineInfo"]["name"] = config.name.replace("_", "-").lower()
  job["runtimeConfig"].pop("gcsOutputDirectory", None)
  if settings.pipeline_root:
    job["runtimeConfig"]["gcsOutputDirectory"] = settings.pipeline_root
    spec["defaultPipelineRoot"] = settings.pipeline_root
  parameters = spec["root"].setdefault("inputDefinitions", {}).setdefault("parameters", {})
  parameters["data"] = {"parameterType": "STRING", "defaultValue": settings.data}
  for name, task in spec["root"]["dag"]["tasks"].items():
    _relocate(task, spec["components"][name], settings, data=data)
    _add_policies(task, settings, cached=settings.cache and not name.startswith(_UNCACHED))
    _name_step(_container(spec, name), name)
  for stage in config.stages:
    name = node_id("Trainer", stage.net)
    for setting in ("steps", "batch_size"):
      run_name = f"{setting}_{stage.net.name}"
      value = getattr(stage.training, setting)
      parameters[run_name] = {"parameterType": "NUMBER_INTEGER", "defaultValue": value}
      _read_parameter(spec, name, setting, run_name, "NUMBER_INTEGER")
  return job


def _container(spec: dict[str, Any], component: str) -> dict[str, Any]:
  label = spec["components"][component]["executorLabel"]
  return spec["deploymentSpec"]["executors"][label]["container"]


def _relocate(
  task: dict[str, Any], component: dict[str, Any], settings: Kubeflow, *, data: pathlib.Path
) -> None:
  """Turns paths of this machine into the run's data folder, the state's, and the image's."""
  inputs = task.get("inputs", {}).get("parameters", {})
  reads_data = False
  for value in inputs.values():
    constant = value.get("runtimeValue", {}).get("constant")
    if not isinstance(constant, str):
      continue
    moved = constant.replace(_STATE, settings.state.rstrip("/")).replace(str(data), DATA)
    value["runtimeValue"]["constant"] = moved.replace(f"{REPOSITORY}/", "")
    reads_data |= DATA in moved
  if reads_data:
    inputs[f"{RUN_PREFIX}data"] = {"componentInputParameter": "data"}
    component["inputDefinitions"]["parameters"][f"{RUN_PREFIX}data"] = {"parameterType": "STRING"}


def _read_parameter(spec: dict[str, Any], component: str, name: str, run_name: str, kind: str) -> None:
  """Lets a step read a parameter of the run, as taskmix_NAME."""
  definitions = spec["components"][component]["inputDefinitions"].setdefault("parameters", {})
  definitions[f"{RUN_PREFIX}{name}"] = {"parameterType": kind}
  inputs = spec["root"]["dag"]["tasks"][component]["inputs"].setdefault("parameters", {})
  inputs[f"{RUN_PREFIX}{name}"] = {"componentInputParameter": run_name}


def _add_policies(task: dict[str, Any], settings: Kubeflow, *, cached: bool) -> None:
  task["cachingOptions"] = {"enableCache": True} if cached else {}
  if settings.retries:
    task["retryPolicy"] = {
      "maxRetryCount": settings.retries,
      "backoffDuration": "30s",
      "backoffFactor": 2.0,
      "backoffMaxDuration": "600s",
    }


def _name_step(container: dict[str, Any], name: str) -> None:
  """Makes the containers of two nets' steps differ.

  The backend keeps one component's description for all that have equal
  containers, under their hash.
  """
  container["args"] = ["--step", name, *container["args"]]


def platform_spec(job: dict[str, Any], settings: Kubeflow) -> dict[str, Any] | None:
  """The volumes that Kubernetes mounts into every step; None without any.

  (kfp-kubernetes' KubernetesExecutorConfig: pvcMount.)
  """
  if not settings.volumes:
    return None
  mounts = [{"mountPath": volume.path, "constant": volume.claim} for volume in settings.volumes]
  labels = job["pipelineSpec"]["deploymentSpec"]["executors"]
  executors = {label: {"pvcMount": mounts} for label in labels}
  return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}


def write_job(job: dict[str, Any], settings: Kubeflow, output: pathlib.Path) -> list[pathlib.Path]:
  """Writes OUTPUT.json and OUTPUT.yaml.

  The first is the job, for Vertex and for rehearsals; the second its pipeline and
  the volumes, as open-source Kubeflow Pipelines takes them: by its API, its page
  "Upload pipeline", or the kfp client.
  """
  import yaml

  output.parent.mkdir(parents=True, exist_ok=True)
  as_json, as_yaml = output.with_suffix(".json"), output.with_suffix(".yaml")
  as_json.write_text(json.dumps(job, indent=1, sort_keys=True) + "\n")
  platform = platform_spec(job, settings)
  documents = [job["pipelineSpec"], *([platform] if platform else [])]
  as_yaml.write_text(yaml.safe_dump_all(documents, sort_keys=True))
  return [as_json, as_yaml]
