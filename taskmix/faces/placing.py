"""Where crops lie in photos, by IoU with all of a photo's faces; no pixels yet.

Candidates are drawn by the thousand, for several photos at a time, judged by one
IoU matrix a photo, and only the kept ones are cut (`taskmix.faces.crops`):

    random places ─┐
    round a face  ─┼─► nearest of ALL faces ─► the kind whose IoU range holds it
    tries a face  ─┘
    shifts of a face with points ─► kept if every point is inside
                                    ─► turned, mirrored

Random numbers are keyed by photo and purpose, so a photo's crops are the same
whatever photos come with it.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from taskmix.faces import geometry
from taskmix.keys import keyed_rng
from taskmix.sources.annotated import AnnotatedImage
from taskmix.spec import CropRecipe, Net, SampleKind


@dataclasses.dataclass(frozen=True, eq=False)
class Photo:
  """What the choice of places needs of a photo.

  Attributes:
    image: its annotations.
    width, height: in pixels.
    mined: float32 [n, 4], squares where the nets before this one see faces, the
      surest first; see `taskmix.faces.mining`.
  """

  image: AnnotatedImage
  width: int
  height: int
  mined: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Placed:
  """Squares in a photo, and the face each belongs to.

  Attributes:
    boxes: float32 [n, 4], photo pixels.
    face: int64 [n], index of the nearest face in its photo; meaningless where iou is 0.
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
    return Placed(*(getattr(self, name)[index] for name in _FIELDS))

  @classmethod
  def join(cls, parts: Sequence["Placed"]) -> "Placed":
    return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))


_FIELDS = tuple(field.name for field in dataclasses.fields(Placed))


@dataclasses.dataclass(frozen=True, eq=False)
class Placement:
  """The crops of several photos.

  Attributes:
    kinds: the kinds wanted.
    counts: int64 [photos, kinds], crops of each.
    crops: photo after photo, in each kind after kind, in each in the order drawn.
  """

  kinds: tuple[str, ...]
  counts: np.ndarray
  crops: Placed

  def by_kind(self) -> dict[str, Placed]:
    """kind -> its crops, of a single photo."""
    ends = np.cumsum(self.counts[0])
    return {
      kind: self.crops[end - count : end]
      for kind, end, count in zip(self.kinds, ends.tolist(), self.counts[0].tolist(), strict=True)
    }

  @classmethod
  def join(cls, parts: Sequence["Placement"]) -> "Placement":
    counts = np.concatenate([part.counts for part in parts])
    return cls(parts[0].kinds, counts, Placed.join([part.crops for part in parts]))


def place_crops(photos: Sequence[Photo], *, net: Net, kinds: tuple[str, ...], seed: int) -> Placement:
  """Every crop that the net's recipe takes from the photos.

  Args:
    photos: at least one; all with as many points a face.
    net: gives recipe, IoU ranges and input size.
    kinds: the kinds wanted.
    seed: of every random choice, with the image id.

  Raises:
    ValueError: if the net has no recipe.
  """
  if net.recipe is None:
    raise ValueError(f"net {net.name!r} has no recipe: its images are taken whole (see `whole_image`)")
  scene, rules = _Scene.of(photos, net.recipe), [net.kind(kind) for kind in kinds]
  crops, photo, origin = _judged(_tries(scene, rules, net, seed), scene)
  on_large = scene.is_large[crops.face + scene.starts[photo]]
  chosen = []
  for rule in rules:
    if rule.min_iou is None:
      chosen.append(_landmark_crops(scene, net.recipe, seed, rule.name))
      continue
    fits = in_range(crops.iou, rule)
    if _is_negative(rule):
      alarms = np.flatnonzero(fits & (origin == _MINED))
      alarms = alarms[_rank(photo[alarms]) < net.recipe.mined_negatives]
      index = np.concatenate([np.flatnonzero(fits & (origin == _PLACES)), alarms])
    else:
      index = np.flatnonzero(fits & on_large & (origin != _PLACES))
    chosen.append((crops[index], photo[index]))
  return _placement(chosen, kinds, len(photos))


def in_range(iou: np.ndarray, kind: SampleKind) -> np.ndarray:
  """Whether each IoU belongs to the kind, with the ends that its `closed` names: bool [n].

  Compared as float32, so that an IoU that prints as 0.65 is at the boundary.
  """
  low, high = np.float32(kind.min_iou), np.float32(kind.max_iou)
  above = iou >= low if kind.closed in ("both", "left") else iou > low
  below = iou <= high if kind.closed in ("both", "right") else iou < high
  return above & below


def finite_boxes(boxes: np.ndarray) -> np.ndarray:
  """Boxes with NaN or infinite ones made empty, which overlap nothing."""
  finite = np.isfinite(boxes)
  return boxes if finite.all() else np.where(finite.all(axis=1)[:, None], boxes, 0).astype(np.float32)


# Where a candidate comes from: anywhere or near a face, round a face, another net.
_PLACES, _FACES, _MINED = 0, 1, 2

# Candidates of one origin: float32 [n, 4], and int64 [n], each one's photo.
_Tries = tuple[np.ndarray, np.ndarray]


def _is_negative(rule: SampleKind) -> bool:
  return rule.min_iou == 0


@dataclasses.dataclass(frozen=True, eq=False)
class _Scene:
  """The photos, and their faces in one row.

  Attributes:
    photos: the photos.
    sizes: float64 [photos, 2], width and height.
    boxes: float32 [faces, 4]; those that are not finite are empty.
    photo: int64 [faces], each one's photo.
    starts: int64 [photos], each photo's first face.
    is_large: bool [faces + 1]: fit to cut crops for; the last, no face, is not.
  """

  photos: Sequence[Photo]
  sizes: np.ndarray
  boxes: np.ndarray
  photo: np.ndarray
  starts: np.ndarray
  is_large: np.ndarray

  @classmethod
  def of(cls, photos: Sequence[Photo], recipe: CropRecipe) -> "_Scene":
    counts = [len(photo.image.boxes) for photo in photos]
    boxes = finite_boxes(np.concatenate([photo.image.boxes for photo in photos]))
    ignored = np.concatenate([_array(photo.image.ignore) for photo in photos])
    spans = geometry.sizes(boxes)
    # A box that is not finite has become one of no size.
    is_large = (spans > 0).all(axis=1) & (spans.min(axis=1, initial=np.inf) >= recipe.min_face) & ~ignored
    return cls(
      photos,
      np.array([(photo.width, photo.height) for photo in photos], np.float64),
      boxes,
      np.repeat(np.arange(len(photos)), counts),
      np.cumsum([0, *counts])[:-1],
      np.append(is_large, False),
    )

  def draw(self, seed: int, purpose: str, sections: Sequence[tuple[np.ndarray, int]]) -> list[np.ndarray]:
    """Numbers in [0, 1), of a generator a photo, keyed by its id and the purpose.

    Args:
      sections: (int64 [photos], rows of each photo; numbers a row), in the order
        in which a photo's are drawn.

    Returns:
      float64 [rows, numbers] for each section, photo after photo.
    """
    parts: list[list[np.ndarray]] = [[] for _ in sections]
    sizes = np.stack([rows * numbers for rows, numbers in sections], axis=1)
    for photo, lengths in zip(self.photos, sizes.tolist(), strict=True):
      if total := sum(lengths):
        drawn, at = keyed_rng(seed, photo.image.image_id, purpose).random(total), 0
        for part, length in zip(parts, lengths, strict=True):
          part.append(drawn[at : at + length])
          at += length
    return [
      np.concatenate(part).reshape(-1, numbers) if part else np.zeros((0, numbers))
      for part, (_, numbers) in zip(parts, sections, strict=True)
    ]

  def faces_of(self, faces: np.ndarray) -> np.ndarray:
    """How many of these faces each photo has: int64 [photos]."""
    return np.bincount(self.photo[faces], minlength=len(self.photos))


def _tries(scene: _Scene, rules: Sequence[SampleKind], net: Net, seed: int) -> list[_Tries]:
  """Candidates of each origin."""
  recipe = net.recipe
  assert recipe is not None
  large = np.flatnonzero(scene.is_large)
  tries = [_NO_TRIES] * 3
  if any(_is_negative(rule) for rule in rules):
    tries[_PLACES] = _negative_tries(scene, large, recipe, net.input_size[0], seed)
  # Not where the range is None, for landmarks, nor where it begins at 0.
  if any(rule.min_iou for rule in rules):
    rows = scene.faces_of(large) * recipe.tries_per_face
    owners = np.repeat(large, recipe.tries_per_face)
    drawn = scene.draw(seed, "faces", [(rows, 1), (rows, 2)])
    tries[_FACES] = _round_faces(scene.boxes[owners], recipe, *drawn), scene.photo[owners]
  mined = [(index, photo.mined) for index, photo in enumerate(scene.photos) if photo.mined is not None]
  if mined:
    counts = [len(boxes) for _, boxes in mined]
    tries[_MINED] = (
      np.concatenate([boxes for _, boxes in mined]),
      np.repeat([index for index, _ in mined], counts),
    )
  return tries


_NO_TRIES: _Tries = (np.zeros((0, 4), np.float32), np.zeros(0, np.int64))


def _negative_tries(scene: _Scene, large: np.ndarray, recipe: CropRecipe, smallest: int, seed: int) -> _Tries:
  """Squares of side `smallest` to half the photo's shorter side; none in a tiny photo.

  Some lie anywhere inside; some overlap each large face and may leave the photo.
  """
  largest = scene.sizes.min(axis=1) / 2
  roomy = largest >= smallest
  anywhere = roomy * recipe.random_negatives
  near = roomy * scene.faces_of(large) * recipe.near_negatives
  drawn = scene.draw(seed, "negatives", [(anywhere, 1), (anywhere, 2), (near, 1), (near, 2)])
  photo = np.repeat(np.arange(len(scene.photos)), anywhere)
  sides = smallest + (largest[photo, None] - smallest) * drawn[0]
  corners = drawn[1] * (scene.sizes[photo] - sides)
  faces = np.repeat(large[roomy[scene.photo[large]]], recipe.near_negatives)
  owners, photo_near = scene.boxes[faces], scene.photo[faces]
  sides_near = smallest + (largest[photo_near, None] - smallest) * drawn[2]
  # From just touching the face on one side to just touching it on the other.
  corners_near = owners[:, :2] - sides_near + drawn[3] * (geometry.sizes(owners) + sides_near)
  corners, sides = np.concatenate([corners, corners_near]), np.concatenate([sides, sides_near])
  boxes = np.concatenate([corners, corners + sides], axis=1).astype(np.float32)
  return boxes, np.concatenate([photo, photo_near])


def _round_faces(owners: np.ndarray, recipe: CropRecipe, sides: np.ndarray, shifts: np.ndarray) -> np.ndarray:
  """A square of about each owner's size, about its centre: float32 [n, 4].

  Args:
    owners: float32 [n, 4], a face for each square.
    recipe: how far they may differ.
    sides, shifts: [n, 1] and [n, 2] in [0, 1), the chance in it.
  """
  spans = geometry.sizes(owners)
  smallest, widest = recipe.side_range
  low = (smallest * spans.min(axis=1)).astype(np.float64)
  high = (widest * spans.max(axis=1)).astype(np.float64)
  moved = _between(-recipe.max_shift, recipe.max_shift, shifts) * spans
  centres = (owners[:, :2] + owners[:, 2:]) / 2 + moved
  return geometry.centred_squares(centres, low + (high - low) * sides[:, 0])


def _between(low: float, high: float, chance: np.ndarray) -> np.ndarray:
  return low + (high - low) * chance


def _judged(tries: Sequence[_Tries], scene: _Scene) -> tuple[Placed, np.ndarray, np.ndarray]:
  """The candidates inside their photos, photo after photo, with their nearest faces.

  Returns:
    (the squares; int64 [n], each one's photo; int64 [n], its place in `tries`).
  """
  boxes = np.concatenate([part for part, _ in tries])
  photo = np.concatenate([part for _, part in tries])
  origin = np.repeat(np.arange(len(tries)), [len(part) for part, _ in tries])
  kept = np.flatnonzero(_inside(boxes, scene.sizes[photo]))
  kept = kept[np.argsort(photo[kept], kind="stable")]
  boxes, photo, origin = boxes[kept], photo[kept], origin[kept]
  face, iou = np.zeros(len(boxes), np.int64), np.zeros(len(boxes), np.float32)
  ends = np.searchsorted(photo, np.arange(len(scene.photos) + 1)).tolist()
  first = [*scene.starts.tolist(), len(scene.boxes)]
  for index in range(len(scene.photos)):
    ours = slice(ends[index], ends[index + 1])
    faces = scene.boxes[first[index] : first[index + 1]]
    face[ours], iou[ours] = geometry.nearest_faces(boxes[ours], faces)
  upright = np.zeros(len(boxes), np.float32), np.zeros(len(boxes), bool)
  return Placed(boxes, face, iou, *upright), photo, origin


def _inside(boxes: np.ndarray, sizes: np.ndarray) -> np.ndarray:
  """As `geometry.inside`, each in a photo of its own size [n, 2]."""
  return (boxes[:, :2] >= 0).all(axis=1) & (boxes[:, 2:] <= sizes).all(axis=1)


def _rank(photo: np.ndarray) -> np.ndarray:
  """Of ascending photo numbers [n]: how many of the same come before each."""
  return np.arange(len(photo)) - np.searchsorted(photo, photo)


def _landmark_crops(scene: _Scene, recipe: CropRecipe, seed: int, purpose: str) -> tuple[Placed, np.ndarray]:
  """Shifts of each face with points that hold all of them, then turned and mirrored."""
  landmarks = np.concatenate([_array(photo.image.landmarks) for photo in scene.photos])
  large = np.flatnonzero(scene.is_large)
  pointed = large[np.isfinite(landmarks[large]).all(axis=(1, 2))]
  face = np.repeat(pointed, recipe.landmark_shifts)
  rows = scene.faces_of(pointed) * recipe.landmark_shifts
  sides, shifts, turns = scene.draw(seed, purpose, [(rows, 1), (rows, 2), (rows, 1)])
  boxes, photo = _round_faces(scene.boxes[face], recipe, sides, shifts), scene.photo[face]
  angles = _between(-recipe.max_rotation, recipe.max_rotation, turns[:, 0]).astype(np.float32)
  kept = _inside(boxes, scene.sizes[photo])
  points = geometry.landmark_targets(boxes, landmarks[face])
  turned = geometry.turn_landmarks(points, angles)
  within = [((p >= 0) & (p <= 1)).all(axis=(1, 2)) & kept for p in (points, turned)]
  iou = geometry.paired_iou(boxes, scene.boxes[face])
  still = Placed(boxes, face - scene.starts[photo], iou, np.zeros_like(angles), np.zeros(len(boxes), bool))
  parts = [(still[within[0]], photo[within[0]])]
  if recipe.max_rotation:
    parts.append((dataclasses.replace(still, angles=angles)[within[1]], photo[within[1]]))
  if recipe.mirror:
    parts += [(dataclasses.replace(part, mirrored=~part.mirrored), photo) for part, photo in parts]
  return Placed.join([part for part, _ in parts]), np.concatenate([photo for _, photo in parts])


def _placement(chosen: Sequence[tuple[Placed, np.ndarray]], kinds: tuple[str, ...], photos: int) -> Placement:
  """The crops of each kind, with their photos, in the order of a Placement."""
  crops = Placed.join([part for part, _ in chosen])
  photo = np.concatenate([part for _, part in chosen])
  block = photo * len(kinds) + np.repeat(np.arange(len(kinds)), [len(part) for _, part in chosen])
  counts = np.bincount(block, minlength=photos * len(kinds)).reshape(photos, len(kinds))
  return Placement(kinds, counts, crops[np.argsort(block, kind="stable")])


def _array(values: np.ndarray | None) -> np.ndarray:
  assert values is not None
  return values
