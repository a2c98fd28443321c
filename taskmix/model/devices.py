"""Where and how a net computes: strategy, precision and compilation, chosen from the devices."""

import dataclasses
from typing import Any

import tensorflow as tf

from taskmix.spec import Training

# First generation with tensor cores (Volta), which half precision needs to be faster.
_TENSOR_CORES = (7, 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Compute:
  """The choices, and in `reason` why they were made.

  Attributes:
    strategy: TensorFlow's default, OneDeviceStrategy or MirroredStrategy.
    precision: a Keras dtype policy.
    jit_compile: whether XLA compiles the step.
    reason: for logs and reports.
  """

  strategy: tf.distribute.Strategy
  precision: str
  jit_compile: bool
  reason: str

  @property
  def replicas(self) -> int:
    return self.strategy.num_replicas_in_sync


def choose(training: Training, *, devices: list[str] | None = None) -> Compute:
  """Where the training runs.

  Args:
    training: `max_devices`, `precision` and `jit_compile` are wishes about it.
    devices: names to use instead of the machine's GPUs, such as ["CPU:0", "CPU:1"].

  Raises:
    ValueError: if the global batch does not divide over the devices.
  """
  gpus = tf.config.list_physical_devices("GPU")
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
