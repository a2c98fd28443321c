"""Augmentations to look at: a row an augmentation, a column a sample, labels drawn in."""

from collections.abc import Sequence

import cv2
import numpy as np
import tensorflow as tf

from taskmix.mixing.augment import NAMES, Augmentation

_SIDE = 144  # pixels of a picture on the sheet
_LABEL = 110  # pixels for the row's name
_COLOURS = ((255, 64, 64), (64, 160, 255), (255, 255, 64), (255, 64, 255), (64, 255, 255))


def contact_sheet(
  batch: dict[str, np.ndarray],
  *,
  boxes: str = "",
  points: str = "",
  names: Sequence[str] = NAMES,
  seed: int = 0,
) -> np.ndarray:
  """The samples as they are, then once for each augmentation, then with all.

  Args:
    batch: with "image" uint8 [n, h, w, 3], and the columns named, as in
      `Augmentation`; not standardized.
    boxes, points: columns to draw, "" for none.
    names: of augmentations.
    seed: of the augmentations.

  Returns:
    uint8 [rows * 144, 110 + n * 144, 3]. Point 0 is red, 1 blue, 2 yellow, 3
    magenta, 4 cyan.
  """
  rows: list[tuple[str, tuple[str, ...]]] = [("as drawn", ()), *((name, (name,)) for name in names)]
  drawn = []
  for title, chosen in [*rows, ("all", tuple(names))]:
    augment = Augmentation(chosen, seed=seed, boxes=boxes, points=points)
    count = len(batch["image"])
    changed = augment(
      {name: tf.constant(value) for name, value in batch.items()},
      tf.constant(0, tf.int64),
      batch_size=count,
      slots=slice(None),
    )
    drawn.append(_row(title, {name: value.numpy() for name, value in changed.items()}, boxes, points))
  return np.concatenate(drawn)


def _row(title: str, batch: dict[str, np.ndarray], boxes: str, points: str) -> np.ndarray:
  label = np.zeros((_SIDE, _LABEL, 3), np.uint8)
  cv2.putText(label, title, (4, _SIDE // 2), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1)
  pictures = [label]
  for number, image in enumerate(batch["image"]):
    picture = cv2.resize(image, (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST)
    if boxes:
      corners = (batch[boxes][number] + (0, 0, 1, 1)) * _SIDE
      x1, y1, x2, y2 = (int(value) for value in np.round(corners))
      cv2.rectangle(picture, (x1, y1), (x2, y2), (64, 255, 64), 1)
    if points:
      for point, (x, y) in enumerate(batch[points][number].reshape(-1, 2) * _SIDE):
        cv2.circle(picture, (round(float(x)), round(float(y))), 3, _COLOURS[point % len(_COLOURS)], -1)
    pictures.append(picture)
  return np.concatenate(pictures, axis=1)
