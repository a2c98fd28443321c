"""The photos that a detector is judged on, and the truth about them."""

import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import numpy as np

from taskmix import sources
from taskmix.examples import photos
from taskmix.examples.manifest import read_photos
from taskmix.faces.detection_evaluation.matching import Faces, Found
from taskmix.progress import Progress, tell
from taskmix.sources.annotated import AnnotatedImage
from taskmix.spec import Net, Source

# The kind that only a source with every face marked can give: what lies beside
# its boxes is no face. `Source.kinds` says so too.
_EVERY_FACE = "neg"

# Photos in flight: each detector call keeps one core busy and half of another.
_AT_ONCE = 2

Detect = Callable[..., Mapping[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class HeldOut:
  """Photos of phase eval.

  Attributes:
    images: image id -> what to open.
    faces: image id -> truth, of photos in which every face is marked.
    points: image id -> faces with landmarks; other faces of such a photo may be
      unmarked.
  """

  images: Mapping[str, AnnotatedImage]
  faces: Mapping[str, Faces]
  points: Mapping[str, Faces]

  def pixels(self, image_id: str, *, max_pixels: int = 100_000_000) -> np.ndarray:
    """The upright photo: uint8 [h, w, 3] RGB; raises BadPhotoError."""
    return photos.load(self.images[image_id], max_pixels=max_pixels)


def eval_ids(examples: str) -> set[str]:
  """Ids of the photos that a conversion put into phase eval; raises as `read_photos`."""
  ids, phases, _ = read_photos(examples)
  return {image_id for image_id, phase in zip(ids, phases, strict=True) if phase == "eval"}


def held_out(net: Net, *, data_root: str, ids: Collection[str]) -> HeldOut:
  """The truth about the photos named by `ids`, from the net's sources.

  Args:
    net: of a cascade, with its sources.
    data_root: folder that their paths start from.
    ids: as of `eval_ids`.

  Raises:
    ValueError: if no photo with every face marked is among them.
  """
  held = _read(net.sources, data_root, frozenset(ids))
  if not held.faces:
    given = ", ".join(source.name for source in net.sources if _EVERY_FACE in source.kinds)
    raise ValueError(
      f"none of the {len(ids)} eval photos has all its faces marked (sources {given or 'none'}); "
      "raise Phases.eval_share, or name photos in Phases.eval_images"
    )
  return held


def annotated(format: str, annotations: str, *, images: str = ".", data_root: str) -> HeldOut:
  """All photos of one annotation file, in which every face must be marked.

  Args:
    format: a reader in `taskmix.sources`.
    annotations, images: annotation file and photos' folder, relative to `data_root`.
    data_root: a folder.

  Raises:
    ValueError: for an unknown format, or no photo.
    AnnotationError: for a malformed annotation file.
  """
  source = Source("photos", format, annotations, images, kinds=(_EVERY_FACE,))
  held = _read([source], data_root, None)
  if not held.faces:
    raise ValueError(f"{annotations} in {data_root} lists no photo")
  return held


def _read(given: Sequence[Source], data_root: str, ids: Collection[str] | None) -> HeldOut:
  images: dict[str, AnnotatedImage] = {}
  faces: dict[str, Faces] = {}
  points: dict[str, Faces] = {}
  for source in given:
    for image in sources.read(source, data_root):
      # An image with a kind is a sample as it stands, no photo.
      if image.kind or (ids is not None and image.image_id not in ids):
        continue
      truth = Faces(image.boxes, image.ignore, image.landmarks)
      images.setdefault(image.image_id, image)
      if _EVERY_FACE in source.kinds:
        faces[image.image_id] = truth
      if truth.landmarks is not None and np.isfinite(truth.landmarks).any():
        points[image.image_id] = truth
  return HeldOut(images, faces, points)


def detect_all(
  detector: Detect, held: HeldOut, ids: Collection[str], options: Any = None, *, max_pixels: int = 100_000_000
) -> dict[str, Found]:
  """What a detector finds in each photo.

  Args:
    detector: called with a photo and options, as `taskmix.faces.cascade.Detector`;
      from several threads.
    held: the photos.
    ids: of those to look at.
    options: `taskmix.faces.cascade.Options`; None takes the detector's own.
    max_pixels: larger photos are refused.

  Raises:
    BadPhotoError: for a photo that cannot be read.
  """

  def found(image_id: str) -> Found:
    answer = detector(held.pixels(image_id, max_pixels=max_pixels), options)
    return Found(answer["boxes"], answer["scores"], answer["landmarks"])

  def answers() -> Iterator[Found]:
    began = time.monotonic()
    with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
      for done, each in enumerate(pool.map(found, ids), 1):
        tell(Progress(done, len(ids), "photos", done / max(time.monotonic() - began, 1e-9)))
        yield each

  return dict(zip(ids, answers(), strict=True))
