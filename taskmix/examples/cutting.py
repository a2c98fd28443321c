"""From a few photos to runs of encoded examples: what one worker does."""

import collections
import concurrent.futures
import dataclasses
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence

import cv2
import numpy as np

from taskmix.examples import codec, storage
from taskmix.examples.duplicates import Fingerprints, fingerprint
from taskmix.examples.hook import make_sample
from taskmix.examples.photos import BadPhotoError, load
from taskmix.examples.pool import cores
from taskmix.examples.sharding import keys_of
from taskmix.examples.spill import Run, RunWriter
from taskmix.faces import crops, placing
from taskmix.keys import stable_hash
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import join, read_bytes
from taskmix.spec import IMAGE, IMAGE_ID, KIND, Conversion, Net

# Both sides of the smallest level of a photo; fingerprints need it to be the same for all nets.
_SMALLEST_LEVEL = 12


@dataclasses.dataclass(frozen=True)
class Unit:
  """Some photos of one source: what a worker takes at a time.

  Attributes:
    name: of its files, in listing order.
    path, span: the file, and where in it its AnnotatedImages lie, a pickled list.
    source: name in the net.
    first: place of its first photo in the list of all.
    photos: how many.
  """

  name: str
  path: str
  span: tuple[int, int]
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
    images = pickle.loads(read_bytes(unit.path, unit.span))
    writer = RunWriter(self.folder, unit.name)
    pending = _Pending(self, unit, writer)
    seen = self._look_at(images, self._by_iou(unit))
    photos = [self._photo(index, each, pending) for index, each in enumerate(seen)]
    pending.flush()
    writer.flush()
    path = join(self.folder, f"{unit.name}.report")
    report = _report(unit, images, photos, pending.bad_faces, writer.runs)
    storage.write_bytes(path, pickle.dumps(report))
    return path

  def seed_of(self, unit: Unit) -> int:
    """Of every choice in the unit: two sources may list the same photo."""
    return stable_hash(self.conversion.seed, unit.source)

  def _by_iou(self, unit: Unit) -> bool:
    """Whether a crop's overlap decides any of the source's kinds; the others take no mined squares."""
    kinds = next(source.kinds for source in self.net.sources if source.name == unit.source)
    return any(self.net.kind(kind).min_iou is not None for kind in kinds)

  def _look_at(self, images: Sequence[AnnotatedImage], by_iou: bool) -> Iterator["_Seen"]:
    """Every photo decoded, and searched, in order.

    Nets search a photo a core at a time, in threads: a process each would hold
    TensorFlow each.
    """
    if self.mine is None or not by_iou:
      yield from (self._look(image) for image in images)
      return
    threads = cores()
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
      ahead: collections.deque[concurrent.futures.Future[_Seen]] = collections.deque()
      for image in images:
        ahead.append(pool.submit(self._look, image, self.mine))
        # No more than this many pictures are held.
        if len(ahead) > 2 * threads:
          yield ahead.popleft().result()
      while ahead:
        yield ahead.popleft().result()

  def _look(self, image: AnnotatedImage, mine: Callable[[np.ndarray], np.ndarray] | None = None) -> "_Seen":
    try:
      picture, image = self._picture(image)
    except BadPhotoError as error:
      return _Seen(image, None, None, str(error))
    return _Seen(image, picture, mine(picture) if mine else None)

  def _photo(self, index: int, seen: "_Seen", pending: "_Pending") -> "_Photo":
    picture = seen.picture
    if picture is None:
      return _Photo(seen.reason, None)
    levels = crops.halved(picture, _SMALLEST_LEVEL)
    if seen.image.kind or self.net.recipe is None:
      pending.add_whole(index, seen.image, picture)
    else:
      height, width, _ = picture.shape
      pending.add(index, placing.Photo(seen.image, width, height, seen.mined), levels)
    return _Photo("", fingerprint(levels))

  def _picture(self, image: AnnotatedImage) -> tuple[np.ndarray, AnnotatedImage]:
    if image.function:
      return make_sample(image, net=self.net)
    limits = {"max_pixels": self.conversion.max_pixels, "max_bytes": self.conversion.max_bytes}
    return load(image, **limits), image


class _Pending:
  """Photos and crops of a unit until there are enough to work on together.

  Args:
    cutter, unit: what is cut.
    writer: takes the examples.
    photos: pictures kept; places are chosen for all of them at once.
    limit: bytes of crops kept; they are labelled and encoded at once.

  Attributes:
    bad_faces: photo's index -> face's index -> why it was left out.
  """

  def __init__(self, cutter: Cutter, unit: Unit, writer: RunWriter, *, photos: int = 8, limit: int = 4 << 20):
    self._net, self._unit, self._writer = cutter.net, unit, writer
    self._photos, self._limit = photos, limit
    self._seed = cutter.seed_of(unit)
    self._kinds = next(source.kinds for source in cutter.net.sources if source.name == unit.source)
    self.bad_faces: dict[int, dict[int, str]] = {}
    self._pictures: list[tuple[int, placing.Photo, list[np.ndarray]]] = []
    self._clear()

  def _clear(self) -> None:
    self._cuts: list[tuple[Sequence[placing.Photo], placing.Placement, np.ndarray]] = []
    self._indices: list[int] = []
    self._whole: dict[str, list[tuple[int, str, crops.Batch]]] = {}
    self._held = 0

  def add(self, index: int, photo: placing.Photo, levels: list[np.ndarray]) -> None:
    """Takes the unit's photo number `index`, to cut crops from."""
    self._pictures.append((index, photo, levels))
    if len(self._pictures) == self._photos:
      self._cut()

  def add_whole(self, index: int, image: AnnotatedImage, picture: np.ndarray) -> None:
    """Takes an image that is a sample itself."""
    kind = image.kind or self._kinds[0]
    self._note_bad([index], [placing.Photo(image, picture.shape[1], picture.shape[0])])
    # A source may hold kinds that the net does not take from it.
    if kind in self._kinds:
      batch = crops.whole_image(picture, dataclasses.replace(image, kind=kind), net=self._net)
      self._whole.setdefault(kind, []).append((index, image.image_id, batch))
      self._hold(batch[IMAGE])

  def flush(self) -> None:
    """Cuts, labels and encodes all that is held, a kind at a time."""
    if self._pictures:
      self._cut()
    if self._cuts:
      self._encode_cuts()
    for kind, images in self._whole.items():
      batch = {name: np.concatenate([one[name] for _, _, one in images]) for name in images[0][2]}
      ids = [image_id for _, image_id, _ in images]
      self._write(kind, batch, ids, [index for index, _, _ in images], [1] * len(images))
    self._clear()

  def _hold(self, pixels: np.ndarray) -> None:
    self._held += pixels.nbytes
    if self._held >= self._limit:
      self.flush()

  def _cut(self) -> None:
    indices, photos, levels = zip(*self._pictures, strict=True)
    self._pictures = []
    photos = self._note_bad(indices, photos)
    placement = placing.place_crops(photos, net=self._net, kinds=self._kinds, seed=self._seed)
    pixels = crops.cut_photos(levels, placement, self._net.input_size[:2])
    self._cuts.append((photos, placement, pixels))
    self._indices += indices
    self._hold(pixels)

  def _note_bad(self, indices: Sequence[int], photos: Sequence[placing.Photo]) -> list[placing.Photo]:
    """The photos with their bad faces ignored, which go into `bad_faces`."""
    usable = list(photos)
    for place, bad in bad_faces(photos).items():
      self.bad_faces[indices[place]] = bad
      image = _without(photos[place].image, list(bad))
      usable[place] = dataclasses.replace(photos[place], image=image)
    return usable

  def _encode_cuts(self) -> None:
    images = [photo.image for photos, _, _ in self._cuts for photo in photos]
    placement = placing.Placement.join([placement for _, placement, _ in self._cuts])
    pixels = np.concatenate([pixels for _, _, pixels in self._cuts])
    batch = crops.label(images, placement, pixels, net=self._net)
    kind_of_row = np.repeat(np.tile(np.arange(len(self._kinds)), len(images)), placement.counts.ravel())
    ids = [image.image_id for image in images]
    for number, kind in enumerate(self._kinds):
      ours = np.flatnonzero(kind_of_row == number)
      columns = {name: values[ours] for name, values in batch.items()}
      self._write(kind, columns, ids, self._indices, placement.counts[:, number].tolist())

  def _write(
    self, kind: str, batch: crops.Batch, ids: list[str], indices: list[int], rows: list[int]
  ) -> None:
    """Encodes examples of one kind: `rows` of each photo, photo after photo."""
    encoded = [image_id.encode("utf-8", "surrogateescape") for image_id in ids]
    names = list(itertools.chain.from_iterable(map(itertools.repeat, encoded, rows)))
    records = codec.encode(self._net.columns, {**batch, KIND: kind, IMAGE_ID: names})
    bases = np.array([stable_hash(self._seed, image_id, kind, "order") for image_id in ids], np.uint64)
    numbers = np.arange(len(records)) - np.repeat(np.cumsum([0, *rows])[:-1], rows)
    photos = np.repeat(np.array(indices, np.int64) + self._unit.first, rows)
    if records:
      keys = keys_of(np.repeat(bases, rows), numbers)
      self._writer.add(kind, records, photos=photos, numbers=numbers, keys=keys)


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


def bad_faces(photos: Sequence[placing.Photo]) -> dict[int, dict[int, str]]:
  """Faces that no crop can be cut for: photo's place -> face's index -> the reason.

  Faces that a format marks as invalid are not among them: that is its own
  business, and they are kept, ignored.
  """
  counts = [len(photo.image.boxes) for photo in photos]
  boxes = np.concatenate([photo.image.boxes for photo in photos])
  sizes = np.repeat([(photo.width, photo.height) for photo in photos], counts, axis=0)
  corner, end = boxes[:, :2], boxes[:, 2:]
  fine = ((corner < end) & (corner < sizes) & (end > 0)).all(axis=1) & np.isfinite(boxes).all(axis=1)
  found: dict[int, dict[int, str]] = {}
  first = np.cumsum([0, *counts])
  for index in np.flatnonzero(~fine).tolist():
    place = int(np.searchsorted(first, index, side="right")) - 1
    reason = _badness(boxes[index], photos[place].width, photos[place].height)
    found.setdefault(place, {})[index - int(first[place])] = reason
  return found


def _badness(box: np.ndarray, width: int, height: int) -> str:
  x1, y1, x2, y2 = box.tolist()
  if not np.isfinite(box).all():
    return "box is not finite"
  if x2 <= x1 or y2 <= y1:
    return "box of zero size"
  return f"box outside the {width} x {height} photo"


@dataclasses.dataclass(frozen=True, eq=False)
class _Seen:
  """A photo's annotation, pixels, and squares mined in it; or why there are no pixels."""

  image: AnnotatedImage
  picture: np.ndarray | None
  mined: np.ndarray | None
  reason: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class _Photo:
  reason: str
  prints: Fingerprints | None


def _report(
  unit: Unit,
  images: Sequence[AnnotatedImage],
  photos: Sequence[_Photo],
  bad_faces: dict[int, dict[int, str]],
  runs: list[Run],
) -> UnitReport:
  return UnitReport(
    unit=unit,
    image_ids=[image.image_id for image in images],
    good=np.array([not photo.reason for photo in photos], bool),
    prints=Fingerprints.join([photo.prints for photo in photos if photo.prints is not None]),
    reasons={index: photo.reason for index, photo in enumerate(photos) if photo.reason},
    bad_faces=bad_faces,
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
