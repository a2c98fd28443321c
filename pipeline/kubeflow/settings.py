"""How a pipeline runs on Kubeflow: images, resources, places."""

import dataclasses

import pydantic

_STRICT = pydantic.ConfigDict(extra="forbid")

GPU = "nvidia.com/gpu"


@dataclasses.dataclass(frozen=True)
class Resources:
  """Limits of the steps of one component.

  Attributes:
    component: its class, such as "Trainer", or an id, such as "Trainer-pnet"; the
      id wins. "" is everything else.
    cpus: cores.
    memory_gb: 10^9 bytes.
    gpus: how many; with one or more, the step runs in the GPU image.
    gpu_type: the resource's name in the cluster.
  """

  __pydantic_config__ = _STRICT

  component: str
  cpus: float = 1.0
  memory_gb: float = 4.0
  gpus: int = 0
  gpu_type: str = GPU

  def __post_init__(self):
    if self.cpus <= 0 or self.memory_gb <= 0 or self.gpus < 0:
      raise ValueError(
        f"resources of {self.component!r}: cpus {self.cpus} and memory_gb {self.memory_gb} must be positive, "
        f"gpus {self.gpus} 0 or more"
      )


# Conversion and mining decode photos on every core that they get; TFX and
# TensorFlow take 2 GB before they do anything.
DEFAULTS = (
  Resources("", cpus=1, memory_gb=4),
  Resources("CropExampleGen", cpus=4, memory_gb=8),
  Resources("HardExampleGen", cpus=4, memory_gb=12),
  Resources("StatisticsGen", cpus=2, memory_gb=8),
  Resources("Transform", cpus=2, memory_gb=8),
  Resources("Trainer", cpus=4, memory_gb=16),
  Resources("Evaluator", cpus=2, memory_gb=8),
  Resources("DetectionEvaluator", cpus=4, memory_gb=8),
  Resources("ServingCheck", cpus=2, memory_gb=6),
)


@dataclasses.dataclass(frozen=True)
class Volume:
  """A volume claim that every step mounts.

  Attributes:
    claim: name of the PersistentVolumeClaim; several steps at once read it, so
      ReadWriteMany, or a cluster of one node.
    path: where it appears.
  """

  __pydantic_config__ = _STRICT

  claim: str
  path: str

  def __post_init__(self):
    if not self.path.startswith("/"):
      raise ValueError(f"volume {self.claim!r}: path must be absolute, not {self.path!r}")


@dataclasses.dataclass(frozen=True)
class Kubeflow:
  """Where and how the steps run.

  Attributes:
    image, gpu_image: as kubeflow/Dockerfile builds them; "" for gpu_image takes
      `image`, for a cluster without GPUs.
    pipeline_root: of the artifacts: gs://, s3:// or minio://; "" is the cluster's own.
    state: what outlives a run: pushed models, checkpoints, what was blessed. gs://,
      or a folder on a volume. Steps read and write it themselves.
    data: where the cluster finds the photos by default: gs://, or a folder of a
      volume; a relative path is one in the image, which has the demo's photos.
      A run may name another.
    resources: exceptions to DEFAULTS.
    retries: of a failed step.
    cache: whether a step whose inputs are unchanged is skipped.
    volumes: that every step mounts.
    endpoint: address of the server that `taskmix run` hands the job to, such as
      http://localhost:8080; "" takes that of the environment, KF_PIPELINES_ENDPOINT.
    namespace: of a server with several users; "" on one without.
  """

  __pydantic_config__ = _STRICT

  image: str = "taskmix:latest"
  gpu_image: str = ""
  pipeline_root: str = ""
  state: str = "/taskmix-state"
  data: str = "demo"
  resources: tuple[Resources, ...] = ()
  retries: int = 2
  cache: bool = True
  volumes: tuple[Volume, ...] = ()
  endpoint: str = ""
  namespace: str = ""

  def __post_init__(self):
    if self.retries < 0:
      raise ValueError(f"kubeflow: retries must be 0 or more, not {self.retries}")
    if self.pipeline_root and self.pipeline_root.split("://")[0] not in ("gs", "s3", "minio"):
      raise ValueError(
        f"kubeflow: pipeline_root {self.pipeline_root!r} must be gs://, s3:// or minio://: the backend keeps "
        "artifacts in an object store. A volume can hold data and state."
      )
    if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
      raise ValueError(f"kubeflow: endpoint {self.endpoint!r} must begin with http:// or https://")
    if not self.state.startswith(("/", "gs://")):
      raise ValueError(f"kubeflow: state {self.state!r} must be a folder of a volume, or gs://")

  def resources_of(self, node: str) -> Resources:
    """Of the step with that id."""
    by_name = {each.component: each for each in (*DEFAULTS, *self.resources)}
    return by_name.get(node) or by_name.get(node.partition("-")[0]) or by_name[""]

  def image_of(self, node: str) -> str:
    """That the step with that id runs in."""
    return self.gpu_image if self.gpu_image and self.resources_of(node).gpus else self.image
