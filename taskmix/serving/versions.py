"""The folder that a model server watches: one numbered folder a version.

    BASE/1712345678/saved_model.pb     served while it is the largest number
    BASE/1712349999/saved_model.pb
    BASE/.taskmix-1712350000/          being written: no number, so never served
    BASE/.taskmix.lock

TF Serving takes every child whose name is an integer for a version and serves
the largest. A version therefore comes and goes by one rename: it is written
aside on the same file system, brought to the disk, and renamed.
"""

import contextlib
import dataclasses
import datetime
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping

RECORD = pathlib.PurePosixPath("assets.extra/taskmix.json")
CARD = pathlib.PurePosixPath("assets.extra/model_card.md")

_ASIDE = ".taskmix-"
_LOCK = ".taskmix.lock"
_CHUNK = 1 << 20


class PublishError(ValueError):
  """A version could not be published; the message says why and what still stands."""


@dataclasses.dataclass(frozen=True)
class Record:
  """What is known of a pushed model, kept inside it.

  Attributes:
    model: its name.
    pushed_at: ISO 8601, UTC.
    digest: of the model's files, so that equal models are known as such.
    blessings: which gate blessed it: {"Evaluator": True, ...}.
    metrics: task -> metric -> value on the evaluation samples.
    lineage: where it came from: artifact URIs, the hash of the net, ...
    rolled_back_to: the version that this one is a copy of, if a rollback made it.
  """

  model: str = ""
  pushed_at: str = ""
  digest: str = ""
  blessings: Mapping[str, bool] = dataclasses.field(default_factory=dict)
  metrics: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
  lineage: Mapping[str, str] = dataclasses.field(default_factory=dict)
  rolled_back_to: int | None = None

  def to_json(self) -> str:
    return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"

  @classmethod
  def from_json(cls, text: str) -> "Record":
    """The record of `to_json`; fields of later versions of taskmix are passed over."""
    known = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: value for name, value in json.loads(text).items() if name in known})


@dataclasses.dataclass(frozen=True)
class Version:
  """One published version.

  Attributes:
    number: the folder's name.
    path: the folder, or its URI.
    current: whether a server serves it: it has the largest number.
    size: bytes of all its files.
    record: None if it was put there by something else.
  """

  number: int
  path: str
  current: bool
  size: int
  record: Record | None


def list_versions(base: str | os.PathLike) -> list[Version]:
  """Every version in `base`, newest first.

  Raises:
    ValueError: if there is no such folder.
  """
  folder = pathlib.Path(base)
  if not folder.is_dir():
    raise ValueError(f"no model folder {folder}: nothing was pushed there yet, or the path is wrong")
  numbers = sorted(_numbers(folder), reverse=True)
  return [_version(folder, number, number == numbers[0]) for number in numbers]


def show_version(base: str | os.PathLike, number: int | None = None) -> Version:
  """One version of `base`; the one that is served if no number is given.

  Raises:
    ValueError: if it is not there, naming those that are.
  """
  versions = list_versions(base)
  for version in versions:
    if version.number == number or (number is None and version.current):
      return version
  known = ", ".join(str(version.number) for version in versions) or "none"
  raise ValueError(f"no version {'at all' if number is None else number} in {base}; there is {known}")


def publish(
  model: str | os.PathLike,
  base: str | os.PathLike,
  *,
  record: Record,
  card: str = "",
  keep: int = 5,
  now: datetime.datetime | None = None,
) -> Version:
  """Makes `model` the newest version of `base`, in one step for whoever watches it.

  If the newest version holds the very same files already, it is returned as it
  is, with the new card: a push that was killed after its rename can be repeated.

  Args:
    model: folder of a SavedModel.
    base: folder of the versions; made if it is not there.
    record: kept inside the version; its digest and time are filled in.
    card: the model card, in Markdown, kept beside the record; "" keeps none.
    keep: versions that stay, this one included; older ones are removed after it
      is served.
    now: the time that names the version, in seconds since 1970.

  Raises:
    PublishError: if the model is none, or the folder cannot be written; what
      was served before still is.
    ValueError: if `keep` is below 1.
  """
  source, folder = pathlib.Path(model), pathlib.Path(base)
  if not (source / "saved_model.pb").is_file():
    raise PublishError(f"{source} is no SavedModel: it has no saved_model.pb; nothing was published")
  _require_keep(keep)
  record = dataclasses.replace(record, digest=digest(source))
  with _publishing(folder, source):
    newest = max(_numbers(folder), default=0)
    if newest and _same_model(_version(folder, newest, True), record):
      _write_card(folder / str(newest), card)
      return _version(folder, newest, True)
    return _place(source, folder, record=record, keep=keep, now=now, card=card)


def rollback(
  base: str | os.PathLike,
  number: int | None = None,
  *,
  keep: int | None = None,
  now: datetime.datetime | None = None,
) -> Version:
  """Publishes an older version of `base` once more, as the newest.

  Numbers only grow, so servers need not be told, and what was served when
  stays on record.

  Args:
    base: folder of the versions.
    number: the version to go back to; by default the newest whose files differ
      from those served now.
    keep: versions that stay; None removes none: the next push prunes by its own.
    now: see `publish`.

  Raises:
    PublishError: as for `publish`.
    ValueError: if there is no such version, or none to go back to.
  """
  folder = pathlib.Path(base)
  _require_keep(keep)
  served = show_version(folder)
  target = show_version(folder, number) if number is not None else _before(served, list_versions(folder))
  if target.number == served.number:
    raise ValueError(f"version {target.number} in {folder} is the one that is served: nothing to roll back")
  record = dataclasses.replace(
    target.record or Record(digest=digest(target.path)), rolled_back_to=target.number
  )
  with _publishing(folder, pathlib.Path(target.path)):
    return _place(pathlib.Path(target.path), folder, record=record, keep=keep, now=now)


def digest(model: str | os.PathLike) -> str:
  """A hash of a SavedModel's files, their names and contents, without what we put beside them."""
  folder = pathlib.Path(model)
  total = hashlib.blake2b(digest_size=16)
  for path in _files(folder):
    name = path.relative_to(folder).as_posix()
    if name in (RECORD.as_posix(), CARD.as_posix()):
      continue
    one = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
      while chunk := file.read(_CHUNK):
        one.update(chunk)
    total.update(f"{name}\0{one.hexdigest()}\n".encode())
  return total.hexdigest()


def listing(versions: list[Version]) -> str:
  """The versions as lines for a terminal."""
  if not versions:
    return "no version"
  lines = [f"{'version':>12}  {'pushed (UTC)':<20}{'size':>10}  {'blessed by':<26}metrics"]
  for version in versions:
    record = version.record or Record()
    blessed = ", ".join(name for name, verdict in record.blessings.items() if verdict) or "not recorded"
    back = f"  (copy of {record.rolled_back_to})" if record.rolled_back_to else ""
    served = "  <- served" if version.current else ""
    lines.append(
      f"{version.number:>12}  {record.pushed_at[:19] or 'not recorded':<20}{_size(version.size):>10}  "
      f"{blessed:<26}{_metrics(record)}{back}{served}".rstrip()
    )
  return "\n".join(lines)


def details(version: Version) -> str:
  """All that is known of one version, as lines for a terminal."""
  record = version.record or Record()
  lines = [
    f"version   {version.number}{' (served)' if version.current else ''}",
    f"folder    {version.path}",
    f"size      {_size(version.size)}",
    f"model     {record.model or 'not recorded'}",
    f"pushed    {record.pushed_at or 'not recorded'}",
    f"digest    {record.digest or 'not recorded'}",
  ]
  if record.rolled_back_to:
    lines.append(f"copy of   {record.rolled_back_to}")
  lines += [
    f"blessing  {name}: {'blessed' if verdict else 'NOT blessed'}"
    for name, verdict in record.blessings.items()
  ]
  lines += [
    f"metric    {task}/{metric} = {value:.4f}"
    for task, values in record.metrics.items()
    for metric, value in values.items()
  ]
  lines += [f"lineage   {name}: {value}" for name, value in record.lineage.items()]
  return "\n".join(lines)


def _numbers(folder: pathlib.Path) -> list[int]:
  """The versions that a server would see."""
  if not folder.is_dir():
    return []
  return [int(child.name) for child in folder.iterdir() if child.name.isdecimal() and child.is_dir()]


def _version(folder: pathlib.Path, number: int, current: bool) -> Version:
  path = folder / str(number)
  try:
    record = Record.from_json((path / RECORD).read_text())
  except (OSError, ValueError, TypeError):
    record = None  # Pushed by something else.
  # A pruned version may go while we look.
  size = 0
  for file in _files(path):
    with contextlib.suppress(FileNotFoundError):
      size += file.stat().st_size
  return Version(number, str(path), current, size, record)


def _before(served: Version, versions: list[Version]) -> Version:
  """The newest version that is another model than `served`."""
  now = served.record.digest if served.record else digest(served.path)
  for version in versions:
    if version.number < served.number and now != (
      version.record.digest if version.record else digest(version.path)
    ):
      return version
  raise ValueError(
    f"{pathlib.Path(served.path).parent} holds no other model than the one served: nothing to go back to"
  )


def _same_model(version: Version, record: Record) -> bool:
  return version.record is not None and version.record.digest == record.digest


@contextlib.contextmanager
def _publishing(folder: pathlib.Path, source: pathlib.Path) -> Iterator[None]:
  """Holds the folder's lock, and puts a failure to write into words."""
  try:
    folder.mkdir(parents=True, exist_ok=True)
    # The lock goes with the process, so a killed push leaves none behind.
    with (folder / _LOCK).open("w") as lock:
      fcntl.flock(lock, fcntl.LOCK_EX)
      _clear_aside(folder)
      try:
        yield
      except OSError:
        _clear_aside(folder)
        raise
  except OSError as error:
    raise PublishError(_reason(error, folder, source)) from error


def _place(
  source: pathlib.Path,
  folder: pathlib.Path,
  *,
  record: Record,
  keep: int | None,
  now: datetime.datetime | None,
  card: str = "",
) -> Version:
  """Writes the version aside, renames it into sight, and removes the oldest."""
  now = now or datetime.datetime.now(datetime.timezone.utc)
  number = max(int(now.timestamp()), max(_numbers(folder), default=0) + 1)
  record = dataclasses.replace(
    record, pushed_at=now.astimezone(datetime.timezone.utc).isoformat(timespec="seconds")
  )
  aside = folder / f"{_ASIDE}{number}"
  _copy_durably(source, aside, record, card)
  if digest(aside) != (record.digest or digest(source)):
    _clear_aside(folder)
    raise PublishError(
      f"the copy of {source} in {folder} has another digest: the model, or the folder, was changed while "
      f"it was copied, or since it was pushed. Nothing was published; what was served before still is. "
      f"Let nothing else write there, and try again."
    )
  os.rename(aside, folder / str(number))
  _sync(folder)
  for old in sorted(_numbers(folder))[:-keep] if keep else ():
    # Out of a server's sight first: half a version must not be seen going either.
    os.rename(folder / str(old), folder / f"{_ASIDE}{old}")
  _clear_aside(folder)
  return _version(folder, number, True)


def _write_card(version: pathlib.Path, card: str) -> None:
  """Puts the card into a version that is there already; a reader sees the old one or the new."""
  path = version / CARD
  if not card or (path.is_file() and path.read_text() == card):
    return
  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.with_suffix(".partial")
  partial.write_text(card)
  os.replace(partial, path)


def _copy_durably(source: pathlib.Path, target: pathlib.Path, record: Record, card: str) -> None:
  """Copies a model, its record and its card, and returns when the disk has them."""
  for path in _files(source):
    copy = target / path.relative_to(source)
    copy.parent.mkdir(parents=True, exist_ok=True)
    with path.open("rb") as read, copy.open("wb") as write:
      shutil.copyfileobj(read, write, _CHUNK)
      write.flush()
      os.fsync(write.fileno())
  for name, text in ((RECORD, record.to_json()), (CARD, card)):
    if text:
      note = target / name
      note.parent.mkdir(parents=True, exist_ok=True)
      with note.open("w") as write:
        write.write(text)
        write.flush()
        os.fsync(write.fileno())
  for folder, _, _ in os.walk(target):
    _sync(pathlib.Path(folder))


def _sync(folder: pathlib.Path) -> None:
  """Brings a folder's entries, not the files, to the disk."""
  descriptor = os.open(folder, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
  return sorted(path for path in folder.rglob("*") if path.is_file())


def _clear_aside(folder: pathlib.Path) -> None:
  """Removes what a killed push left, and pruned versions; only the holder of the lock may."""
  for path in folder.glob(f"{_ASIDE}*"):
    shutil.rmtree(path, ignore_errors=True)


def _reason(error: OSError, folder: pathlib.Path, source: pathlib.Path) -> str:
  stands = "Nothing was published; what was served before still is."
  if error.errno in (errno.ENOSPC, errno.EDQUOT):
    size = _size(sum(path.stat().st_size for path in _files(source)))
    return f"no space left in {folder} for a model of {size}. {stands} Free some space and run again."
  if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
    return f"{folder} cannot be written ({error.strerror}). {stands} Give a folder that this user may write."
  return f"publishing {source} in {folder} failed: {error}. {stands}"


def _require_keep(keep: int | None) -> None:
  if keep is not None and keep < 1:
    raise ValueError(f"keep must be 1 or more versions, not {keep}")


def _size(size: int) -> str:
  return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"


def _metrics(record: Record) -> str:
  return " ".join(
    f"{task}/{metric}={value:.4f}"
    for task, values in record.metrics.items()
    for metric, value in values.items()
  )
