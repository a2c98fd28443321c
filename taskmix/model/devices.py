"""Where and how a net computes: strategy, precision and compilation, chosen from the devices."""

import dataclasses
import functools
import json
import os
from typing import Any

import tensorflow as tf

from taskmix.mixing import Worker
from taskmix.spec import Training

# First generation with tensor cores (Volta), which half precision needs to be faster.
_TENSOR_CORES = (7, 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Compute:
  """The choices, and in `reason` why they were made.

  Attributes:
    strategy: TensorFlow's default, OneDeviceStrategy, MirroredStrategy or
      MultiWorkerMirroredStrategy.
    precision: a Keras dtype policy.
    jit_compile: whether XLA compiles the step.
    reason: for logs and reports.
    worker: this process among those that train together; takes its slice of
      every batch. The first of them, the chief, writes what is kept.
  """

  strategy: tf.distribute.Strategy
  precision: str
  jit_compile: bool
  reason: str
  worker: Worker = Worker()

  @property
  def replicas(self) -> int:
    return self.strategy.num_replicas_in_sync

  @property
  def is_chief(self) -> bool:
    return self.worker.index == 0


@functools.cache
def cluster() -> tuple[Worker, tf.distribute.Strategy | None]:
  """This process's place among the workers that TF_CONFIG lists, and their strategy; None for one alone.

  Must be called before TensorFlow runs anything: the first call waits for the
  others and sets up how they add their gradients. TF_CONFIG is a JSON of cluster
  ("chief" and "worker", lists of host:port) and task (type, index), as Kubeflow's
  training operator sets it (tensorflow.org/guide/distributed_training).

  Raises:
    ValueError: for a TF_CONFIG that is not like this.
  """
  worker = _worker_of(os.environ.get("TF_CONFIG", ""))
  return worker, tf.distribute.MultiWorkerMirroredStrategy() if worker.count > 1 else None


def _worker_of(text: str) -> Worker:
  """The place that TF_CONFIG's text gives; the chief comes first."""
  if not text:
    return Worker()
  try:
    config = json.loads(text)
    hosts = {role: list(config.get("cluster", {}).get(role, ())) for role in ("chief", "worker")}
    if not any(hosts.values()):
      return Worker()
    role, index = config["task"]["type"], int(config["task"]["index"])
    before = len(hosts["chief"]) if role == "worker" else 0
    if index >= len(hosts[role]):
      raise ValueError(f"no {role} has the index {index}")
    return Worker(before + index, sum(map(len, hosts.values())))
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    raise ValueError(
      f"TF_CONFIG cannot be understood ({error!r}): it is JSON of a cluster with chief and worker, lists of "
      f"host:port, and a task with type (one of these two) and index; found {text:.300}"
    ) from error


def choose(training: Training, *, devices: list[str] | None = None) -> Compute:
  """Where the training runs.

  Args:
    training: `max_devices`, `precision` and `jit_compile` are wishes about it.
    devices: names to use instead of the machine's GPUs, such as ["CPU:0", "CPU:1"].

  Raises:
    ValueError: if the global batch does not divide over the devices, or over
      those of all workers; for a TF_CONFIG that cannot be understood.
  """
  worker, together = cluster()
  gpus = tf.config.list_physical_devices("GPU")
  if together is not None:
    return _together(training, worker, together, gpus)
  if devices is None:
    devices = [f"GPU:{number}" for number in range(len(gpus))]
  if training.max_devices:
    devices = devices[: training.max_devices]
  if devices and training.batch_size % len(devices):
    raise ValueError(
      f"batch size {training.batch_size} does not divide over {len(devices)} devices; "
      "change it, or set max_devices to a number that divides it"
    )
  on_gpu = bool(devices) and devices[0].startswith("GPU")
  precision = _precision(training, gpus if on_gpu else [])
  jit_compile = _jit_compile(training, devices, on_gpu=on_gpu)
  where = ", ".join(devices) or "CPU"
  reason = f"{where}; {precision}; {'XLA' if jit_compile else 'no XLA'}"
  return Compute(_strategy(devices), precision, jit_compile, reason)


def _together(
  training: Training, worker: Worker, strategy: tf.distribute.Strategy, gpus: list[Any]
) -> Compute:
  """Several workers: all GPUs of each, else its CPU."""
  replicas = strategy.num_replicas_in_sync
  if training.batch_size % replicas:
    raise ValueError(
      f"batch size {training.batch_size} does not divide over the {replicas} devices of {worker.count} "
      "workers; change it, or the number of workers"
    )
  if training.jit_compile:
    raise ValueError("jit_compile works on one device; leave it unset to train on several workers")
  precision = _precision(training, gpus)
  reason = f"worker {worker.index} of {worker.count}, {replicas} devices in all; {precision}; no XLA"
  return Compute(strategy, precision, False, reason, worker)


def _strategy(devices: list[str]) -> tf.distribute.Strategy:
  if not devices:
    return tf.distribute.get_strategy()
  if len(devices) == 1:
    return tf.distribute.OneDeviceStrategy(devices[0])
  return tf.distribute.MirroredStrategy(devices)


def _precision(training: Training, gpus: list[Any]) -> str:
  if training.precision != "auto":
    return training.precision
  details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
  fast = details and all(each.get("compute_capability", (0, 0)) >= _TENSOR_CORES for each in details)
  return "mixed_float16" if fast else "float32"


def _jit_compile(training: Training, devices: list[str], *, on_gpu: bool) -> bool:
  """XLA where the settings say so; else on one GPU.

  Losses are added up over replicas inside the step, which XLA cannot compile
  for several. `make bench-train` with --settings measures it on CPUs.

  Raises:
    ValueError: if XLA is demanded of several devices.
  """
  if training.jit_compile and len(devices) > 1:
    raise ValueError("jit_compile works on one device; leave it unset, or set max_devices=1")
  if training.jit_compile is not None:
    return training.jit_compile
  return on_gpu and len(devices) == 1
