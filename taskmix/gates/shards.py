"""The files of a conversion: are they what its manifest says, and what do they hold.

Shards are read a batch at a time, and parsed by TensorFlow: 100 times as fast as
a record at a time in Python.
"""

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from taskmix.examples import codec, storage
from taskmix.examples.manifest import Manifest, ShardReport
from taskmix.examples.sharding import read_records, split_folder
from taskmix.gates.findings import NAMED, Finding
from taskmix.sources.files import join, open_binary
from taskmix.spec import Column

Batch = dict[str, Any]
"""Columns of n examples: name -> array [n, *shape]; strings as an object array of str."""

BATCH = 1024

UNREADABLE = (ValueError, OSError, EOFError, zlib.error)
"""What a damaged file raises, gzip or not."""

_CHUNK = 1 << 20


def shard_files(folder: str, splits: Sequence[str]) -> dict[str, list[str]]:
  """split -> names of its files, sorted."""
  found = {}
  for split in splits:
    below = join(folder, split_folder(split))
    found[split] = [path[len(below) :].lstrip("/") for path in storage.list_files(below)]
  return found


def manifest_findings(
  folder: str, manifest: Manifest, files: Mapping[str, Sequence[str]], counts: Mapping[tuple[str, str], int]
) -> list[Finding]:
  """Where the files are not what the manifest says.

  Args:
    folder: of the conversion.
    manifest: of the conversion.
    files: split -> names of the files that are there.
    counts: (split, file name) -> examples that were read from it; files that
      cannot be read are left out.
  """
  listed = {(shard.split, shard.name): shard for shard in manifest.shards}
  there = {(split, name) for split, names in files.items() for name in names}
  wrong: dict[str, dict[str, list[str]]] = {}
  for (split, name), shard in listed.items():
    if (split, name) not in there:
      wrong.setdefault("SHARD_MISSING", {}).setdefault(split, []).append(name)
    elif changed := _change(join(folder, split_folder(split), name), shard):
      wrong.setdefault("SHARD_CHANGED", {}).setdefault(split, []).append(f"{name}: {changed}")
    if counts.get((split, name), shard.examples) != shard.examples:
      line = f"{name}: {counts[split, name]:,} examples, the manifest says {shard.examples:,}"
      wrong.setdefault("SHARD_COUNT", {}).setdefault(split, []).append(line)
  for split, name in sorted(there - set(listed)):
    wrong.setdefault("SHARD_UNLISTED", {}).setdefault(split, []).append(name)
  return [
    Finding(type_, split, "", _WORDS[type_], count=len(names), names=tuple(names[:NAMED]))
    for type_, by_split in sorted(wrong.items())
    for split, names in sorted(by_split.items())
  ]


_WORDS = {
  "SHARD_MISSING": "listed in the manifest, but not there; convert again",
  "SHARD_CHANGED": "not the file that the conversion wrote; convert again",
  "SHARD_COUNT": "not as many examples as the conversion wrote; convert again",
  "SHARD_UNLISTED": "not listed in the manifest, but training would read it; remove it",
}


def _change(path: str, shard: ShardReport) -> str:
  """How the file differs from its report; "" if it does not."""
  digest, size = hashlib.sha256(), 0
  with open_binary(path) as file:
    while chunk := file.read(_CHUNK):
      digest.update(chunk)
      size += len(chunk)
  if size != shard.size:
    return f"{size:,} bytes, the manifest says {shard.size:,}"
  return "" if digest.hexdigest() == shard.sha256 else "another SHA-256 than the manifest's"


def record_batches(path: str) -> Iterator[tuple[int, list[bytes]]]:
  """(index of the first, up to BATCH records) through the whole file.

  Raises:
    UNREADABLE: if the file is damaged or cut off, or cannot be opened.
  """
  first, batch = 0, []
  with open_binary(path) as file:
    for record in read_records(file, path):
      batch.append(record)
      if len(batch) == BATCH:
        yield first, batch
        first, batch = first + len(batch), []
  if batch:
    yield first, batch


def parse(columns: Sequence[Column], records: Sequence[bytes]) -> tuple[Batch, np.ndarray, dict[int, str]]:
  """The columns of many records at once.

  Returns:
    The batch of those that can be read; their indices in `records`, int64 [n];
    and index -> what is wrong with it, for the others.
  """
  import tensorflow as tf

  try:
    return _parsed(columns, records), np.arange(len(records)), {}
  except (tf.errors.InvalidArgumentError, ValueError):
    broken = _broken(columns, records)
  readable = np.array([index for index in range(len(records)) if index not in broken], np.int64)
  return _parsed(columns, [records[index] for index in readable]), readable, broken


def _parsed(columns: Sequence[Column], records: Sequence[bytes]) -> Batch:
  import tensorflow as tf

  if not records:
    return {column.name: np.zeros((0, *column.shape)) for column in columns}
  features = tf.io.parse_example(tf.constant(list(records), tf.string), codec.feature_spec(columns))
  return {column.name: _values(column, features[column.name].numpy()) for column in columns}


def _values(column: Column, values: np.ndarray) -> np.ndarray:
  if column.dtype == "uint8":
    return np.frombuffer(b"".join(values.tolist()), np.uint8).reshape(len(values), *column.shape)
  if column.dtype == "string":
    texts = [value.decode("utf-8", "surrogateescape") for value in values.ravel().tolist()]
    return np.array(texts, object).reshape(values.shape)
  return values


def _broken(columns: Sequence[Column], records: Sequence[bytes]) -> dict[int, str]:
  """index -> what is wrong, one record at a time."""
  found = {}
  for index, record in enumerate(records):
    try:
      codec.decode(columns, record)
    except ValueError as error:
      found[index] = str(error)
  return found
