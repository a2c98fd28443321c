"""The usual way, to compare with: one process, a file a crop, then TFRecords.

Written after the scripts that MTCNN re-implementations share: 50 random negatives
a photo, 5 near each face, 20 tries a face for positives and parts, each judged
alone against the faces, cut, resized, written as a JPEG; then every file is read
back into a tf.train.Example.
"""

import os
import pathlib
import time
from collections.abc import Sequence

import cv2
import numpy as np

SIDE = 12


def convert(photos: Sequence[tuple[str, np.ndarray]], output: str) -> dict[str, float]:
  """Crops of all photos; the time does not count TensorFlow's import."""
  import tensorflow as tf

  rng = np.random.default_rng(0)
  started = time.perf_counter()
  lines = []
  for kind in ("negative", "positive", "part"):
    os.makedirs(f"{output}/{kind}", exist_ok=True)
  for path, boxes in photos:
    _crop_photo(path, boxes, output, lines, rng)
  with tf.io.TFRecordWriter(f"{output}/train.tfrecord") as writer:
    for name, label, offsets in lines:
      writer.write(_example(tf, pathlib.Path(name).read_bytes(), label, offsets))
  return {"seconds": time.perf_counter() - started, "photos": len(photos), "examples": len(lines)}


def _example(tf, image: bytes, label: int, offsets: Sequence[float]) -> bytes:
  feature = {
    "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
    "image/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    "image/roi": tf.train.Feature(float_list=tf.train.FloatList(value=offsets)),
  }
  return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _crop_photo(path: str, boxes: np.ndarray, output: str, lines: list, rng: np.random.Generator) -> None:
  photo = cv2.imread(path)
  height, width, _ = photo.shape
  negatives = 0
  while negatives < 50:
    size = int(rng.integers(SIDE, max(SIDE + 1, min(width, height) // 2)))
    x, y = int(rng.integers(0, width - size)), int(rng.integers(0, height - size))
    crop = np.array([x, y, x + size, y + size])
    if not len(boxes) or np.max(_iou(crop, boxes)) < 0.3:
      _save(photo, crop, "negative", 0, (0.0,) * 4, output, lines)
      negatives += 1
  for box in boxes:
    x1, y1, x2, y2 = box
    w, h = x2 - x1, y2 - y1
    if min(w, h) < 20 or x1 < 0 or y1 < 0:
      continue
    for _ in range(5):
      size = int(rng.integers(SIDE, max(SIDE + 1, min(width, height) // 2)))
      nx = int(max(0, x1 + rng.integers(int(max(-size, -x1)), int(w))))
      ny = int(max(0, y1 + rng.integers(int(max(-size, -y1)), int(h))))
      if nx + size > width or ny + size > height:
        continue
      crop = np.array([nx, ny, nx + size, ny + size])
      if np.max(_iou(crop, boxes)) < 0.3:
        _save(photo, crop, "negative", 0, (0.0,) * 4, output, lines)
    for _ in range(20):
      size = int(rng.integers(int(min(w, h) * 0.8), int(np.ceil(1.25 * max(w, h)))))
      nx = int(max(x1 + w / 2 + rng.integers(int(-w * 0.2), int(w * 0.2) + 1) - size / 2, 0))
      ny = int(max(y1 + h / 2 + rng.integers(int(-h * 0.2), int(h * 0.2) + 1) - size / 2, 0))
      if nx + size > width or ny + size > height:
        continue
      crop = np.array([nx, ny, nx + size, ny + size])
      offsets = tuple((box - crop) / float(size))
      iou = _iou(crop, box[None])[0]
      if iou >= 0.65:
        _save(photo, crop, "positive", 1, offsets, output, lines)
      elif iou >= 0.4:
        _save(photo, crop, "part", -1, offsets, output, lines)


def _iou(crop: np.ndarray, boxes: np.ndarray) -> np.ndarray:
  area = (crop[2] - crop[0]) * (crop[3] - crop[1])
  areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
  w = np.maximum(0, np.minimum(crop[2], boxes[:, 2]) - np.maximum(crop[0], boxes[:, 0]))
  h = np.maximum(0, np.minimum(crop[3], boxes[:, 3]) - np.maximum(crop[1], boxes[:, 1]))
  return w * h / (area + areas - w * h)


def _save(photo, crop, folder, label, offsets, output, lines) -> None:
  x1, y1, x2, y2 = (int(value) for value in crop)
  resized = cv2.resize(photo[y1:y2, x1:x2], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
  name = f"{output}/{folder}/{len(lines)}.jpg"
  cv2.imwrite(name, resized)
  lines.append((name, label, offsets))
