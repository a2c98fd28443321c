"""What a finished conversion says of itself, beside its shards.

    manifest.json      settings, sources, counts, every shard with its checksum
    photos.jsonl       a line a photo: its phase and fingerprint
    quarantine.jsonl   a line a photo or face that was left out, with the reason

The manifest is written last: a folder without one is not a finished conversion.
Nothing in it tells when or where it was made, so equal conversions are equal
files.
"""

import base64
import collections
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from taskmix.examples.duplicates import Fingerprints
from taskmix.examples.sharding import split_folder
from taskmix.sources.files import join, open_binary

MANIFEST, PHOTOS, QUARANTINE = "manifest.json", "photos.jsonl", "quarantine.jsonl"
VERSION = 1


@dataclasses.dataclass(frozen=True)
class ShardReport:
  """One finished file.

  Attributes:
    split, name: where it lies.
    examples: how many.
    size: bytes of the file.
    sha256: of the file's bytes.
  """

  split: str
  name: str
  examples: int
  size: int
  sha256: str

  def __post_init__(self):
    # Also read from a manifest that came from elsewhere: no way out of its folder.
    for text in (self.split, self.name):
      if not text.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise ValueError(f"{text!r} is no name of a shard: letters, digits, dots, dashes and underscores")


@dataclasses.dataclass(frozen=True)
class Manifest:
  """A finished conversion.

  Attributes:
    net: the Net, as plain data.
    conversion: the Conversion, as plain data.
    counts: split -> examples.
    shards: in the order of splits and names.
    photos: "all", "train", "eval", "quarantined" -> photos, one that two sources
      list counted in both; "same_content" -> how many of them have the pixels of
      an earlier one.
    faces: "all", "quarantined" -> faces.
    quarantine: reason -> how often.
    sources: source -> photos and the SHA-256 of its annotations.
    software: package -> version.
  """

  net: dict[str, Any]
  conversion: dict[str, Any]
  counts: dict[str, int]
  shards: tuple[ShardReport, ...]
  photos: dict[str, int]
  faces: dict[str, int]
  quarantine: dict[str, int]
  sources: dict[str, dict[str, Any]]
  software: dict[str, str]
  version: int = VERSION

  def to_json(self) -> str:
    return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"


def read_manifest(folder: str) -> Manifest:
  """The manifest of a finished conversion.

  Raises:
    ValueError: if the folder has none, or one that this version cannot read.
  """
  path = join(folder, MANIFEST)
  try:
    with open_binary(path) as file:
      fields = json.loads(file.read())
  except FileNotFoundError:
    raise ValueError(
      f"{folder} has no {MANIFEST}: it is no finished conversion; run `taskmix convert`"
    ) from None
  except json.JSONDecodeError as error:
    raise ValueError(f"{path}: broken ({error}); convert again") from None
  if fields.get("version") != VERSION:
    raise ValueError(f"{path}: version {fields.get('version')}, this taskmix reads {VERSION}; convert again")
  fields["shards"] = tuple(ShardReport(**shard) for shard in fields["shards"])
  return Manifest(**fields)


def manifest_digest(folder: str) -> str:
  """SHA-256 of the manifest, which tells one conversion from another; raises as `read_manifest`."""
  read_manifest(folder)
  with open_binary(join(folder, MANIFEST)) as file:
    return hashlib.sha256(file.read()).hexdigest()


def require_whole(folder: str, manifest: Manifest) -> None:
  """Raises ValueError if a shard is missing or is not the one that the manifest tells of."""
  for shard in manifest.shards:
    path = join(folder, split_folder(shard.split), shard.name)
    digest = hashlib.sha256()
    try:
      with open_binary(path) as file:
        while data := file.read(1 << 20):
          digest.update(data)
    except FileNotFoundError:
      raise ValueError(f"{path} is missing; copy the conversion again") from None
    if digest.hexdigest() != shard.sha256:
      raise ValueError(f"{path} is not what its manifest tells of; copy the conversion again")


def require_sizes(folder: str, manifest: Manifest) -> None:
  """Raises ValueError if a local shard is gone, or has another size than the manifest tells of.

  A look at the file system alone, so cheap enough for every reader. It finds what
  no reader does: a file of TFRecords that was cut off between two of them.
  """
  for shard in manifest.shards:
    path = join(folder, split_folder(shard.split), shard.name)
    try:
      size = os.path.getsize(path)
    except FileNotFoundError:
      raise ValueError(f"{path} is missing; {_ANEW}") from None
    if size != shard.size:
      raise ValueError(f"{path} has {size:,} bytes, its manifest tells of {shard.size:,}; {_ANEW}")


_ANEW = "put it back, or delete the run folder's metadata.sqlite: then all runs anew, and pushed models stay"


def quarantine_counts(reasons: Iterable[str]) -> dict[str, int]:
  """Reason -> how often; reasons that tell a photo's own size count as one."""
  plain = (" ".join("#" if part.isdigit() else part for part in reason.split()) for reason in reasons)
  return dict(sorted(collections.Counter(plain).items()))


def photo_line(image_id: str, source: str, phase: str, prints: Fingerprints, index: int) -> bytes:
  """A line of photos.jsonl, for the picture at `index`."""
  line = {
    "image_id": image_id,
    "source": source,
    "phase": phase,
    "content": f"{int(prints.content[index]):016x}",
    "perceptual": f"{int(prints.perceptual[index]):016x}",
    "thumbnail": base64.b64encode(prints.thumbnail[index].tobytes()).decode(),
  }
  return json.dumps(line).encode() + b"\n"


def read_photos(folder: str) -> tuple[list[str], list[str], Fingerprints]:
  """(image ids, phases, fingerprints) of every photo that gave pixels."""
  lines = list(_lines(join(folder, PHOTOS)))
  return (
    [line["image_id"] for line in lines],
    [line["phase"] for line in lines],
    Fingerprints(
      np.array([int(line["content"], 16) for line in lines], np.uint64),
      np.array([int(line["perceptual"], 16) for line in lines], np.uint64),
      np.frombuffer(b"".join(base64.b64decode(line["thumbnail"]) for line in lines), np.uint8).reshape(
        -1, 192
      ),
    ),
  )


def read_quarantine(folder: str) -> list[dict[str, Any]]:
  """Entries with image_id, source, reason, and face (its index, or None for the photo)."""
  return list(_lines(join(folder, QUARANTINE)))


def _lines(path: str) -> Iterator[dict[str, Any]]:
  with open_binary(path) as file:
    for line in file:
      yield json.loads(line)
