"""Crops of photos, with every task's target.

`taskmix.faces.placing` says where they lie. A pixel of a crop is taken from the
photo halved as often as leaves at most two of its pixels a step, so a 400-pixel
face in 12 pixels is an average, not a sieve. Plain NumPy and OpenCV: nothing here
knows of Beam or TensorFlow.
"""

import dataclasses
from collections.abc import Sequence

import cv2
import numpy as np

from taskmix.faces import geometry
from taskmix.faces.placing import Photo, Placed, Placement, finite_boxes, place_crops
from taskmix.sources.annotated import AnnotatedImage
from taskmix.spec import IMAGE, Column, Net

Batch = dict[str, np.ndarray]
"""Columns of one kind: name -> array [n, *shape]. `kind` and `image_id`, the same
for all, are left to the codec."""

# OpenCV's remap takes fewer than 32,767 rows.
_REMAP_ROWS = 32_000

COMPUTED = ("face", "box_offsets", "landmarks", "crop", "iou", "face_size")


def cut_crops(
  levels: list[np.ndarray],
  image: AnnotatedImage,
  *,
  net: Net,
  kinds: tuple[str, ...],
  seed: int,
  mined: np.ndarray | None = None,
) -> dict[str, Batch]:
  """Every crop that the net's recipe takes from one photo.

  Args:
    levels: of `halved`: the photo, uint8 [h, w, 3] RGB, and its halves.
    image: its annotations.
    net: gives recipe, IoU ranges, input size and columns.
    kinds: the kinds wanted.
    seed: of every random choice, with the image id.
    mined: float32 [n, 4], squares where the nets before this one see faces, the
      surest first; see `taskmix.faces.mining`.

  Returns:
    kind -> Batch, for each of `kinds`, in the order drawn; empty ones too.

  Raises:
    ValueError: for a column that neither the crop nor the annotations give.
  """
  height, width, _ = levels[0].shape
  placement = place_crops([Photo(image, width, height, mined)], net=net, kinds=kinds, seed=seed)
  pixels = cut_photos([levels], placement, net.input_size[:2])
  batch = label([image], placement, pixels, net=net)
  ends = np.cumsum(placement.counts[0])[:-1]
  columns = {name: np.split(values, ends) for name, values in batch.items()}
  return {kind: {name: parts[at] for name, parts in columns.items()} for at, kind in enumerate(kinds)}


def whole_image(picture: np.ndarray, image: AnnotatedImage, *, net: Net) -> Batch:
  """The image itself as one sample, resized to the net's input.

  Raises:
    ValueError: if `image.targets` lacks a column of the image's kind, or has
      one of another size.
  """
  height, width, _ = net.input_size
  shrinks = picture.shape[0] * picture.shape[1] > height * width
  method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
  resized = (
    picture if picture.shape == net.input_size else cv2.resize(picture, (width, height), interpolation=method)
  )
  batch: Batch = {IMAGE: resized[None]}
  for column, labelled in _filled_columns(net, image.kind):
    value = image.targets.get(column.name)
    if value is None and labelled:
      raise ValueError(
        f"{image.image_id}: kind {image.kind!r} needs the target {column.name!r}; "
        f"its source gives {', '.join(image.targets) or 'none'}"
      )
    value = np.zeros(column.shape) if value is None else np.asarray(value)
    if value.size != column.size:
      raise ValueError(f"{image.image_id}: {column.name!r} has {value.size} values, not {column.size}")
    batch[column.name] = value.reshape(1, *column.shape).astype(_NUMPY[column.dtype])
  return batch


def halved(photo: np.ndarray, smallest: int) -> list[np.ndarray]:
  """The photo, and it halved again and again while both sides hold `smallest` pixels.

  An odd last row or column is dropped, so that a level is exactly half of the
  one before and its pixel i covers the pixels 2i and 2i + 1.
  """
  levels = [photo]
  while min(levels[-1].shape[:2]) >= 2 * smallest:
    height, width = (side // 2 for side in levels[-1].shape[:2])
    even = levels[-1][: 2 * height, : 2 * width]
    levels.append(cv2.resize(even, (width, height), interpolation=cv2.INTER_AREA))
  return levels


def cut(levels: list[np.ndarray], crops: Placed, side: tuple[int, int]) -> np.ndarray:
  """As `cut_photos`, of a single photo."""
  return cut_photos([levels], Placement(("",), np.array([[len(crops.boxes)]]), crops), side)


def cut_photos(photos: Sequence[list[np.ndarray]], placement: Placement, side: tuple[int, int]) -> np.ndarray:
  """The pixels of each crop: uint8 [n, *side, 3].

  Args:
    photos: the levels of each, of `halved`.
    placement: what to cut; where a turned crop leaves the photo, its edge repeats.
    side: (height, width) in pixels; the nets' inputs are square.
  """
  crops, rows = placement.crops, placement.counts.sum(axis=1)
  pixels = np.empty((len(crops.boxes), *side, 3), np.uint8)
  step = geometry.sizes(crops.boxes)[:, 0] / side[1]
  lowest = np.repeat([len(levels) - 1 for levels in photos], rows)
  depth = np.minimum(np.log2(np.maximum(step, 1)).astype(int), lowest)
  matrices = _crop_to_level(crops, side[1], depth).astype(np.float32)
  # A photo at a time, and in it a level at a time.
  order = np.lexsort((depth, np.repeat(np.arange(len(photos)), rows)))
  end = 0
  for levels, count in zip(photos, rows.tolist(), strict=True):
    start, end = end, end + count
    for first in range(start, end, _REMAP_ROWS // side[0]):
      part = order[first : min(end, first + _REMAP_ROWS // side[0])]
      pixels[part] = _sample(levels, depth[part], matrices[part], side)
  if crops.mirrored.any():
    pixels[crops.mirrored] = pixels[crops.mirrored, :, ::-1]
  return pixels


def _sample(
  levels: list[np.ndarray], depth: np.ndarray, matrices: np.ndarray, side: tuple[int, int]
) -> np.ndarray:
  """Each crop's level where its affine map says: uint8 [n, *side, 3].

  Args:
    levels: of a photo.
    depth: int [n], ascending: which level.
    matrices: float32 [n, 2, 3], of `_crop_to_level`.
    side: height and width.
  """
  height, width = side
  x, y = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)[:, None]
  maps = []
  for axis in (0, 1):
    a, b, c = matrices[:, axis].T[..., None, None]
    maps.append((a * x + (b * y + c)).reshape(-1, width))
  sampled, row = np.empty((len(depth) * height, width, 3), np.uint8), 0
  # All crops of a level are one tall image to OpenCV: a call a crop costs ten times as much.
  for level, count in enumerate(np.bincount(depth).tolist()):
    if count:
      rows = slice(row, row := row + count * height)
      cv2.remap(
        levels[level],
        maps[0][rows],
        maps[1][rows],
        cv2.INTER_LINEAR,
        dst=sampled[rows],
        borderMode=cv2.BORDER_REPLICATE,
      )
  return sampled.reshape(len(depth), height, width, 3)


def _crop_to_level(crops: Placed, width: int, depth: np.ndarray) -> np.ndarray:
  """Affine maps from a crop's pixel indices to its level's: float64 [n, 2, 3].

  Pixel i's centre lies at i + 0.5, hence the halves. A picture turned clockwise
  is read counter-clockwise.
  """
  boxes = crops.boxes.astype(np.float64)
  step = (boxes[:, 2] - boxes[:, 0]) / width
  turn = np.deg2rad(-crops.angles.astype(np.float64))
  linear = np.empty((len(boxes), 2, 2))
  linear[:, 0, 0] = linear[:, 1, 1] = np.cos(turn) * step
  linear[:, 1, 0] = np.sin(turn) * step
  linear[:, 0, 1] = -linear[:, 1, 0]
  centre = (boxes[:, :2] + boxes[:, 2:]) / 2
  origin = centre + (linear @ np.full(2, 0.5 - width / 2))
  level = 0.5**depth
  matrices = np.empty((len(boxes), 2, 3))
  matrices[:, :, :2] = linear * level[:, None, None]
  matrices[:, :, 2] = origin * level[:, None] - 0.5
  return matrices


_NUMPY = {"uint8": np.uint8, "int64": np.int64, "float32": np.float32, "string": object}


def _filled_columns(net: Net, kind: str):
  """Each target and context column, and whether the kind labels it."""
  yield from ((task.target, kind in task.kinds) for task in net.tasks)
  yield from ((column, False) for column in net.context)


def label(images: Sequence[AnnotatedImage], placement: Placement, pixels: np.ndarray, *, net: Net) -> Batch:
  """Every column of the crops of several photos, in the placement's order.

  A photo gives a few dozen crops of a kind, so time goes into calls: one for many
  photos together takes a fraction of one for each.

  Args:
    images: one source's photos, whose faces have the same points and attributes.
    placement: their crops.
    pixels: uint8 [n, h, w, c], of `cut_photos`.
    net: gives the columns.

  Raises:
    ValueError: for a column that neither the crop nor the annotations give.
  """
  crops, kinds = placement.crops, list(placement.kinds) * len(images)
  rows = placement.counts.ravel().tolist()
  # Every photo's faces follow the last one's; a face of none ends them all, for a
  # photo without faces still has negatives.
  counts = [len(image.boxes) for image in images]
  before = np.repeat(np.cumsum([0, *counts])[:-1], placement.counts.sum(axis=1))
  face = np.minimum(crops.face + before, sum(counts))
  labels = _Labels(net, images, dataclasses.replace(crops, face=face), kinds, rows)
  batch: Batch = {IMAGE: pixels}
  for task in net.tasks:
    labelled = np.repeat([kind in task.kinds for kind in kinds], rows)
    batch[task.target.name] = labels.column(task.target, labelled)
  for column in net.context:
    batch[column.name] = labels.column(column, np.ones(len(face), bool))
  return batch


@dataclasses.dataclass(frozen=True, eq=False)
class _Labels:
  """Columns of crops that lie in blocks of one kind.

  Attributes:
    net: whose columns.
    images: the photos.
    crops: of all of them; `face` counts through the faces of all photos.
    kinds, rows: of each block.
  """

  net: Net
  images: Sequence[AnnotatedImage]
  crops: Placed
  kinds: list[str]
  rows: list[int]

  def column(self, column: Column, labelled: np.ndarray) -> np.ndarray:
    """Values [n, *shape] in the column's dtype, zero where not `labelled`: masked out of the loss."""
    total, dtype = len(labelled), _NUMPY[column.dtype]
    if not labelled.any():
      return np.zeros((total, *column.shape), dtype)
    values = self._values(column.name)
    if values.size != total * column.size:
      raise ValueError(
        f"net {self.net.name!r}: column {column.name!r} holds {column.size} values, "
        f"{self.images[0].image_id} gives {values.size // total}"
      )
    values = values.reshape(total, *column.shape).astype(dtype, copy=False)
    return (
      values if labelled.all() else np.where(labelled.reshape(-1, *[1] * len(column.shape)), values, dtype(0))
    )

  def _values(self, name: str) -> np.ndarray:
    """Values [n, ...] by the column's name: worked out here, or an attribute of the face."""
    crops = self.crops
    if name == "face":
      positive = [int(self.net.kind(kind).min_iou != 0) for kind in self.kinds]
      return np.repeat(np.array(positive, np.int64), self.rows)
    if name == "crop":
      return crops.boxes
    if name == "iou":
      return crops.iou
    if name == "face_size":
      return np.where(crops.iou > 0, geometry.sizes(self._faces()).min(axis=1), 0)
    if name == "box_offsets":
      # Of the upright crop: no box-shaped truth fits a turned one.
      offsets = geometry.box_targets(crops.boxes, self._faces())
      return np.where(crops.mirrored[:, None], geometry.mirror_offsets(offsets), offsets)
    if name == "landmarks":
      points = np.concatenate([_array(image.landmarks) for image in self.images])
      points = geometry.landmark_targets(crops.boxes, self._of_face(points))
      points = geometry.turn_landmarks(points, crops.angles)
      return np.where(crops.mirrored[:, None, None], geometry.mirror_landmarks(points), points)
    return self._of_face(np.concatenate([self._attribute(name, image) for image in self.images]))

  def _faces(self) -> np.ndarray:
    return self._of_face(finite_boxes(np.concatenate([image.boxes for image in self.images])))

  def _of_face(self, values: np.ndarray) -> np.ndarray:
    """The value of each crop's face; of the one beyond the last, zero."""
    return np.concatenate([values, np.zeros_like(values, shape=(1, *values.shape[1:]))])[self.crops.face]

  def _attribute(self, name: str, image: AnnotatedImage) -> np.ndarray:
    if name not in image.attributes:
      raise ValueError(
        f"net {self.net.name!r}: nothing gives the column {name!r}; a crop has {', '.join(COMPUTED)}, "
        f"the faces of {image.image_id} have {', '.join(image.attributes) or 'no attributes'}"
      )
    return np.asarray(image.attributes[name])


def _array(values: np.ndarray | None) -> np.ndarray:
  assert values is not None
  return values
