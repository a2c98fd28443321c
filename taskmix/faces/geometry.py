"""Boxes and points: the one place that says what the numbers mean.

Boxes are float32 `[x1, y1, x2, y2]` in pixels of the original photo. The origin
is the top-left corner of the top-left pixel, x right, y down; `x2, y2` are
exclusive, so width is `x2 - x1` with no `+ 1`. Points are `[x, y]` in the order
left eye, right eye, nose, left mouth corner, right mouth corner; *left* is the
photo's left. A name carries its frame when it is not photo pixels:
`box_offsets`, `landmarks_in_crop`.
"""

import numpy as np

# Where each point goes when the photo is mirrored: eyes and mouth corners swap.
MIRRORED_POINTS = (1, 0, 2, 4, 3)

# Cells of an IoU matrix worked out at a time: the arrays then stay in the cache.
_CELLS = 1 << 17


def sizes(boxes: np.ndarray) -> np.ndarray:
  """Width and height of each box: float32 [n, 2]."""
  return boxes[:, 2:] - boxes[:, :2]


def areas(boxes: np.ndarray) -> np.ndarray:
  """Area of each box in square pixels, 0 for one turned inside out: float32 [n]."""
  return np.maximum(sizes(boxes), 0).prod(axis=1)


def iou_matrix(boxes: np.ndarray, faces: np.ndarray) -> np.ndarray:
  """Intersection over union of every box with every face.

  Args:
    boxes: float32 [n, 4].
    faces: float32 [m, 4], same frame.

  Returns:
    float32 [n, m] in 0..1; 0 where a box or face has no area.
  """
  # Plane by plane and in place: three times as fast as [n, m, 2] arrays.
  shared = _overlap(boxes[:, 0], boxes[:, 2], faces[:, 0], faces[:, 2])
  shared *= _overlap(boxes[:, 1], boxes[:, 3], faces[:, 1], faces[:, 3])
  union = areas(boxes)[:, None] + areas(faces)[None, :]
  union -= shared
  return np.divide(shared, union, out=shared, where=union > 0)


def _overlap(low: np.ndarray, high: np.ndarray, faces_low: np.ndarray, faces_high: np.ndarray) -> np.ndarray:
  """Length that each interval [n] shares with each of the faces' [m]: [n, m]."""
  length = np.minimum(high[:, None], faces_high[None, :])
  length -= np.maximum(low[:, None], faces_low[None, :])
  return np.maximum(length, 0, out=length)


def paired_iou(boxes: np.ndarray, faces: np.ndarray) -> np.ndarray:
  """IoU of each box with the face of the same row: float32 [n]."""
  low = np.maximum(boxes[:, :2], faces[:, :2])
  high = np.minimum(boxes[:, 2:], faces[:, 2:])
  shared = np.maximum(high - low, 0).prod(axis=1)
  union = areas(boxes) + areas(faces) - shared
  return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def nearest_faces(boxes: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """The face that each box overlaps most, and by how much.

  Works through the boxes in slices, so that a photo of 2,000 faces and 40,000
  candidates needs no more memory than another.

  Args:
    boxes: float32 [n, 4].
    faces: float32 [m, 4], same frame.

  Returns:
    int64 [n], index into `faces` (0 where m is 0; the first of equals), and
    float32 [n], the IoU.
  """
  index = np.zeros(len(boxes), np.int64)
  iou = np.zeros(len(boxes), np.float32)
  if len(faces):
    step = max(1, _CELLS // len(faces))
    for start in range(0, len(boxes), step):
      part = slice(start, start + step)
      matrix = iou_matrix(boxes[part], faces)
      index[part] = matrix.argmax(axis=1)
      iou[part] = matrix.max(axis=1)
  return index, iou


def inside(boxes: np.ndarray, width: float, height: float) -> np.ndarray:
  """Which boxes lie wholly in a photo of that size: bool [n]. Its edges are inside."""
  return (boxes[:, :2] >= 0).all(axis=1) & (boxes[:, 2] <= width) & (boxes[:, 3] <= height)


def square(boxes: np.ndarray) -> np.ndarray:
  """Squares with each box's centre and longer side: float32 [n, 4]."""
  return centred_squares((boxes[:, :2] + boxes[:, 2:]) / 2, sizes(boxes).max(axis=1, initial=0))


def centred_squares(centres: np.ndarray, sides: np.ndarray) -> np.ndarray:
  """Squares from centres [n, 2] and sides [n], in pixels: float32 [n, 4]."""
  half = np.asarray(sides)[:, None] / 2
  return np.concatenate([centres - half, centres + half], axis=1).astype(np.float32)


def box_targets(crops: np.ndarray, faces: np.ndarray) -> np.ndarray:
  """Offsets that move each crop onto its face.

  Args:
    crops: float32 [n, 4], x1 y1 x2 y2 in photo pixels.
    faces: float32 [n, 4], same frame, paired with `crops`.

  Returns:
    float32 [n, 4]: (face - crop) / crop side, unitless; 0 is a perfect crop.
    (Zhang et al. 2016, section II-B, eq. 2, as corner offsets.) A crop
    [0, 0, 10, 10] on the face [1, 0, 10, 8] gives [0.1, 0, 0, -0.2].

  Raises:
    ValueError: if a crop is not square or has no area.
  """
  return ((faces - crops) / _sides(crops)[:, None]).astype(np.float32)


def largest_offset(iou: float) -> float:
  """How far, in crop sides, an edge of a face can lie from that of a crop with at least this IoU.

  The IoU is at most the crop's side by the face's, so the face is at most 1 / iou
  sides long; of that a share of 1 - iou may lie outside. Without an IoU, infinity.
  """
  return 1 / iou - 1 if iou > 0 else float("inf")


def apply_offsets(crops: np.ndarray, box_offsets: np.ndarray) -> np.ndarray:
  """The boxes that `box_offsets` move square crops to: undoes `box_targets`."""
  return (crops + box_offsets * _sides(crops)[:, None]).astype(np.float32)


def mirror_offsets(box_offsets: np.ndarray) -> np.ndarray:
  """The offsets of the mirrored crop: left and right edges swap and change sign."""
  return box_offsets[:, [2, 1, 0, 3]] * np.array([-1, 1, -1, 1], np.float32)


def landmark_targets(crops: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
  """Points in the frame of each crop: (0, 0) its top-left corner, (1, 1) the other.

  Args:
    crops: float32 [n, 4], square, photo pixels.
    landmarks: float32 [n, p, 2], same frame, paired with `crops`.

  Returns:
    float32 [n, p, 2], unitless.

  Raises:
    ValueError: if a crop is not square or has no area.
  """
  return ((landmarks - crops[:, None, :2]) / _sides(crops)[:, None, None]).astype(np.float32)


def landmarks_in_photo(crops: np.ndarray, landmarks_in_crop: np.ndarray) -> np.ndarray:
  """Photo pixels of points in square crops: undoes `landmark_targets`."""
  return (landmarks_in_crop * _sides(crops)[:, None, None] + crops[:, None, :2]).astype(np.float32)


def mirror_landmarks(landmarks_in_crop: np.ndarray) -> np.ndarray:
  """The points of the mirrored crop: float32 [n, p, 2].

  With five points, left and right swap (what was the photo's left eye is now its
  right one); other counts keep their order.
  """
  points = landmarks_in_crop.shape[1]
  order = MIRRORED_POINTS if points == len(MIRRORED_POINTS) else range(points)
  mirrored = landmarks_in_crop[:, list(order)].copy()
  mirrored[..., 0] = 1 - mirrored[..., 0]
  return mirrored


def turn_landmarks(landmarks_in_crop: np.ndarray, angles: np.ndarray) -> np.ndarray:
  """The points after each crop's picture is turned about its centre.

  Args:
    landmarks_in_crop: float32 [n, p, 2].
    angles: [n], degrees; positive turns clockwise as seen, since y points down.

  Returns:
    float32 [n, p, 2]. A point right of the centre goes below it at 90 degrees.
  """
  turn = np.deg2rad(angles)[:, None]
  x, y = np.moveaxis(landmarks_in_crop - 0.5, -1, 0)
  turned = [x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)]
  return (np.stack(turned, axis=-1) + 0.5).astype(np.float32)


def _sides(crops: np.ndarray) -> np.ndarray:
  """Sides of square crops, float32 [n]; raises ValueError where one is not square."""
  width, height = sizes(crops).T
  # Corners of a large photo, in float32, are exact to 2**-11 of a pixel or so.
  bad = ~((width > 0) & (np.abs(width - height) <= 1e-2 + 1e-4 * np.abs(width)))
  if bad.any():
    worst = crops[bad][0].tolist()
    raise ValueError(f"crop {worst} is not a square with an area; pass squares (see `square`)")
  return width
