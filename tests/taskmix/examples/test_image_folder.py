"""The converter alone, on a folder of photos: shards that plain TensorFlow reads and mixing balances."""

import dataclasses
import hashlib
import json
import pathlib
import re
from typing import Any

import cv2
import numpy as np
import pytest

from taskmix import mixing
from taskmix.examples.convert import convert
from taskmix.nets.cats_dogs import CATS_DOGS, CLASSES
from taskmix.spec import Conversion, Phases, Source

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "conversion.md"
SOURCE = Source(
  "pets", "image_folder", "", "pets", CLASSES, options=(("classes", ",".join(CLASSES)), ("by", "prefix"))
)
# Photos of an animal are cat.NUMBER.SHOT.jpg; all shots of it go together.
NET = dataclasses.replace(
  CATS_DOGS,
  input_size=(32, 32, 3),
  sources=(SOURCE,),
  phases=Phases(eval_share=0.25, stratified=True, group=r"/(\w+\.\d+)\."),
)


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
  """(folder, manifest) of 24 photos of twelve cats and 8 of four dogs."""
  root, rng = tmp_path_factory.mktemp("folders"), np.random.default_rng(0)
  (root / "pets").mkdir()
  for label, (kind, animals) in enumerate(zip(CLASSES, (12, 4), strict=True)):
    for animal in range(animals):
      for shot in range(2):
        blobs = rng.integers(100 * label, 100 * label + 150, (6, 6, 3)).astype(np.uint8)
        picture = cv2.resize(blobs, (64, 48), interpolation=cv2.INTER_NEAREST)
        cv2.imwrite(str(root / "pets" / f"{kind}.{animal}.{shot}.jpg"), picture)
  out = root / "out"
  return out, convert(NET, data_root=str(root), output=str(out), conversion=Conversion(shards=2))


def test_every_kind_is_split_by_the_share(converted):
  assert converted[1].counts == {"train-cat": 18, "train-dog": 6, "eval-cat": 6, "eval-dog": 2}


def test_no_animal_is_in_two_phases_and_every_photo_has_its_content_hash(converted):
  photos = [json.loads(line) for line in (converted[0] / "photos.jsonl").read_text().splitlines()]
  assert len({photo["content"] for photo in photos}) == 32
  phases = {}
  for photo in photos:
    phases.setdefault(photo["image_id"].rsplit(".", 2)[0], set()).add(photo["phase"])
  assert len(phases) == 16
  assert all(len(phase) == 1 for phase in phases.values())


def test_shards_are_what_the_manifest_says(converted):
  out, manifest = converted
  assert {
    shard.split: sum(one.split == shard.split for one in manifest.shards) for shard in manifest.shards
  } == (dict.fromkeys(NET.splits, 2))
  for shard in manifest.shards:
    data = (out / f"Split-{shard.split}" / shard.name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == shard.sha256


def test_plain_tensorflow_reads_them(converted):
  """By the code of docs/conversion.md: no taskmix where they are read."""
  (code,) = re.findall(r"```python\n(import tensorflow as tf\n.*?)```", PAGE.read_text(), re.DOTALL)
  assert "shards/" in code and "(-1, 96, 96, 3)" in code
  code = code.replace('"shards/', f'"{converted[0]}/').replace("(-1, 96, 96, 3)", "(-1, 32, 32, 3)")
  shown: dict[str, Any] = {}
  exec(compile(code, str(PAGE), "exec"), shown)
  images, labels = map(np.concatenate, zip(*shown["batches"].as_numpy_iterator(), strict=True))
  assert len(images) == 24 and labels.sum() == 6
  assert images[labels == 1].mean() > images[labels == 0].mean() + 50


def test_every_batch_is_balanced_whatever_the_folders_hold(converted):
  files = {kind: [str(converted[0] / f"Split-train-{kind}" / "*")] for kind in CLASSES}
  columns = tuple(column for column in NET.columns if column.name in ("image", "label"))
  batches = mixing.dataset(NET.mixture, files, columns, batch_size=8, seed=1)
  assert [int(batch["label"].numpy().sum()) for batch in batches.take(10)] == [4] * 10
