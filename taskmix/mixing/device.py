"""The device engine: pixels and numbers live on the accelerator, which gathers its own batches.

What crosses to the device is a step and 4 bytes an example. tf.data runs on the
host, so the gather belongs into the compiled training step:

  fed = mixing.feed(..., engine="device")

  @tf.function
  def train(element):
    batch = fed.expand(element)
    ...
  for element in fed.dataset: train(element)
"""

import tensorflow as tf

from taskmix.mixing.memory import Store

STEP = "step"
ROWS = "rows"


def default_device() -> str:
  """The first GPU, or the CPU where there is none."""
  return "/GPU:0" if tf.config.list_logical_devices("GPU") else "/CPU:0"


class DeviceStore:
  """A store whose numbers and pixels are on `device`; strings stay with the host.

  Attributes:
    device: where `store` is. host: the strings.
  """

  def __init__(self, store: Store, device: str | None = None):
    self.device = device or default_device()
    self.store = store.on(self.device)
    self.host = store.strings()

  def element(self, step: tf.Tensor, rows: tf.Tensor) -> dict[str, tf.Tensor]:
    """What the dataset gives: step, rows, and the columns that no accelerator holds."""
    return {STEP: step, ROWS: rows, **self.host.gather(rows)}

  def gather(self, element: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """The batch of an element, gathered on the device."""
    with tf.device(self.device):
      batch = self.store.gather(element[ROWS])
    return {**batch, **{column.name: element[column.name] for column in self.host.columns}}
