"""From a few photos to runs of encoded examples: what one worker does."""

import dataclasses
import pickle
from collections.abc import Callable, Sequence

import cv2
import numpy as np

from taskmix.examples import codec, storage
from taskmix.examples.duplicates import Fingerprints, fingerprint
from taskmix.examples.hook import make_sample
from taskmix.examples.photos import BadPhotoError, load
from taskmix.examples.sharding import example_keys
from taskmix.examples.spill import Run, RunWriter
from taskmix.faces import crops
from taskmix.keys import stable_hash
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import join, read_bytes
from taskmix.spec import IMAGE_ID, KIND, Conversion, Net

# Both sides of the smallest level of a photo; fingerprints need it to be the same for all nets.
_SMALLEST_LEVEL = 12


@dataclasses.dataclass(frozen=True)
class Unit:
  """Some photos of one source: what a worker takes at a time.

  Attributes:
    name: of its files, in listing order.
    path: of the pickled list of its AnnotatedImages.
    source: name in the net.
    first: place of its first photo in the list of all.
    photos: how many.
  """

  name: str
  path: str
  source: str
  first: int
  photos: int


@dataclasses.dataclass(frozen=True)
class Cutter:
  """Cuts units; picklable, and free of Beam and TensorFlow.

  Attributes:
    net, conversion: what to cut, and how.
    folder: where runs and reports go.
    mine: gives the squares that the nets before this one take for faces, the
      surest first, float32 [n, 4], from a photo uint8 [h, w, 3]; None mines none.
  """

  net: Net
  conversion: Conversion
  folder: str
  mine: Callable[[np.ndarray], np.ndarray] | None = None

  def __call__(self, unit: Unit) -> str:
    """Cuts every photo of the unit; returns the path of the pickled UnitReport."""
    # Processes share the cores; threads inside one would only get in the way.
    cv2.setNumThreads(1)
    images = pickle.loads(read_bytes(unit.path))
    writer = RunWriter(self.folder, unit.name)
    photos = [self._photo(unit, index, image, writer) for index, image in enumerate(images)]
    writer.flush()
    path = join(self.folder, f"{unit.name}.report")
    storage.write_bytes(path, pickle.dumps(_report(unit, images, photos, writer.runs)))
    return path

  def _photo(self, unit: Unit, index: int, image: AnnotatedImage, writer: RunWriter) -> "_Photo":
    try:
      picture, image = self._picture(image)
    except BadPhotoError as error:
      return _Photo(str(error), {}, None)
    levels = crops.halved(picture, _SMALLEST_LEVEL)
    faces = bad_faces(image, picture.shape[1], picture.shape[0])
    usable = _without(image, list(faces))
    seed = stable_hash(self.conversion.seed, unit.source)
    counts, batch = self._batch(unit, levels, usable, seed)
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    records = codec.encode(self.net.columns, {**batch, KIND: kinds, IMAGE_ID: image.image_id})
    keys = [
      example_keys(stable_hash(seed, image.image_id, kind, "order"), count) for kind, count in counts.items()
    ]
    if records:
      writer.add(counts, unit.first + index, records, np.concatenate(keys))
    return _Photo("", faces, fingerprint(levels))

  def _picture(self, image: AnnotatedImage) -> tuple[np.ndarray, AnnotatedImage]:
    if image.function:
      return make_sample(image, net=self.net)
    return load(image, max_pixels=self.conversion.max_pixels), image

  def _batch(
    self, unit: Unit, levels: list[np.ndarray], image: AnnotatedImage, seed: int
  ) -> tuple[dict[str, int], crops.Batch]:
    """The photo's examples, kind after kind, and how many of each."""
    kinds = next(source.kinds for source in self.net.sources if source.name == unit.source)
    if image.kind or self.net.recipe is None:
      kind = image.kind or kinds[0]
      image = dataclasses.replace(image, kind=kind)
      batch = crops.whole_image(levels[0], image, net=self.net)
      # A source may hold kinds that the net does not take from it.
      return ({kind: 1}, batch) if kind in kinds else ({}, {name: rows[:0] for name, rows in batch.items()})
    mined = self.mine(levels[0]) if self.mine else None
    return crops.cut_together(levels, image, net=self.net, kinds=kinds, seed=seed, mined=mined)


@dataclasses.dataclass(frozen=True, eq=False)
class UnitReport:
  """What came of a unit; n photos.

  Attributes:
    unit: which.
    image_ids: of its photos.
    good: bool [n], photos that gave pixels.
    prints: fingerprints of the good ones.
    reasons: photo's index -> why it was quarantined.
    bad_faces: photo's index -> face's index -> why it was left out.
    faces: annotated faces in all.
    runs: files with its examples.
  """

  unit: Unit
  image_ids: list[str]
  good: np.ndarray
  prints: Fingerprints
  reasons: dict[int, str]
  bad_faces: dict[int, dict[int, str]]
  faces: int
  runs: list[Run]


def read_report(path: str) -> UnitReport:
  return pickle.loads(read_bytes(path))


def bad_faces(image: AnnotatedImage, width: int, height: int) -> dict[int, str]:
  """Faces that no crop can be cut for, by index, with the reason.

  Faces that a format marks as invalid are not among them: that is its own
  business, and they are kept, ignored.
  """
  reasons = {}
  for index, (x1, y1, x2, y2) in enumerate(image.boxes.tolist()):
    if not np.isfinite([x1, y1, x2, y2]).all():
      reasons[index] = "box is not finite"
    elif x2 <= x1 or y2 <= y1:
      reasons[index] = "box of zero size"
    elif x1 >= width or y1 >= height or x2 <= 0 or y2 <= 0:
      reasons[index] = f"box outside the {width} x {height} photo"
  return reasons


@dataclasses.dataclass(frozen=True, eq=False)
class _Photo:
  reason: str
  faces: dict[int, str]
  prints: Fingerprints | None


def _report(
  unit: Unit, images: Sequence[AnnotatedImage], photos: Sequence[_Photo], runs: list[Run]
) -> UnitReport:
  return UnitReport(
    unit=unit,
    image_ids=[image.image_id for image in images],
    good=np.array([not photo.reason for photo in photos], bool),
    prints=Fingerprints.join([photo.prints for photo in photos if photo.prints is not None]),
    reasons={index: photo.reason for index, photo in enumerate(photos) if photo.reason},
    bad_faces={index: photo.faces for index, photo in enumerate(photos) if photo.faces},
    faces=sum(len(image.boxes) for image in images),
    runs=runs,
  )


def _without(image: AnnotatedImage, faces: list[int]) -> AnnotatedImage:
  """The image with those faces ignored."""
  if not faces:
    return image
  ignore = np.array(image.ignore)
  ignore[faces] = True
  return dataclasses.replace(image, ignore=ignore)
