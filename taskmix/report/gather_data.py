"""The data of a net, from the artifacts of its conversion, its statistics and its gate."""

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taskmix.examples import codec, manifest, photos
from taskmix.examples.sharding import read_records, split_folder
from taskmix.gates import anomalies, findings
from taskmix.report import facts, pictures
from taskmix.sources.annotated import AnnotatedImage
from taskmix.sources.files import join, open_binary
from taskmix.spec import IMAGE, IMAGE_ID, KIND, Net, split_name

# Crops of a kind, quarantined photos, findings with a picture, and photos that are listed by name.
CROPS, GALLERY, SHEETS, LISTED = 10, 12, 6, 20_000

# Pixels of a crop's tile, of a quarantined photo, of a finding's sheet.
_TILE, _THUMBNAIL, _SHEET = 144, 240, 900

_MAX_PIXELS = 100_000_000


def read_kinds(net: Net, examples: str, *, crops: int = CROPS) -> tuple[facts.Kind, ...]:
  """Counts of every kind of a conversion, and some crops of each."""
  counts = manifest.read_manifest(examples).counts
  return tuple(
    facts.Kind(
      kind.name,
      kind.share,
      train=counts.get(split_name("train", kind.name), 0),
      eval=counts.get(split_name("eval", kind.name), 0),
      labels=tuple(task.name for task in net.tasks if kind.name in task.kinds),
      crops=tuple(_crops(net, examples, kind.name, crops)),
    )
    for kind in net.mixture.kinds
  )


def planned_kinds(net: Net) -> tuple[facts.Kind, ...]:
  """The kinds of a net that has no examples yet."""
  return tuple(
    facts.Kind(kind.name, kind.share, 0, 0, tuple(task.name for task in net.tasks if kind.name in task.kinds))
    for kind in net.mixture.kinds
  )


def _crops(net: Net, examples: str, kind: str, most: int) -> Iterator[facts.Picture]:
  from taskmix.faces.contact_sheet import caption, draw_tile

  labelled = [task.target for task in net.tasks if kind in task.kinds]
  for sample in itertools.islice(_samples(net, examples, kind), most):
    words = caption(sample, net, labelled)
    tile = draw_tile(sample, labelled)
    text = f"A sample of kind {kind}{f': {words}' if words else ''}"
    yield pictures.embed(_rgb(tile), text, side=_TILE, caption=words)


def _rgb(tile: Any) -> Any:
  import numpy as np

  return np.asarray(tile.convert("RGB"))


def _samples(net: Net, examples: str, kind: str) -> Iterator[codec.Sample]:
  """Of the training examples; a split is in random order, so its first stand for the kind."""
  split = split_name("train", kind)
  for shard in manifest.read_manifest(examples).shards:
    if shard.split != split:
      continue
    path = join(examples, split_folder(split), shard.name)
    with open_binary(path) as file:
      for record in read_records(file, path):
        values = codec.decode(net.columns, record)
        yield codec.Sample(values.pop(IMAGE), values.pop(KIND), values.pop(IMAGE_ID), values)


def read_photos(examples: str, data_root: str, *, gallery: int = GALLERY) -> facts.Photos:
  """The photos behind a conversion, and what of them was left out, with some pictures of it."""
  told = manifest.read_manifest(examples)
  image_ids, phases, prints = manifest.read_photos(examples)
  lines = [
    (image_id, f"{phase} {content:016x}")
    for image_id, phase, content in zip(image_ids, phases, prints.content.tolist(), strict=True)
  ]
  digest = hashlib.sha256("\n".join(f"{name} {rest}" for name, rest in sorted(lines)).encode())
  return facts.Photos(
    counts=told.photos,
    faces=told.faces if told.faces.get("all") else {},
    quarantine=told.quarantine,
    gallery=tuple(_gallery(manifest.read_quarantine(examples), data_root, gallery)),
    sources={name: {key: str(value) for key, value in known.items()} for name, known in told.sources.items()},
    fingerprint=digest.hexdigest(),
    listed=dict(lines) if len(lines) <= LISTED else {},
  )


def _gallery(entries: Sequence[Mapping[str, Any]], data_root: str, most: int) -> Iterator[facts.Picture]:
  """Whole photos first, then photos of faces that were left out; each photo once."""
  ordered = sorted(entries, key=lambda entry: entry.get("face") is not None)
  seen = {entry["image_id"]: entry for entry in reversed(ordered)}
  chosen = [entry for entry in ordered if seen.get(entry["image_id"]) is entry]
  for entry in chosen[:most]:
    what = "" if entry.get("face") is None else f"face {entry['face']}: "
    yield _thumbnail(entry["image_id"], data_root, f"{entry['image_id']}: {what}{entry['reason']}")


def _thumbnail(image_id: str, data_root: str, caption: str) -> facts.Picture:
  """Of a photo that may not open: then its reason alone is shown."""
  try:
    pixels = photos.load(AnnotatedImage(image_id, join(data_root, image_id)), max_pixels=_MAX_PIXELS)
  except photos.BadPhotoError:
    return facts.Picture("", _THUMBNAIL, _THUMBNAIL, f"Left out, and no picture: {caption}", caption)
  return pictures.embed(pixels, f"Left out: {caption}", side=_THUMBNAIL, caption=caption)


def read_columns(net: Net, statistics: str) -> tuple[facts.Column, ...]:
  """Statistics of every split and column but the image itself."""
  from tensorflow_metadata.proto.v0 import statistics_pb2

  columns = []
  for split in net.splits:
    proto = _read_proto(statistics, split, "FeatureStats.pb", statistics_pb2.DatasetFeatureStatisticsList)
    if proto is None or not proto.datasets:
      continue
    by_name = {_name(feature): feature for feature in proto.datasets[0].features}
    examples = int(proto.datasets[0].num_examples)
    columns += [
      _column(split, column.name, examples, by_name[column.name])
      for column in net.columns
      if column.name != IMAGE and column.name in by_name
    ]
  return tuple(columns)


def _name(feature: Any) -> str:
  return feature.name or ".".join(feature.path.step)


def _column(split: str, name: str, examples: int, feature: Any) -> facts.Column:
  if feature.HasField("num_stats"):
    told = feature.num_stats
    values = {
      "mean": told.mean,
      "deviation": told.std_dev,
      "least": told.min,
      "median": told.median,
      "most": told.max,
    }
    # The first is of equal widths; quantiles follow.
    buckets = told.histograms[0].buckets if told.histograms else ()
    histogram = tuple((each.low_value, each.high_value, each.sample_count) for each in buckets)
    finite = {key: value for key, value in values.items() if facts.number(value) is not None}
    missing = int(told.common_stats.num_missing)
    return facts.Column(split, name, examples, missing, finite, _finite(histogram))
  told = feature.string_stats
  return facts.Column(
    split, name, examples, int(told.common_stats.num_missing), {"unique": float(told.unique)}
  )


def _finite(histogram: Sequence[tuple[float, ...]]) -> tuple[tuple[float, float, float], ...]:
  whole = [each for each in histogram if all(facts.number(value) is not None for value in each)]
  return tuple((float(low), float(high), float(count)) for low, high, count in whole)


def read_anomalies(net: Net, folder: str) -> tuple[str, ...]:
  """What TFDV found against the curated schema, in words; () if nothing."""
  from tensorflow_metadata.proto.v0 import anomalies_pb2

  protos = {
    split: _read_proto(folder, split, "SchemaDiff.pb", anomalies_pb2.Anomalies) for split in net.splits
  }
  found = anomalies.anomaly_findings({split: proto for split, proto in protos.items() if proto is not None})
  return tuple(str(each) for each in found)


def _read_proto(folder: str, split: str, name: str, proto_class: Any) -> Any:
  try:
    with open_binary(join(folder, split_folder(split), name)) as file:
      return proto_class.FromString(file.read())
  except FileNotFoundError:
    return None


def read_findings(folder: str) -> tuple[facts.Finding, ...]:
  """What the ExampleGate saw, the first with their pictures: the page stays small."""
  found = findings.read_report(join(folder, "report.json"))
  pictured = [each for each in found if each.picture][:SHEETS]
  return tuple(_finding(each, folder, pictured=each in pictured) for each in found)


def _finding(found: findings.Finding, folder: str, *, pictured: bool) -> facts.Finding:
  picture = None
  if pictured:
    # Beside the report, wherever that has been moved to.
    path = join(folder, os.path.basename(found.picture))
    with open_binary(path) as file:
      text = f"Examples of {found.type} in {found.split or 'the conversion'}"
      picture = pictures.embed_encoded(file.read(), text, side=_SHEET)
  words = str(found).partition("\n    picture:")[0]
  return facts.Finding(found.severity, words, picture)


def examples_digest(examples: str) -> str:
  """SHA-256 of the conversion's manifest, which has that of every shard."""
  with open_binary(join(examples, manifest.MANIFEST)) as file:
    return hashlib.sha256(file.read()).hexdigest()


def read_json(folder: str, name: str) -> Any:
  with open_binary(join(folder, name)) as file:
    return json.loads(file.read())
