"""The files behind the kinds: found, counted and checked before step 1.

tf.data reads a missing file, an empty shard or an unmatched pattern as no
examples at all. Here each is an error that names the file.
"""

import concurrent.futures
import dataclasses
import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import tensorflow as tf

Files = Mapping[str, Sequence[str]]

_GZIP_MAGIC = b"\x1f\x8b"
_BATCH = 4096
# 8 bytes of length, 4 of its checksum, then the data, then 4 of its checksum.
RECORD_FRAME = 16


class ShardError(ValueError):
  """A shard that is missing, empty, cut off, corrupted or not what was written."""


@dataclasses.dataclass(frozen=True)
class Expected:
  """What a manifest says of one shard; None where it does not say.

  Attributes:
    records: how many it holds.
    bytes: the file's size.
    sha256: hex digest of the file.
  """

  records: int | None = None
  bytes: int | None = None
  sha256: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Shard:
  """A TFRecord file that was read from end to end and found whole.

  Attributes:
    path: as given or matched.
    compression: "" or "GZIP".
    lengths: int64 [records], bytes of each record.
  """

  path: str
  compression: str
  lengths: np.ndarray

  @property
  def records(self) -> int:
    return len(self.lengths)


def find(files: Files, *, kinds: Sequence[str]) -> dict[str, tuple[str, ...]]:
  """The files of every kind, patterns expanded, in sorted order.

  Args:
    files: kind -> file names or glob patterns.
    kinds: those that must have files.

  Raises:
    ShardError: if a kind has no entry, or a name or pattern matches no file.
  """
  absent = [kind for kind in kinds if not files.get(kind)]
  if absent:
    raise ShardError(
      f"no files for kind {', '.join(absent)}; files were given for {', '.join(files) or 'none'}"
    )
  return {kind: _matches(kind, _as_list(files[kind])) for kind in kinds}


def _as_list(patterns: Sequence[str] | str) -> Sequence[str]:
  return [patterns] if isinstance(patterns, str) else patterns


def _matches(kind: str, patterns: Sequence[str]) -> tuple[str, ...]:
  found: set[str] = set()
  for pattern in patterns:
    matched = [path for path in tf.io.gfile.glob(pattern) if not tf.io.gfile.isdir(path)]
    if not matched and tf.io.gfile.exists(pattern):
      matched = [pattern]  # a name with characters that a pattern would read otherwise
    if not matched:
      raise ShardError(f"kind {kind!r}: no file matches {pattern!r}; check the path, or run the conversion")
    found.update(matched)
  return tuple(sorted(found))


def compression_of(path: str, compression: str = "auto") -> str:
  """The name that tf.data has for it, GZIP or nothing; "auto" looks at the file's first two bytes."""
  if compression == "auto":
    with tf.io.gfile.GFile(path, "rb") as file:
      return "GZIP" if file.read(2) == _GZIP_MAGIC else ""
  known = {"gzip": "GZIP", "none": "", "": ""}
  if compression.lower() not in known:
    raise ValueError(f"compression {compression!r} is not one of auto, gzip, none")
  return known[compression.lower()]


def records(path: str, compression: str) -> tf.data.Dataset:
  """The serialized records of one shard, in batches of up to 4096."""
  return tf.data.TFRecordDataset([path], cast(Any, compression), buffer_size=1 << 20).batch(_BATCH)


def scan(path: str, compression: str = "auto", *, expected: Expected | None = None) -> Shard:
  """Reads a shard to its end and checks every record's checksum.

  Raises:
    ShardError: naming the file, if it is absent, empty where the manifest does
      not say so, cut off, corrupted, or differs from the manifest.
  """
  expected = expected or Expected()
  try:
    _check_file(path, expected)
    kind = compression_of(path, compression)
    lengths = [batch.numpy() for batch in records(path, kind).map(tf.strings.length)]
  except tf.errors.NotFoundError as error:
    raise ShardError(f"{path}: no such file") from error
  except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
    raise ShardError(f"{path}: cut off or corrupted ({reason(error)}); convert it again") from error
  shard = Shard(path, kind, np.concatenate(lengths or [np.empty(0)]).astype(np.int64))
  if kind == "GZIP":
    _check_gzip(shard)
  _check_records(shard, expected)
  return shard


def reason(error: tf.errors.OpError) -> str:
  return (error.message or "").split(" [Op")[0].split("\n")[0].strip()


def _check_file(path: str, expected: Expected) -> None:
  size = tf.io.gfile.stat(path).length
  if expected.bytes is not None and size != expected.bytes:
    raise ShardError(f"{path}: {size} bytes, but the manifest says {expected.bytes}; convert it again")
  if expected.sha256 is not None and _sha256(path) != expected.sha256:
    raise ShardError(f"{path}: its SHA-256 differs from the manifest's; convert it again")


def _check_gzip(shard: Shard) -> None:
  """Raises unless the records are all that the file holds: TensorFlow takes a gzip file that is
  cut off for one that has ended."""
  read = int((shard.lengths + RECORD_FRAME).sum())
  with tf.io.gfile.GFile(shard.path, "rb") as file:
    file.seek(max(0, tf.io.gfile.stat(shard.path).length - 4))
    if int.from_bytes(file.read(4), "little") == read % 2**32:  # RFC 1952: ISIZE
      return
    file.seek(0)
    try:  # several gzip members in a file have several trailers
      with gzip.GzipFile(fileobj=file) as unpacked:
        held = sum(len(chunk) for chunk in iter(lambda: unpacked.read(1 << 20), b""))
    except (EOFError, OSError, zlib.error) as error:
      raise ShardError(f"{shard.path}: cut off or corrupted ({error}); convert it again") from error
  if held != read:
    raise ShardError(f"{shard.path}: cut off or corrupted (records end at byte {read} of {held} unpacked)")


def _sha256(path: str) -> str:
  digest = hashlib.sha256()
  with tf.io.gfile.GFile(path, "rb") as file:
    while chunk := file.read(1 << 22):
      digest.update(chunk)
  return digest.hexdigest()


def _check_records(shard: Shard, expected: Expected) -> None:
  if expected.records is not None and shard.records != expected.records:
    raise ShardError(
      f"{shard.path}: {shard.records} records, but the manifest says {expected.records}; convert it again"
    )
  if not shard.records and expected.records is None:
    raise ShardError(
      f"{shard.path}: an empty shard; remove it, or give a manifest that says it holds 0 records"
    )


def preflight(
  files: Files,
  *,
  kinds: Sequence[str] | None = None,
  compression: str = "auto",
  manifest: Mapping[str, Expected] | None = None,
  threads: int = 4,
) -> dict[str, list[Shard]]:
  """Reads every shard of every kind once and returns what they hold.

  Args:
    files: kind -> file names or glob patterns.
    kinds: those that must be there; None takes all of `files`.
    compression: "auto", "gzip" or "none".
    manifest: path, whole or from any folder of it on, -> what the shard must hold.
    threads: shards read at a time.

  Raises:
    ShardError: naming every bad shard (up to ten) and what is wrong with it.
  """
  found = find(files, kinds=list(kinds or files))
  manifest = manifest or {}
  _require_all(found, manifest)

  def read(path: str) -> Shard | ShardError:
    try:
      return scan(path, compression, expected=_expected(manifest, path))
    except ShardError as error:
      return error

  with concurrent.futures.ThreadPoolExecutor(threads) as pool:
    results = {kind: list(pool.map(read, paths)) for kind, paths in found.items()}
  _raise_errors([each for shards in results.values() for each in shards if isinstance(each, ShardError)])
  shards = {kind: [each for each in kept if isinstance(each, Shard)] for kind, kept in results.items()}
  for kind, kept in shards.items():
    if not sum(shard.records for shard in kept):
      raise ShardError(f"kind {kind!r} has no examples in {len(kept)} shards, e.g. {kept[0].path}")
  return shards


def _expected(manifest: Mapping[str, Expected], path: str) -> Expected | None:
  """The entry of the path, or of its last parts: manifests name shards relative to their folder."""
  parts = path.split("/")
  tails = ("/".join(parts[start:]) for start in range(len(parts)))
  return next((manifest[tail] for tail in tails if tail in manifest), None)


def _require_all(found: Mapping[str, Sequence[str]], manifest: Mapping[str, Expected]) -> None:
  """Raises if the manifest lists a shard of a found folder that is not there."""
  there = [f"/{path}" for paths in found.values() for path in paths]
  folders = {path.rpartition("/")[0] + "/" for path in there}
  for name in manifest:
    tail = f"/{name}"
    of_folder = any(folder.endswith(tail.rpartition("/")[0] + "/") for folder in folders)
    if of_folder and not any(path.endswith(tail) for path in there):
      raise ShardError(f"{name}: listed in the manifest, but no file matches it; convert it again")


def _raise_errors(errors: Sequence[ShardError]) -> None:
  if errors:
    more = f"\n  and {len(errors) - 10} more" if len(errors) > 10 else ""
    raise ShardError("\n  ".join(str(error) for error in errors[:10]) + more)
