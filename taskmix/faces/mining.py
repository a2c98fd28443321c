"""Hard examples: the squares that the nets of a cascade so far take for faces.

What P-Net sees is what R-Net is trained on, and what both let pass is what O-Net
is trained on (Zhang et al. 2016, section II-D). By IoU with the annotated faces
the squares become false alarms (neg), parts and positives, in
`taskmix.faces.crops`.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
import pydantic

from taskmix.faces import geometry


@dataclasses.dataclass(frozen=True)
class Mining:
  """What the nets so far are asked for.

  Attributes:
    thresholds: of each net's face probability. Lower than for detecting, so that
      the next net also learns from what is nearly taken for a face.
    min_face: smallest face looked for, in photo pixels.
    factor: from one level of the pyramid to the next.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  thresholds: tuple[float, float, float] = (0.5, 0.5, 0.5)
  min_face: float = 20.0
  factor: float = 0.709


@dataclasses.dataclass(frozen=True)
class Miner:
  """A cascade's first nets, asked for squares; picklable, loads itself where it is called.

  Attributes:
    models: folders of the nets' SavedModels, as the Trainer exports them, in order.
    settings: what they are asked for.
  """

  models: tuple[str, ...]
  settings: Mining = Mining()

  def __call__(self, photo: np.ndarray) -> np.ndarray:
    """The squares that the last net calls faces, the surest first.

    Args:
      photo: uint8 [h, w, 3] RGB.

    Returns:
      float32 [n, 4], photo pixels; they may reach out of the photo.
    """
    from taskmix.faces.cascade import Options

    options = Options(self.settings.thresholds, self.settings.min_face, self.settings.factor)
    return geometry.square(_detector(self.models)(photo, options)["boxes"])


@functools.lru_cache(maxsize=1)
def _detector(models: tuple[str, ...]) -> Any:
  """The nets as one detector; one a process, since each costs TensorFlow's memory."""
  from taskmix.faces.assembly import assemble

  return assemble(models)
