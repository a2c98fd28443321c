"""Which annotations lie in a folder: the readers themselves are tried on its files."""

import collections
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterator, Sequence

from taskmix import sources
from taskmix.sources.annotated import AnnotatedImage, AnnotationError
from taskmix.sources.image_folder import SUFFIXES
from taskmix.spec import PHASES

# Deeper folders, and larger lists, are for a config written by hand.
_DEPTH, _BYTES, _FILES = 4, 64 << 20, 100

# Photos of a list that are looked for, and the share that must be there.
_LOOKED_FOR, _THERE = 20, 0.5

# What may be in a file of that suffix, the strictest first: format and options.
_LISTS: dict[str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = {
  ".txt": (
    ("wider_face", ()),
    ("retinaface", ()),
    ("fddb", ()),
    ("point_list", ()),
    ("point_list", (("layout", "mtfl"),)),
  ),
  ".csv": (("landmark_csv", ()),),
  ".json": (("pts68", ()),),
}

# Formats of which a photo may show more faces than are listed: they give no negatives.
_NOT_EVERY_FACE = ("landmark_csv", "point_list", "pts68", "celeba")

_PHASE_FOLDERS = {
  "train": "train",
  "training": "train",
  "test": "eval",
  "val": "eval",
  "validation": "eval",
  "valid": "eval",
  "eval": "eval",
}


@dataclasses.dataclass(frozen=True)
class Found:
  """One annotated set of images.

  Attributes:
    format, annotations, images, options: of the `Source` that reads it; paths
      below the folder.
    photos: that it lists.
    faces: boxes on them.
    points: whether some have five points.
    every_face: whether every face of a photo is listed.
    classes: of a labelled set, in the order of their numbers.
    phase: "train" or "eval" where the folder's name says so.
  """

  format: str
  annotations: str
  images: str
  photos: int
  options: tuple[tuple[str, str], ...] = ()
  faces: int = 0
  points: bool = False
  every_face: bool = False
  classes: tuple[str, ...] = ()
  phase: str = ""


def look(root: pathlib.Path) -> list[Found]:
  """Every annotated set below `root`: faces where there are any, else labelled images.

  Raises:
    ValueError: if there is no such folder, or nothing that a reader knows.
  """
  if not root.is_dir():
    raise ValueError(f"no folder {root}")
  folders = list(_folders(root))
  found = [*_lists(root, folders), *_folder_formats(root, folders)] or _labelled(root)
  if not found:
    photos = sum(len(_photos(folder)) for folder in folders)
    raise ValueError(
      f"{root} holds {photos:,} photos and no annotations of a known format; known are "
      f"{', '.join(sources.formats())}, and a folder a class; docs/formats.md tells of each, and of your own"
    )
  return found


def _folders(root: pathlib.Path) -> Iterator[pathlib.Path]:
  for path, names, _ in os.walk(root):
    here = pathlib.Path(path)
    depth = len(here.relative_to(root).parts)
    names[:] = sorted(name for name in names if not name.startswith(".")) if depth < _DEPTH else []
    yield here


def _photos(folder: pathlib.Path) -> list[pathlib.Path]:
  return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def _lists(root: pathlib.Path, folders: Sequence[pathlib.Path]) -> Iterator[Found]:
  """Lists in files of their own."""
  files = (path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in _LISTS)
  usable = (path for path in files if path.is_file() and 0 < path.stat().st_size < _BYTES)
  for path in itertools.islice(usable, _FILES):
    for name, options in _LISTS[path.suffix]:
      if found := _tried(root, folders, name, path, options):
        yield found
        break


def _folder_formats(root: pathlib.Path, folders: Sequence[pathlib.Path]) -> Iterator[Found]:
  """Formats with a file a photo, or with lists that belong together."""
  for name, pattern in (("voc", "*.xml"), ("pts68", "*.pts")):
    holders = [folder for folder in folders if any(folder.glob(pattern))]
    # A folder stands for those below it.
    tops = [each for each in holders if not any(other in each.parents for other in holders)]
    for folder in tops:
      if found := _tried(root, folders, name, folder, ()):
        yield found
  for folder in folders:
    if (folder / "list_landmarks_celeba.txt").is_file() and (
      found := _tried(root, folders, "celeba", folder, ())
    ):
      yield found


def _tried(
  root: pathlib.Path,
  folders: Sequence[pathlib.Path],
  name: str,
  path: pathlib.Path,
  options: tuple[tuple[str, str], ...],
) -> Found | None:
  """What a reader makes of the path, if it can read it and the photos are there."""
  try:
    images = list(sources.reader(name)(str(path), "", **dict(options)))
  except (AnnotationError, ValueError, OSError):
    return None
  home = _home(images, folders)
  if home is None:
    return None
  return Found(
    name,
    _below(path, root),
    _below(home, root),
    photos=len({image.image_id for image in images}),
    options=options,
    faces=sum(len(image.boxes) for image in images),
    points=any(_has_points(image) for image in images),
    every_face=name not in _NOT_EVERY_FACE,
  )


def _home(images: Sequence[AnnotatedImage], folders: Sequence[pathlib.Path]) -> pathlib.Path | None:
  """The folder that the photos' paths start from; None if too few are found below any."""
  some = images[:: max(1, len(images) // _LOOKED_FOR)][:_LOOKED_FOR]
  if not some:
    return None
  there = {folder: sum((folder / image.image_id).is_file() for image in some) for folder in folders}
  best = max(folders, key=lambda folder: there[folder])
  return best if there[best] >= _THERE * len(some) else None


def _has_points(image: AnnotatedImage) -> bool:
  import numpy as np

  return image.landmarks is not None and bool(np.isfinite(image.landmarks).any())


def _below(path: pathlib.Path, root: pathlib.Path) -> str:
  return path.relative_to(root).as_posix()


def _labelled(root: pathlib.Path) -> list[Found]:
  """Class folders: the root's own; those of train/ and test/; or a label type a folder."""
  below = [folder for folder in sorted(root.iterdir()) if folder.is_dir() and not folder.name.startswith(".")]
  by_phase = [each for each in below if each.name.lower() in _PHASE_FOLDERS]
  if {_PHASE_FOLDERS[each.name.lower()] for each in by_phase} == set(PHASES):
    sets = [_class_set(each, root) for each in by_phase]
    classes = {found.classes for found in sets if found}
    if len(classes) == 1 and all(sets):
      return [
        dataclasses.replace(found, phase=_PHASE_FOLDERS[found.images.lower()]) for found in sets if found
      ]
  types = [found for folder in below if (found := _class_set(folder, root))]
  if types:
    return types
  found = _class_set(root, root)
  return [found] if found else []


def _class_set(folder: pathlib.Path, root: pathlib.Path) -> Found | None:
  """A folder of class folders, or of photos whose names begin with their class and a dot."""
  below = [each for each in sorted(folder.iterdir()) if each.is_dir() and not each.name.startswith(".")]
  counts = {
    each.name: sum(1 for path in each.rglob("*") if path.suffix.lower() in SUFFIXES) for each in below
  }
  counts = {name: count for name, count in counts.items() if count}
  own = _photos(folder)
  by = "folder"
  if own and not counts:
    prefixes = collections.Counter(path.name.split(".")[0] for path in own)
    # photo_1.jpg, photo_2.jpg: every name is a "class" of its own.
    counts = dict(sorted(prefixes.items())) if len(prefixes) <= len(own) // 2 else {}
    by = "prefix"
  if len(counts) < 2 or (own and by == "folder"):
    return None
  options = (("classes", ",".join(counts)), ("by", by))
  return Found(
    "image_folder", "", _below(folder, root), sum(counts.values()), options=options, classes=tuple(counts)
  )
