"""Publishing into a bucket, where nothing can be renamed in one step.

The order stands in for the rename: `saved_model.pb`, without which a server
loads nothing and tries again, is written last, and removed first.
"""

import dataclasses
import datetime
import os
import pathlib

from taskmix.serving import versions
from taskmix.serving.versions import CARD, RECORD, PublishError, Record, Version

_LAST = "saved_model.pb"


def publish(
  model: str | os.PathLike,
  base: str,
  *,
  record: Record,
  card: str = "",
  keep: int = 5,
  now: datetime.datetime | None = None,
) -> Version:
  """Makes `model` the newest version of `base`, a URI such as gs://bucket/models/pnet.

  Two pushes into one bucket at once are not held apart: a bucket has no lock.

  Args:
    model: folder of a SavedModel on this machine.
    base: any file system that TensorFlow knows.
    record, card, keep, now: as for `versions.publish`.

  Raises:
    PublishError: if the model is none, or the store refuses.
    ValueError: if `keep` is below 1.
  """
  import tensorflow as tf

  source = pathlib.Path(model)
  if not (source / _LAST).is_file():
    raise PublishError(f"{source} is no SavedModel: it has no {_LAST}; nothing was published")
  if keep < 1:
    raise ValueError(f"keep must be 1 or more versions, not {keep}")
  now = now or datetime.datetime.now(datetime.timezone.utc)
  try:
    numbers = _numbers(base)
    number = max(int(now.timestamp()), max(numbers, default=0) + 1)
    record = dataclasses.replace(
      record,
      digest=versions.digest(source),
      pushed_at=now.astimezone(datetime.timezone.utc).isoformat(timespec="seconds"),
    )
    target = f"{base.rstrip('/')}/{number}"
    size = _upload(source, target, record, card)
    for old in sorted([*numbers, number])[:-keep]:
      gone = f"{base.rstrip('/')}/{old}"
      if tf.io.gfile.exists(f"{gone}/{_LAST}"):
        tf.io.gfile.remove(f"{gone}/{_LAST}")
      tf.io.gfile.rmtree(gone)
  except tf.errors.OpError as error:
    raise PublishError(
      f"publishing in {base} failed: {error.message}. What was served before still is; mend it and run again."
    ) from error
  return Version(number, target, True, size, record)


def _numbers(base: str) -> list[int]:
  import tensorflow as tf

  if not tf.io.gfile.exists(base):
    return []
  names = [name.rstrip("/") for name in tf.io.gfile.listdir(base)]
  return [int(name) for name in names if name.isdecimal()]


def _upload(source: pathlib.Path, target: str, record: Record, card: str) -> int:
  """Copies the files, `saved_model.pb` last; returns their bytes."""
  import tensorflow as tf

  files = [path for path in source.rglob("*") if path.is_file() and path.relative_to(source) != RECORD]
  for path in sorted(files, key=lambda path: (path == source / _LAST, path)):
    if path == source / _LAST:
      _write(f"{target}/{RECORD}", record.to_json().encode())
      if card:
        _write(f"{target}/{CARD}", card.encode())
    name = f"{target}/{path.relative_to(source).as_posix()}"
    tf.io.gfile.makedirs(name.rpartition("/")[0])
    tf.io.gfile.copy(str(path), name, overwrite=True)
  return sum(path.stat().st_size for path in files)


def _write(name: str, content: bytes) -> None:
  import tensorflow as tf

  tf.io.gfile.makedirs(name.rpartition("/")[0])
  with tf.io.gfile.GFile(name, "wb") as file:
    file.write(content)
