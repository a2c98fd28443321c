"""A small sound conversion, made by hand, that a test then spoils."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from taskmix.examples import codec
from taskmix.examples.duplicates import Fingerprints, fingerprint
from taskmix.examples.manifest import Manifest, ShardReport, photo_line
from taskmix.examples.sharding import frame, shard_name, split_folder
from taskmix.faces.crops import halved
from taskmix.keys import keyed_rng
from taskmix.nets.mtcnn import PNET
from taskmix.spec import PHASES, split_parts

PHOTOS = {"train": ("a.jpg", "b.jpg", "c.jpg"), "eval": ("d.jpg", "e.jpg")}
SHARDS, ROWS = 2, 6

_POINTS = np.array([0.3, 0.3, 0.7, 0.3, 0.5, 0.5, 0.35, 0.75, 0.65, 0.75], np.float32)
# IoU 18 * 16 / 400 and 12 * 16 / 400 of a crop of 20 pixels.
_SOUND = {"neg": (0, 0, 0, 0, 0.1), "pos": (0, 0, -0.1, -0.2, 0.72), "part": (0, 0, -0.4, -0.2, 0.48)}


def sound_rows(split: str) -> dict:
  """ROWS examples of a shard as columns; a test may change them before they are written."""
  phase, kind = split_parts(split)
  *offsets, iou = _SOUND.get(kind, (0, 0, 0, 0, 0.9))
  return {
    "image": keyed_rng(split).integers(0, 256, (ROWS, *PNET.input_size), np.uint8),
    "kind": [kind] * ROWS,
    "image_id": [PHOTOS[phase][row % len(PHOTOS[phase])] for row in range(ROWS)],
    "face": np.full(ROWS, int(kind == "pos")),
    "box_offsets": np.tile(np.float32(offsets), (ROWS, 1)),
    "landmarks": np.tile(_POINTS * (kind == "landmark"), (ROWS, 1)),
    "crop": np.tile(np.float32([10, 10, 30, 30]), (ROWS, 1)),
    "iou": np.full(ROWS, np.float32(iou)),
    "face_size": np.full(ROWS, 16, np.float32),
  }


Spoil = Callable[[str, int, dict], None]


def _shards(folder: pathlib.Path, spoil: Spoil) -> Iterator[ShardReport]:
  for split in PNET.splits:
    for index in range(SHARDS):
      rows = sound_rows(split)
      spoil(split, index, rows)
      data = b"".join(frame(codec.encode(PNET.columns, rows)))
      name = shard_name(index, SHARDS, compression="none")
      path = folder / split_folder(split) / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_bytes(data)
      yield ShardReport(split, name, len(rows["kind"]), len(data), hashlib.sha256(data).hexdigest())


def _picture(name: str) -> Fingerprints:
  import cv2

  photo = cv2.resize(keyed_rng("picture", name).integers(0, 256, (6, 8, 3), np.uint8), (128, 96))
  return fingerprint(halved(photo, 12))


def write_conversion(
  folder: pathlib.Path, *, spoil: Spoil = lambda *_: None, pictures: dict[str, str] | None = None
) -> pathlib.Path:
  """Writes P-Net's splits, manifest.json and photos.jsonl; returns the folder.

  Args:
    folder: to write to.
    spoil: called with (split, shard's index, columns), which it may change.
    pictures: image id -> the name of another, whose picture it shows.
  """
  shards = tuple(_shards(folder, spoil))
  counts = {split: sum(s.examples for s in shards if s.split == split) for split in PNET.splits}
  manifest = Manifest(dataclasses.asdict(PNET), {}, counts, shards, {}, {}, {}, {}, {})
  (folder / "manifest.json").write_text(manifest.to_json())
  lines = [
    photo_line(name, "boxes", phase, _picture((pictures or {}).get(name, name)), 0)
    for phase in PHASES
    for name in PHOTOS[phase]
  ]
  (folder / "photos.jsonl").write_bytes(b"".join(lines))
  return folder


@pytest.fixture
def conversion_of(tmp_path) -> Callable[..., pathlib.Path]:
  """Writes a conversion: conversion_of(spoil=..., pictures=...) -> its folder."""
  return lambda **options: write_conversion(tmp_path / "examples", **options)
