"""Crops of one photo, by IoU with all of its faces, with every task's target.

Candidates are drawn by the thousand, judged by one IoU matrix, and only the kept
ones are cut:

    random places ─┐
    round a face  ─┼─► nearest of ALL faces ─► the kind whose IoU range holds it
    tries a face  ─┘
    shifts of a face with points ─► kept if every point is inside
                                    ─► turned, mirrored

A pixel of a crop is taken from the photo halved as often as leaves at most two
of its pixels a step, so a 400-pixel face in 12 pixels is an average, not a
sieve. Plain NumPy and OpenCV: nothing here knows of Beam or TensorFlow.
"""

import dataclasses

import cv2
import numpy as np

from taskmix.faces import geometry
from taskmix.keys import keyed_rng
from taskmix.sources.annotated import AnnotatedImage
from taskmix.spec import IMAGE, Column, CropRecipe, Net, SampleKind

Batch = dict[str, np.ndarray]
"""Columns of one kind: name -> array [n, *shape]. `kind` and `image_id`, the same
for all, are left to the codec."""

# OpenCV's remap takes fewer than 32,767 rows.
_REMAP_ROWS = 32_000

COMPUTED = ("face", "box_offsets", "landmarks", "crop", "iou", "face_size")


@dataclasses.dataclass(frozen=True)
class Placed:
  """Squares in a photo, and the face each belongs to.

  Attributes:
    boxes: float32 [n, 4], photo pixels.
    face: int64 [n], index of the nearest face; meaningless where iou is 0.
    iou: float32 [n] with that face.
    angles: float32 [n], degrees clockwise that the picture is turned by.
    mirrored: bool [n].
  """

  boxes: np.ndarray
  face: np.ndarray
  iou: np.ndarray
  angles: np.ndarray
  mirrored: np.ndarray

  def __getitem__(self, index: np.ndarray | slice) -> "Placed":
    return Placed(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


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
  cuts = [Cut(image, *cut_photo(levels, image, net=net, kinds=kinds, seed=seed, mined=mined))]
  batch = label(cuts, net=net)
  ends = np.cumsum([len(crops.boxes) for crops in cuts[0].placed.values()])[:-1]
  columns = {name: np.split(values, ends) for name, values in batch.items()}
  return {kind: {name: parts[at] for name, parts in columns.items()} for at, kind in enumerate(kinds)}


@dataclasses.dataclass(frozen=True, eq=False)
class Cut:
  """The crops of one photo, before they are labelled.

  Attributes:
    image: the photo's annotations.
    placed: kind -> where its crops lie.
    pixels: uint8 [n, height, width, 3] of all of them, kind after kind.
  """

  image: AnnotatedImage
  placed: dict[str, Placed]
  pixels: np.ndarray


def cut_photo(
  levels: list[np.ndarray],
  image: AnnotatedImage,
  *,
  net: Net,
  kinds: tuple[str, ...],
  seed: int,
  mined: np.ndarray | None = None,
) -> tuple[dict[str, Placed], np.ndarray]:
  """What a Cut holds of one photo; arguments as of `cut_crops`."""
  if net.recipe is None:
    raise ValueError(f"net {net.name!r} has no recipe: its images are taken whole (see `whole_image`)")
  height, width, _ = levels[0].shape
  placed = place_crops(width, height, image, net=net, kinds=kinds, seed=seed, mined=mined)
  # All kinds at once: pixels are cut a level at a time, however many crops there are.
  return placed, cut(levels, _joined(list(placed.values())), net.input_size[:2])


def place_crops(
  width: int,
  height: int,
  image: AnnotatedImage,
  *,
  net: Net,
  kinds: tuple[str, ...],
  seed: int,
  mined: np.ndarray | None = None,
) -> dict[str, Placed]:
  """Where `cut_crops` cuts in a photo of that size: the whole choice, no pixels."""
  recipe = net.recipe
  assert recipe is not None
  rules = [net.kind(kind) for kind in kinds]
  is_large = usable_faces(image) & (geometry.sizes(image.boxes).min(axis=1) >= recipe.min_face)
  large = np.flatnonzero(is_large)
  tries = [np.zeros((0, 4), np.float32)] * 3
  if any(_is_negative(rule) for rule in rules):
    rng = keyed_rng(seed, image.image_id, "negatives")
    tries[_PLACES] = _negative_tries(rng, width, height, image.boxes[large], recipe, net.input_size[0])
  if any(_is_positive(rule) for rule in rules):
    rng = keyed_rng(seed, image.image_id, "faces")
    tries[_FACES] = _round_faces(rng, image.boxes[large], recipe.tries_per_face, recipe)
  if mined is not None:
    tries[_MINED] = mined
  crops, origin = _judged(tries, width, height, image)
  on_large = is_large[crops.face] if len(image.boxes) else np.zeros(len(origin), bool)
  placed: dict[str, Placed] = {}
  for rule in rules:
    if rule.min_iou is None:
      rng = keyed_rng(seed, image.image_id, rule.name)
      placed[rule.name] = _place_landmarks(width, height, image, large, recipe, rng)
      continue
    fits = in_range(crops.iou, rule)
    if _is_negative(rule):
      alarms = np.flatnonzero(fits & (origin == _MINED))[: recipe.mined_negatives]
      chosen = np.concatenate([np.flatnonzero(fits & (origin == _PLACES)), alarms])
    else:
      chosen = np.flatnonzero(fits & on_large & (origin != _PLACES))
    placed[rule.name] = crops[chosen]
  return placed


# Where a candidate comes from: anywhere or near a face, round a face, another net.
_PLACES, _FACES, _MINED = 0, 1, 2


def _is_negative(rule: SampleKind) -> bool:
  return rule.min_iou == 0


def _is_positive(rule: SampleKind) -> bool:
  return bool(rule.min_iou)


def _negative_tries(
  rng: np.random.Generator, width: int, height: int, faces: np.ndarray, recipe: CropRecipe, smallest: int
) -> np.ndarray:
  anywhere = _anywhere(rng, width, height, recipe.random_negatives, smallest)
  return np.concatenate([anywhere, _near(rng, faces, width, height, recipe.near_negatives, smallest)])


def _judged(
  tries: list[np.ndarray], width: int, height: int, image: AnnotatedImage
) -> tuple[Placed, np.ndarray]:
  """The candidates inside the photo with their nearest faces, and each one's place in `tries`."""
  boxes = np.concatenate(tries)
  inside = geometry.inside(boxes, width, height)
  boxes, origin = boxes[inside], np.repeat(np.arange(len(tries)), [len(part) for part in tries])[inside]
  face, iou = geometry.nearest_faces(boxes, _finite(image.boxes))
  upright = np.zeros(len(boxes), np.float32), np.zeros(len(boxes), bool)
  return Placed(boxes, face, iou, *upright), origin


def usable_faces(image: AnnotatedImage) -> np.ndarray:
  """Faces that a crop may be cut for: finite, of some size, not ignored; bool [n]."""
  with np.errstate(invalid="ignore"):
    finite = np.isfinite(image.boxes).all(axis=1) & (geometry.sizes(image.boxes) > 0).all(axis=1)
  assert image.ignore is not None
  return finite & ~image.ignore


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
  """The pixels of each crop: uint8 [n, *side, 3].

  Args:
    levels: of `halved`.
    crops: what to cut; where a turned crop leaves the photo, its edge repeats.
    side: (height, width) in pixels; the nets' inputs are square.
  """
  height, width = side
  pixels = np.empty((len(crops.boxes), height, width, 3), np.uint8)
  step = geometry.sizes(crops.boxes)[:, 0] / width
  depth = np.log2(np.maximum(step, 1)).astype(int)
  depth = np.minimum(depth, len(levels) - 1)
  matrices = _crop_to_level(crops, width, depth)
  for level in np.unique(depth):
    at = np.flatnonzero(depth == level)
    for start in range(0, len(at), _REMAP_ROWS // height):
      part = at[start : start + _REMAP_ROWS // height]
      pixels[part] = _sample(levels[level], matrices[part], height, width)
  pixels[crops.mirrored] = pixels[crops.mirrored, :, ::-1]
  return pixels


def _sample(picture: np.ndarray, matrices: np.ndarray, height: int, width: int) -> np.ndarray:
  """The picture where each affine map says: uint8 [n, height, width, 3].

  All crops are one tall image to OpenCV: a call a crop costs ten times as much.
  """
  x, y = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)[:, None]
  maps = []
  for axis in (0, 1):
    a, b, c = matrices[:, axis].astype(np.float32).T[..., None, None]
    maps.append((a * x + (b * y + c)).reshape(-1, width))
  sampled = cv2.remap(picture, *maps, interpolation=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
  return sampled.reshape(len(matrices), height, width, 3)


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


def _anywhere(rng: np.random.Generator, width: int, height: int, count: int, smallest: int) -> np.ndarray:
  """Squares of side `smallest` to half the shorter side, all inside; none in a tiny photo."""
  largest = min(width, height) / 2
  if largest < smallest:
    return np.zeros((0, 4), np.float32)
  sides = rng.uniform(smallest, largest, count)
  corners = rng.uniform(size=(count, 2)) * (np.array([width, height]) - sides[:, None])
  return np.concatenate([corners, corners + sides[:, None]], axis=1).astype(np.float32)


def _near(
  rng: np.random.Generator, faces: np.ndarray, width: int, height: int, count: int, smallest: int
) -> np.ndarray:
  """Squares that overlap each face, of the same sides as anywhere; some leave the photo."""
  owners = np.repeat(faces, count, axis=0)
  largest = min(width, height) / 2
  if largest < smallest:
    return np.zeros((0, 4), np.float32)
  sides = rng.uniform(smallest, largest, len(owners))[:, None]
  # From just touching the face on one side to just touching it on the other.
  reach = rng.uniform(size=(len(owners), 2)) * (geometry.sizes(owners) + sides)
  corners = owners[:, :2] - sides + reach
  return np.concatenate([corners, corners + sides], axis=1).astype(np.float32)


def _round_faces(rng: np.random.Generator, faces: np.ndarray, count: int, recipe: CropRecipe) -> np.ndarray:
  """Squares of about each face's size, about its centre: `count` a face."""
  owners = np.repeat(faces, count, axis=0)
  spans = geometry.sizes(owners)
  low, high = recipe.side_range
  sides = rng.uniform(low * spans.min(axis=1), high * spans.max(axis=1))
  shifts = rng.uniform(-recipe.max_shift, recipe.max_shift, (len(owners), 2)) * spans
  return geometry.centred_squares((owners[:, :2] + owners[:, 2:]) / 2 + shifts, sides)


def in_range(iou: np.ndarray, kind: SampleKind) -> np.ndarray:
  """Whether each IoU belongs to the kind, with the ends that its `closed` names: bool [n].

  Compared as float32, so that an IoU that prints as 0.65 is at the boundary.
  """
  low, high = np.float32(kind.min_iou), np.float32(kind.max_iou)
  above = iou >= low if kind.closed in ("both", "left") else iou > low
  below = iou <= high if kind.closed in ("both", "right") else iou < high
  return above & below


def _place_landmarks(
  width: int,
  height: int,
  image: AnnotatedImage,
  large: np.ndarray,
  recipe: CropRecipe,
  rng: np.random.Generator,
) -> Placed:
  """Shifts of each face with points that hold all of them, then turned and mirrored."""
  assert image.landmarks is not None
  pointed = large[np.isfinite(image.landmarks[large]).all(axis=(1, 2))]
  boxes = _round_faces(rng, image.boxes[pointed], recipe.landmark_shifts, recipe)
  face = np.repeat(pointed, recipe.landmark_shifts)
  turns = rng.uniform(-recipe.max_rotation, recipe.max_rotation, len(boxes)).astype(np.float32)
  kept = geometry.inside(boxes, width, height)
  points = geometry.landmark_targets(boxes, image.landmarks[face])
  turned = geometry.turn_landmarks(points, turns)
  within = [((p >= 0) & (p <= 1)).all(axis=(1, 2)) & kept for p in (points, turned)]
  iou = geometry.paired_iou(boxes, image.boxes[face])
  still = Placed(boxes, face, iou, np.zeros_like(turns), np.zeros(len(boxes), bool))
  parts = [still[within[0]]]
  if recipe.max_rotation:
    parts.append(dataclasses.replace(still, angles=turns)[within[1]])
  if recipe.mirror:
    parts += [dataclasses.replace(part, mirrored=~part.mirrored) for part in parts]
  return _joined(parts)


def _joined(parts: list[Placed]) -> Placed:
  names = [field.name for field in dataclasses.fields(Placed)]
  return Placed(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _finite(boxes: np.ndarray) -> np.ndarray:
  """Boxes with NaN or infinite ones made empty, which overlap nothing."""
  if np.isfinite(boxes).all():
    return boxes
  return np.where(np.isfinite(boxes).all(axis=1)[:, None], boxes, 0).astype(np.float32)


_NUMPY = {"uint8": np.uint8, "int64": np.int64, "float32": np.float32, "string": object}


def _filled_columns(net: Net, kind: str):
  """Each target and context column, and whether the kind labels it."""
  yield from ((task.target, kind in task.kinds) for task in net.tasks)
  yield from ((column, False) for column in net.context)


def label(cuts: list[Cut], *, net: Net) -> Batch:
  """Every column of the crops of several photos, photo after photo, in each kind after kind.

  A photo gives a few dozen crops of a kind, so time goes into calls: one for many
  photos together takes a fraction of one for each.

  Args:
    cuts: one source's photos, whose faces have the same points and attributes.
    net: gives the columns.

  Raises:
    ValueError: for a column that neither the crop nor the annotations give.
  """
  crops = _joined([placed for one in cuts for placed in one.placed.values()])
  rows = [len(placed.boxes) for one in cuts for placed in one.placed.values()]
  kinds = [kind for one in cuts for kind in one.placed]
  # Every photo's faces follow the last one's; a face of none ends them all, for a
  # photo without faces still has negatives.
  counts = [len(one.image.boxes) for one in cuts]
  before = np.cumsum([0, *counts])[:-1]
  photo_rows = [sum(len(placed.boxes) for placed in one.placed.values()) for one in cuts]
  face = np.minimum(crops.face + np.repeat(before, photo_rows), sum(counts))
  labels = _Labels(net, [one.image for one in cuts], dataclasses.replace(crops, face=face), kinds, rows)
  batch: Batch = {IMAGE: np.concatenate([one.pixels for one in cuts])}
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
  images: list[AnnotatedImage]
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
    return self._of_face(_finite(np.concatenate([image.boxes for image in self.images])))

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
