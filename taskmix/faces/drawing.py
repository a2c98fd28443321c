"""Faces drawn on their photo."""

from collections.abc import Sequence

import cv2
import numpy as np

BOX = (40, 220, 60)
POINT = (255, 210, 0)
_INK = (0, 0, 0)


def draw_faces(
  photo: np.ndarray,
  boxes: np.ndarray,
  *,
  scores: np.ndarray | None = None,
  landmarks: np.ndarray | None = None,
  color: Sequence[int] = BOX,
) -> np.ndarray:
  """A copy of the photo with boxes, scores above them and points in them.

  Args:
    photo: uint8 [h, w, 3] RGB.
    boxes: float32 [n, 4], photo pixels.
    scores: float32 [n], or None.
    landmarks: float32 [n, p, 2], photo pixels, or None.
    color: RGB of the boxes.

  Returns:
    uint8 [h, w, 3] RGB. Lines are as thick as the photo is large, so that they
    show when it is looked at as a whole.
  """
  drawn = np.ascontiguousarray(photo).copy()
  thick = max(1, round(max(photo.shape[:2]) / 500))
  for index, box in enumerate(boxes):
    # x2, y2 are exclusive: the last pixel inside is one before.
    x1, y1, x2, y2 = (round(float(value)) for value in (box[0], box[1], box[2] - 1, box[3] - 1))
    cv2.rectangle(drawn, (x1, y1), (x2, y2), tuple(color), thick)
    for x, y in landmarks[index] if landmarks is not None else ():
      radius = max(1, round((x2 - x1) / 40))
      cv2.circle(drawn, (int(x), int(y)), radius, POINT, cv2.FILLED, cv2.LINE_AA)
    if scores is not None:
      _label(drawn, f"{scores[index]:.2f}", x1, y1, tuple(color), thick)
  return drawn


def _label(drawn: np.ndarray, text: str, x: int, y: int, color: tuple[int, ...], thick: int) -> None:
  """Dark text on a patch of the box's colour: above its corner, or inside at the photo's edge."""
  font, scale = cv2.FONT_HERSHEY_SIMPLEX, 0.4 * thick
  (width, height), below = cv2.getTextSize(text, font, scale, thick)
  x = max(0, min(x, drawn.shape[1] - width))
  bottom = y if y >= height + below else y + height + below
  cv2.rectangle(drawn, (x, bottom - height - below), (x + width, bottom), color, cv2.FILLED)
  cv2.putText(drawn, text, (x, bottom - below // 2 - 1), font, scale, _INK, thick, cv2.LINE_AA)
