"""What a detector must hold before it is pushed; plain settings, light to import."""

import dataclasses

import pydantic

BOUNDS = ("min_ap", "min_recall", "min_precision", "max_nme", "max_worsening", "min_share_of_reference")


@dataclasses.dataclass(frozen=True)
class DetectionPolicy:
  """How a detector is judged on held-out photos, and what refuses it.

  AP and its curves come from detections at `thresholds`, lower than a detector's
  own so that the curve goes on to where precision drops; recall, precision and
  landmark error from detections at the thresholds stored in the model.

  Attributes:
    min_ap: least average precision at `min_iou`; 0 asks for nothing.
    min_recall, min_precision: least ones at the stored thresholds.
    max_nme: largest mean landmark error, as a share of the distance between the
      eyes; None asks for nothing.
    max_worsening: by how much AP may lie below that of the last blessed detector.
    min_share_of_reference: least AP as a share of the imported detector's.
    min_face: in pixels; smaller faces are ignored, and not looked for.
    min_iou: least overlap of a hit.
    thresholds: of P-, R- and O-Net, for AP.
    factor: from a level of the pyramid to the next, for AP.
    max_pixels: larger photos are refused.
    warn: bounds by their names here, such as "min_ap" or "max_worsening", that
      are reported where they do not hold, and refuse nothing.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  min_ap: float = 0.0
  min_recall: float = 0.0
  min_precision: float = 0.0
  max_nme: float | None = None
  max_worsening: float = 0.02
  min_share_of_reference: float = 0.0
  min_face: float = 20.0
  min_iou: float = 0.5
  thresholds: tuple[float, float, float] = (0.5, 0.5, 0.3)
  factor: float = 0.709
  max_pixels: int = 100_000_000
  warn: tuple[str, ...] = ()

  def __post_init__(self):
    unknown = sorted(set(self.warn) - set(BOUNDS))
    if unknown:
      raise ValueError(f"no bound on a detector {', '.join(unknown)}; there is {', '.join(BOUNDS)}")
    for name in ("min_ap", "min_recall", "min_precision", "max_worsening", "min_share_of_reference"):
      if getattr(self, name) < 0:
        raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)}")
    for name in ("min_ap", "min_recall", "min_precision"):
      if getattr(self, name) > 1:
        raise ValueError(f"{name} is a share of 1, not {getattr(self, name)}")
    if self.max_nme is not None and self.max_nme <= 0:
      raise ValueError(f"max_nme must be above 0, or None, not {self.max_nme}")
    if not 0 < self.min_iou < 1:
      raise ValueError(f"min_iou must lie between 0 and 1, not {self.min_iou}")
    if self.min_face <= 0 or self.max_pixels <= 0:
      raise ValueError("min_face and max_pixels must be positive")
    if len(self.thresholds) != 3 or not all(0 <= each <= 1 for each in self.thresholds):
      raise ValueError(f"thresholds are three probabilities, not {self.thresholds}")
    if not 0 < self.factor < 1:
      raise ValueError(f"factor must lie between 0 and 1, not {self.factor}")
