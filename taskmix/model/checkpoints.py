"""Checkpoints that survive a kill at any moment.

TensorFlow writes each under a temporary name and renames it, index last; what a
crash or a full disk left half-done is found by reading every tensor with its
checksum before any variable is touched, and the one before it is taken.
"""

import logging
import os
from collections.abc import Mapping, Sequence

import tensorflow as tf

_logger = logging.getLogger(__name__)

_PREFIX = "step"


class Checkpoints:
  """The checkpoints of one training in a folder of its own."""

  def __init__(self, directory: str, variables: Sequence[tf.Variable], *, keep: int):
    """
    Args:
      directory: local or remote; made when the first is saved.
      variables: what is saved and restored, always in the same order.
      keep: how many stay.
    """
    self.directory = directory
    # Inside the checkpoint, so that they are of the same moment as the weights.
    self._step = tf.Variable(tf.constant(0, tf.int64))
    self._notes = tf.Variable(tf.constant(""))
    named = {f"v{number:04d}": variable for number, variable in enumerate(variables)}
    self._checkpoint = tf.train.Checkpoint(step=self._step, notes=self._notes, **named)
    self._manager = tf.train.CheckpointManager(
      self._checkpoint, directory, max_to_keep=keep, checkpoint_name=_PREFIX
    )

  def save(self, step: int, *, notes: str = "") -> None:
    """Saves the variables as they stand after `step` steps, and any text beside them."""
    self._step.assign(step)
    self._notes.assign(notes)
    self._manager.save(checkpoint_number=step)

  def restore(self) -> tuple[int, str] | None:
    """Loads the newest whole checkpoint: its (step, notes), or None if there is none."""
    for path in _newest_first(self.directory):
      reason = flaw(path)
      if reason:
        _logger.warning("%s is not whole (%s): taking the one before it", path, reason)
        continue
      self._checkpoint.restore(path).assert_consumed()
      return int(self._step.numpy()), self._notes.numpy().decode()
    return None

  def delete(self) -> None:
    """Removes the folder, if there is one."""
    if tf.io.gfile.exists(self.directory):
      tf.io.gfile.rmtree(self.directory)


def flaw(path: str) -> str:
  """Why the checkpoint cannot be read in full; "" if it can."""
  try:
    reader = tf.train.load_checkpoint(path)
    for name in reader.get_variable_to_shape_map():
      reader.get_tensor(name)
  # IndexError is what the reader makes of a file that is too short.
  except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
    return str(error).splitlines()[0][:200]
  return ""


def fingerprint_of(files: Mapping[str, Sequence[str]]) -> str:
  """Text that changes with the data: sizes, first and last bytes of all files, by kind.

  A gzip file's last bytes have the checksum of all of it.
  """
  parts = []
  for kind in sorted(files):
    for path in sorted(files[kind]):
      parts.append(f"{kind} {os.path.basename(path)} {_ends(path)}")
  return "\n".join(parts)


def _ends(path: str, *, size: int = 65_536) -> str:
  length = tf.io.gfile.stat(path).length
  with tf.io.gfile.GFile(path, "rb") as file:
    head = file.read(size)
    file.seek(max(0, length - size))
    return f"{length} {head.hex()} {file.read().hex()}"


def _newest_first(directory: str) -> list[str]:
  """Every checkpoint in the folder, also one that the folder's own list has lost."""
  found = tf.io.gfile.glob(os.path.join(directory, f"{_PREFIX}-*.index"))
  paths = [path[: -len(".index")] for path in found]
  return sorted(paths, key=lambda path: int(path.rsplit("-", 1)[1]), reverse=True)
