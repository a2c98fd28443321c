"""TFRecord files, and how examples are spread over them.

Every example has a 64-bit key (see `example_keys`). A split is ordered by key
over all of its shards, so shard i holds the i-th stretch of the keys, ordered:
any shard, and any stretch of one, is a random sample of the split.

TFRecord framing (tensorflow/core/lib/io/record_writer.h): uint64 length, masked
CRC-32C of it, the record, masked CRC-32C of that; little-endian.
"""

import functools
import gzip
import itertools
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import google_crc32c
import numpy as np

from taskmix.spec import Conversion

# Keys are counted by their highest 16 bits: shards meet at a bucket's edge, so
# they are equal to within a bucket, 1/65,536 of the split.
BUCKET_BITS = 16
BUCKETS = 1 << BUCKET_BITS

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
HEADER_BYTES = _HEADER.size
FRAME_BYTES = HEADER_BYTES + _FOOTER.size
_MASK_DELTA = 0xA282EAD8
_crc32c = google_crc32c.value


def example_keys(base: int, count: int) -> np.ndarray:
  """Keys of the examples 0..count - 1 of one photo and kind: uint64 [count].

  Args:
    base: 64-bit stable hash of the photo and kind.
    count: how many.
  """
  return keys_of(np.full(count, base, np.uint64), np.arange(count))


def keys_of(bases: np.ndarray, numbers: np.ndarray) -> np.ndarray:
  """The key of each example by its base and its number: uint64 [n].

  SplitMix64 (Steele, Lea and Flood 2014) counted on from the base.
  """
  keys = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + bases
  keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
  keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
  return keys ^ (keys >> np.uint64(31))


def frame(records: Sequence[bytes]) -> list[bytes]:
  """Each record with its TFRecord header and footer."""
  return [b"".join(parts) for parts in zip(*_frames(records), strict=True)]


def framed(records: Sequence[bytes]) -> bytes:
  """All records with their headers and footers, one after the other."""
  return b"".join(itertools.chain.from_iterable(zip(*_frames(records), strict=True)))


def _frames(records: Sequence[bytes]) -> tuple[list[bytes], Sequence[bytes], list[bytes]]:
  """Each record's header, itself and its footer."""
  crcs = np.fromiter(map(_crc32c, records), np.uint32, len(records))
  footers = ((crcs >> 15 | crcs << 17) + np.uint32(_MASK_DELTA)).astype("<u4").tobytes()
  headers = [_header(size) for size in map(len, records)]
  return headers, records, [footers[at : at + 4] for at in range(0, len(footers), 4)]


@functools.lru_cache(maxsize=4096)
def _header(size: int) -> bytes:
  return _HEADER.pack(size, _masked_crc(_LENGTH.pack(size)))


def read_records(file: BinaryIO, name: str = "the file") -> Iterator[bytes]:
  """The records of a TFRecord file; gzip is recognised by its first bytes.

  Raises:
    ValueError: if a checksum is wrong or the file is cut off; names `name`.
  """
  magic = file.read(2)
  file.seek(0)
  if magic == b"\x1f\x8b":
    with gzip.open(file) as stream:
      yield from _read_frames(stream, name)
  else:
    yield from _read_frames(file, name)


def _read_frames(stream: BinaryIO | gzip.GzipFile, name: str) -> Iterator[bytes]:
  number = 0
  while header := stream.read(_HEADER.size):
    if len(header) < _HEADER.size:
      raise ValueError(f"{name}: cut off in record {number}; copy or convert it again")
    size, crc = _HEADER.unpack(header)
    if crc != _masked_crc(header[:8]):
      raise ValueError(f"{name}: record {number} has a broken length; is it a TFRecord file?")
    record, footer = stream.read(size), stream.read(_FOOTER.size)
    if len(footer) < _FOOTER.size:
      raise ValueError(f"{name}: cut off in record {number}; copy or convert it again")
    if _FOOTER.unpack(footer)[0] != _masked_crc(record):
      raise ValueError(f"{name}: record {number} is damaged; copy or convert it again")
    yield record
    number += 1


def shard_name(index: int, count: int, *, compression: str) -> str:
  """The file name of a shard, as TFX names them: data_tfrecord-00000-of-00002.gz."""
  suffix = ".gz" if compression == "gzip" else ""
  return f"data_tfrecord-{index:05d}-of-{count:05d}{suffix}"


def split_folder(split: str) -> str:
  """The folder of a split inside an Examples artifact."""
  return f"Split-{split}"


def shard_count(examples: int, size: int, conversion: Conversion) -> int:
  """Files for a split of `examples` that take `size` bytes uncompressed.

  Never more than examples, since an empty file reads as no data, silently; one
  even for none, so that the split's pattern matches something.
  """
  wanted = conversion.shards or math.ceil(size / (conversion.shard_mib * (1 << 20)))
  return max(1, min(wanted, examples))


def shard_bounds(histogram: np.ndarray, shards: int) -> list[int]:
  """Bucket edges that cut a split into shards of nearly equal counts.

  Args:
    histogram: int64 [BUCKETS], examples whose key's high bits are the index.
    shards: how many.

  Returns:
    shards + 1 edges from 0 to BUCKETS; shard i has the buckets from edge i up to
    edge i + 1.
  """
  upto = np.concatenate([[0], histogram.cumsum()])
  wanted = upto[-1] * np.arange(1, shards) / shards
  above = np.searchsorted(upto, wanted)
  nearer = above - ((above > 0) & (wanted - upto[above - 1] < upto[above] - wanted))
  return [0, *nearer.tolist(), BUCKETS]


def bucket_histogram(keys: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
  """Examples, or their summed weights, in each bucket: int64 [BUCKETS]."""
  buckets = (keys >> np.uint64(64 - BUCKET_BITS)).astype(np.int64)
  return np.bincount(buckets, weights, BUCKETS).astype(np.int64)


class Deflater:
  """A gzip stream whose bytes depend on its input alone: no time, no file name."""

  def __init__(self):
    # Level 1: pixels gain little from more, and it is four times faster than 6.
    self._deflate = zlib.compressobj(1, zlib.DEFLATED, 31)

  def compress(self, data: bytes) -> bytes:
    return self._deflate.compress(data)

  def flush(self) -> bytes:
    return self._deflate.flush()


def _masked_crc(data: bytes) -> int:
  crc = _crc32c(data)
  return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
