"""Opening what annotations and images lie in: local paths, gs://, s3://, hdfs://.

Local files are opened directly; the rest goes through Beam's filesystems, so a
reader never asks which it is.
"""

import gzip
import os
import posixpath

from taskmix.sources.annotated import AnnotationError


def is_remote(path: str) -> bool:
  return "://" in path


def join(root: str, *parts: str) -> str:
  """`root` and the parts with forward slashes; empty parts are left out."""
  return posixpath.join(root, *(part for part in parts if part)) if root else posixpath.join(*parts)


def read_bytes(path: str, span: tuple[int, int] | None = None) -> bytes:
  """The file's bytes, or `span` = (offset, length) of them.

  Raises:
    FileNotFoundError: if there is no such file.
    OSError: if it cannot be read, or ends before the span does.
  """
  with open_binary(path) as file:
    if span is None:
      return file.read()
    offset, length = span
    file.seek(offset)
    data = file.read(length)
  if len(data) != length:
    raise OSError(f"{path}: ends {length - len(data)} bytes before byte {offset + length}")
  return data


def open_binary(path: str):
  """The file at `path`, open for reading bytes as they are stored."""
  if not is_remote(path):
    return open(path, "rb")
  from apache_beam.io import filesystem, filesystems  # 1 s of import that local readers are spared

  if not filesystems.FileSystems.exists(path):
    raise FileNotFoundError(f"no such file: {path}")
  return filesystems.FileSystems.open(path, compression_type=filesystem.CompressionTypes.UNCOMPRESSED)


def read_text(path: str) -> str:
  """The file's text; `.gz` is unpacked, a byte-order mark is dropped.

  Bytes that are not UTF-8 come back as lone surrogates, as Python's own file
  names do: a name that the disk holds can still be opened.

  Raises:
    AnnotationError: if there is no such file, or its gzip stream is cut off.
  """
  try:
    data = read_bytes(path)
    if path.endswith(".gz"):
      data = gzip.decompress(data)
  except FileNotFoundError:
    raise AnnotationError(path, None, "no such annotation file; check the source's `annotations`") from None
  except (EOFError, gzip.BadGzipFile) as error:
    raise AnnotationError(path, None, f"broken gzip file ({error}); copy it again") from None
  return data.decode("utf-8-sig", "surrogateescape")


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
    from apache_beam.io import filesystems

    match = filesystems.FileSystems.match([join(folder, "**")])[0]
    paths = [item.path for item in match.metadata_list]
  else:
    paths = [join(root, name) for root, _, names in os.walk(folder) for name in names]
  found = sorted(path for path in paths if path.endswith(suffix))
  if not found:
    raise AnnotationError(folder, None, f"no {suffix} files here or below; check the source's `annotations`")
  return found
