"""Every photo of every source, in units that workers take."""

import dataclasses
import hashlib
import itertools
import os
import pickle
from collections.abc import Iterator

from taskmix import sources
from taskmix.examples import storage
from taskmix.examples.cutting import Unit
from taskmix.keys import stable_hash
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import is_remote, join, open_binary
from taskmix.spec import Net, Source

# Photos a unit: few at first, so that a small set still feeds every core; twice as
# many after every 64 units, so that a large one is no heap of tiny files.
_FIRST, _UNITS_A_SIZE, _LARGEST = 24, 64, 1024

_CHUNK = 1 << 20


def list_units(net: Net, *, data_root: str, folder: str) -> Iterator[Unit]:
  """Reads every source's annotations and writes them down in units.

  Args:
    net: its sources are read.
    data_root: folder that their paths start from.
    folder: where the file with all units goes.

  Yields:
    The units, which can be read once all of them are listed.

  Raises:
    ValueError: if the folder is not there or a source lists no photo.
    AnnotationError: for a malformed annotation file.
  """
  require_data(net, data_root)
  number = first = offset = 0
  path = join(folder, "photos")
  # One file: making one a unit took longer than reading the lists.
  with storage.create(path) as file:
    for source in net.sources:
      images = sources.read(source, data_root)
      listed = 0
      while chunk := list(itertools.islice(images, unit_size(number))):
        size = file.write(pickle.dumps(chunk))
        yield Unit(f"{number:08d}", path, (offset, size), source.name, first, len(chunk))
        number, first, offset = number + 1, first + len(chunk), offset + size
        listed += len(chunk)
      if not listed:
        raise ValueError(f"source {source.name!r} lists no photo: {_place(source, data_root)}")


def sample_photos(net: Net, *, data_root: str, most: int = 4) -> list[str]:
  """Paths of a few of the net's photos: those that must evaluate first, then the first listed."""
  wanted = set(net.phases.eval_images)
  held_out: dict[str, None] = {}
  others: dict[str, None] = {}
  for source in net.sources:
    for image in sources.read(source, data_root):
      (held_out if image.image_id in wanted else others)[image.path] = None
      if len(held_out) >= most or (not wanted and len(others) >= most):
        break
  return [*held_out, *others][:most]


def unit_size(number: int) -> int:
  """Photos in the unit of that number."""
  return min(_FIRST << min(number // _UNITS_A_SIZE, 32), _LARGEST)


def require_data(net: Net, data_root: str) -> None:
  """Raises ValueError if there is nothing to convert: no source, folder or file."""
  if not net.sources:
    raise ValueError(f"net {net.name!r} has no sources; give it some: dataclasses.replace(net, sources=...)")
  if is_remote(data_root):
    return
  if not os.path.isdir(data_root):
    raise ValueError(f"no data folder {data_root}; check --data")
  if not any(os.scandir(data_root)):
    raise ValueError(f"the data folder {data_root} is empty; put photos and their annotations there")


def source_fingerprint(net: Net, data_root: str) -> str:
  """A hash that changes when any annotation or photo of the net's sources does.

  Annotations count by content, photos by name, size and time of change: reading
  them all would take as long as converting. In gs:// or s3://, where one photo
  more is one request more, only annotations count.

  Raises:
    ValueError, AnnotationError: as `list_units`.
  """
  require_data(net, data_root)
  return f"{stable_hash(*(part for s in net.sources for part in _traces(s, data_root))):016x}"


def data_fingerprint(net: Net, data_root: str) -> str:
  """Of annotations and photos; "" for remote ones, which the launcher may not be able to read.

  Raises:
    ValueError: if there is nothing to convert, or an annotation file is malformed.
  """
  require_data(net, data_root)
  return "" if is_remote(data_root) else source_fingerprint(net, data_root)


def annotation_digest(source: Source, data_root: str) -> str:
  """SHA-256 of the source's annotation file; "" where it is a folder or none."""
  path = join(data_root, source.annotations) if source.annotations else ""
  if not path or (not is_remote(path) and not os.path.isfile(path)):
    return ""
  digest = hashlib.sha256()
  with open_binary(path) as file:
    while chunk := file.read(_CHUNK):
      digest.update(chunk)
  return digest.hexdigest()


def _traces(source: Source, data_root: str) -> Iterator[object]:
  yield source.name
  yield annotation_digest(source, data_root)
  for image in sources.read(source, data_root):
    yield _trace(image)


def _trace(image: AnnotatedImage) -> str:
  fields = [getattr(image, field.name) for field in dataclasses.fields(image)]
  marks = b"".join(value.tobytes() if hasattr(value, "tobytes") else repr(value).encode() for value in fields)
  digest = hashlib.blake2b(marks, digest_size=8).hexdigest()
  if is_remote(image.path):
    return digest
  try:
    status = os.stat(image.path)
  except OSError:
    return f"{digest} missing"
  return f"{digest} {status.st_size} {status.st_mtime_ns}"


def _place(source: Source, data_root: str) -> str:
  return join(data_root, source.annotations or source.images)
