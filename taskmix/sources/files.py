"""Opening what annotations and images lie in: local paths, gs://, s3://, hdfs://.

Local files are opened directly; the rest goes through Beam's filesystems, so a
reader never asks which it is.
"""

import contextlib
import contextvars
import gzip
import os
import posixpath
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from taskmix.sources.annotated import AnnotationError

# Of an annotation file, unpacked; `taskmix.sources.read` sets it to what the Source says.
_most_bytes = contextvars.ContextVar("most_bytes", default=1 << 30)

# Bytes; most photos and lists have fewer.
_FIRST_READ = 1 << 20


def is_remote(path: str) -> bool:
  return "://" in path


def join(root: str, *parts: str) -> str:
  """`root` and the parts with forward slashes; empty parts are left out.

  So is ".": an object store takes it for a name.
  """
  return (
    posixpath.join(root, *(part for part in parts if part not in ("", ".")))
    if root
    else posixpath.join(*parts)
  )


class TooLargeError(OSError):
  """A file holds more than was asked for at most; the rest was not read."""


def read_bytes(path: str, span: tuple[int, int] | None = None, *, at_most: int | None = None) -> bytes:
  """The file's bytes, or `span` = (offset, length) of them.

  Raises:
    FileNotFoundError: if there is no such file.
    TooLargeError: if it, or the span, has more than `at_most` bytes.
    OSError: if it cannot be read, or ends before the span does.
  """
  with open_binary(path) as file:
    if span is None:
      return _bounded(file, path, at_most)
    offset, length = span
    if at_most is not None and length > at_most:
      raise TooLargeError(f"{path}: {length} bytes, which is more than {at_most}")
    file.seek(offset)
    data = file.read(length)
  if len(data) != length:
    raise OSError(f"{path}: ends {length - len(data)} bytes before byte {offset + length}")
  return data


def _bounded(file, path: str, at_most: int | None) -> bytes:
  """All that is left of an open file. Its size is not asked: a device or a pipe has none."""
  if at_most is None:
    return file.read()
  # Python sets aside all that a read asks for: 0.1 ms for 256 MiB, a photo.
  data = file.read(min(at_most, _FIRST_READ) + 1)
  if len(data) > _FIRST_READ:
    data += file.read(at_most + 1 - len(data))
  if len(data) > at_most:
    raise TooLargeError(f"{path}: more than {at_most} bytes")
  return data


def open_binary(path: str):
  """The file at `path`, open for reading bytes as they are stored."""
  if not is_remote(path):
    return open(path, "rb")
  from apache_beam.io.filesystem import CompressionTypes

  if not filesystems().exists(path):
    raise FileNotFoundError(f"no such file: {path}")
  return filesystems().open(path, compression_type=CompressionTypes.UNCOMPRESSED)


_options: dict[str, Any] = {}


def use_options(options: Mapping[str, Any]) -> None:
  """Takes Beam's options for this process, some of which a store needs (`s3_endpoint_url`)."""
  _options.update(options)


def filesystems():
  """Beam's FileSystems, with the options of `use_options` unless a pipeline has set its own."""
  from apache_beam.io.filesystems import FileSystems  # 1 s of import that local paths are spared
  from apache_beam.options.pipeline_options import PipelineOptions

  # A pipeline and a runner's worker set them; S3 fails outright where nobody has.
  if FileSystems._pipeline_options is None:
    FileSystems.set_options(PipelineOptions.from_dictionary(dict(_options)))
  return FileSystems


@contextlib.contextmanager
def annotations_of_at_most(size: int) -> Iterator[None]:
  """Inside, annotation files that hold more than `size` bytes, unpacked, are refused."""
  token = _most_bytes.set(size)
  try:
    yield
  finally:
    _most_bytes.reset(token)


def read_annotation(path: str) -> bytes:
  """The bytes of an annotation file; `.gz` is unpacked.

  Raises:
    AnnotationError: if there is no such file, its gzip stream is cut off, or it
      holds more than a list may, as a compressed bomb does.
  """
  most = _most_bytes.get()
  try:
    with open_binary(path) as file:
      if not path.endswith(".gz"):
        return _bounded(file, path, most)
      with gzip.GzipFile(fileobj=file) as unpacked:
        return _bounded(unpacked, path, most)
  except FileNotFoundError:
    raise AnnotationError(path, None, "no such annotation file; check the source's `annotations`") from None
  except TooLargeError:
    reason = (
      f"more than the {most:,} bytes of max_annotation_bytes; split the list, or raise it in the Source"
    )
    raise AnnotationError(path, None, reason) from None
  except (EOFError, gzip.BadGzipFile, zlib.error) as error:
    raise AnnotationError(path, None, f"broken gzip file ({error}); copy it again") from None


def read_text(path: str) -> str:
  """The file's text; `.gz` is unpacked, a byte-order mark is dropped.

  Bytes that are not UTF-8 come back as lone surrogates, as Python's own file
  names do: a name that the disk holds can still be opened.

  Raises:
    AnnotationError: as `read_annotation`.
  """
  return read_annotation(path).decode("utf-8-sig", "surrogateescape")


def read_lines(path: str) -> list[str]:
  """The file's lines without their ends (LF or CRLF); line 1 comes first.

  Raises:
    AnnotationError: as `read_text`, or if the file is empty.
  """
  text = read_text(path)
  if not text.strip():
    raise AnnotationError(path, None, "the file is empty; copy it again")
  # Not str.splitlines, which also splits at form feeds and U+2028 inside names.
  lines = text.replace("\r\n", "\n").split("\n")
  return lines[:-1] if lines[-1] == "" else lines


def image_name(name: str, *, path: str, line: int | None) -> str:
  """`name` as an image id below the images folder: forward slashes, no dots.

  Raises:
    AnnotationError: if it is empty, absolute, or climbs out of the folder;
      `path` and `line` say where it was read.
  """
  plain = posixpath.normpath(name.replace("\\", "/"))
  outside = plain.startswith(("/", "../")) or plain == ".." or is_remote(name) or plain[1:3] == ":/"
  if not name.strip() or plain == "." or outside or "\0" in name:
    raise AnnotationError(
      path, line, f"image path {name!r} does not lie below the images folder; use a relative path inside it"
    )
  return plain


def list_files(folder: str, suffix: str) -> list[str]:
  """Paths below `folder`, at any depth, of the files that end in `suffix`, sorted.

  Raises:
    AnnotationError: if there is none, or no such folder.
  """
  if is_remote(folder):
    match = filesystems().match([join(folder, "**")])[0]
    paths = [item.path for item in match.metadata_list]
  else:
    paths = [join(root, name) for root, _, names in os.walk(folder) for name in names]
  found = sorted(path for path in paths if path.endswith(suffix))
  if not found:
    raise AnnotationError(folder, None, f"no {suffix} files here or below; check the source's `annotations`")
  return found
