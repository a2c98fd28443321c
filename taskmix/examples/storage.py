"""Writing, moving and removing files: local paths, gs://, s3://, hdfs://.

Local files take the direct way; the rest goes through Beam's filesystems.
"""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from taskmix.sources.files import filesystems, is_remote, join, open_binary, use_options


@dataclasses.dataclass(frozen=True)
class WithOptions:
  """A function whose paths are opened with Beam's options, in whatever process it runs."""

  function: Callable[[Any], Any]
  options: Mapping[str, Any]

  def __call__(self, item: Any) -> Any:
    use_options(self.options)
    return self.function(item)


def make_folder(path: str) -> None:
  """Makes the folder and those above it; object stores have none and need none."""
  if not is_remote(path):
    os.makedirs(path, exist_ok=True)


@contextlib.contextmanager
def create(path: str) -> Iterator[BinaryIO]:
  """A new file that appears under its name only when it is whole.

  A retried or a second attempt at the same file replaces it with the same bytes.
  """
  if is_remote(path):
    with _Remote(path) as file:
      yield file  # type: ignore[misc]
    return
  aside = f"{path}.writing-{os.getpid()}"
  with open(aside, "wb") as file:
    yield file
  os.replace(aside, path)


class _Remote:
  """A new file in an object store, which is opened when there is something to write.

  Beam uploads to S3 in parts, and S3 refuses an upload without any: an empty file
  takes another way there.
  """

  def __init__(self, path: str):
    self._path, self._file = path, None

  def __enter__(self) -> "_Remote":
    return self

  def write(self, data: bytes) -> int:
    if data and self._file is None:
      self._file = filesystems().create(self._path, "application/octet-stream", _uncompressed())
    if self._file is not None:
      self._file.write(data)
    return len(data)

  def __exit__(self, kind: object, *error: object) -> None:
    if self._file is not None:
      self._file.close()
    elif kind is None:
      _create_empty(self._path)


def _create_empty(path: str) -> None:
  if path.startswith("s3://"):
    from apache_beam.io.aws import s3io

    bucket, key = s3io.parse_s3_path(path)
    store = s3io.S3IO(options=filesystems()._pipeline_options or {})
    store.client.client.put_object(Bucket=bucket, Key=key, Body=b"")
  else:
    filesystems().create(path, "application/octet-stream", _uncompressed()).close()


def write_bytes(path: str, data: bytes) -> None:
  with create(path) as file:
    file.write(data)


def exists(path: str) -> bool:
  return filesystems().exists(path) if is_remote(path) else os.path.exists(path)


def list_files(folder: str) -> list[str]:
  """Paths of all files below the folder, sorted; none if there is no folder."""
  if is_remote(folder):
    (match,) = filesystems().match([join(folder, "**")])
    return sorted(item.path for item in match.metadata_list)
  return sorted(join(at, name) for at, _, names in os.walk(folder) for name in names)


def remove_tree(folder: str) -> None:
  """Removes the folder and all in it; none is fine."""
  if not is_remote(folder):
    shutil.rmtree(folder, ignore_errors=True)
  elif files := list_files(folder):
    filesystems().delete(files)


def link_or_copy(source: str, target: str) -> None:
  """The file under a second name: linked on the same disk, else copied."""
  make_folder(os.path.dirname(target))
  if not is_remote(source) and not is_remote(target):
    with contextlib.suppress(OSError):
      os.link(source, target)
      return
  with open_binary(source) as file, create(target) as copy:
    shutil.copyfileobj(file, copy, 1 << 20)


def publish(aside: str, folder: str, *, last: str) -> None:
  """Gives the finished folder its name.

  A local folder appears whole, in one rename. An object store has no such thing:
  there the files are renamed one by one, and `last`, without which the folder
  does not count as finished, at the end.
  """
  if not is_remote(folder):
    make_folder(os.path.dirname(os.path.abspath(folder)))
    # rename(2) replaces an empty folder, such as TFX makes beforehand, at once.
    os.rename(aside, folder)
    return
  files = [path for path in list_files(aside) if path != join(aside, last)]
  for batch in (files, [join(aside, last)]):
    filesystems().rename(batch, [join(folder, path[len(aside) :].lstrip("/")) for path in batch])


def _uncompressed() -> str:
  from apache_beam.io.filesystem import CompressionTypes

  return CompressionTypes.UNCOMPRESSED
