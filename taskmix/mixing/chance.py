"""Mixing by chance, for comparison: `sample_from_datasets` with what it can't promise.

A batch holds the ratio on average only: 896 at 1:3:1:2 gives 128 +- 10.5 positives,
and of batches of 8, 29 % have none. An example may come twice before another has
come once, only within the shuffle buffer. A start step is reached by reading and
dropping all batches before it. Workers are not slices of one batch: each takes
every n-th batch.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from taskmix.keys import stable_hash
from taskmix.mixing.sampler import Worker
from taskmix.mixing.shards import Shard
from taskmix.spec import Mixture

_SHUFFLE = 16_384


def records(
  mixture: Mixture,
  shards: Mapping[str, Sequence[Shard]],
  *,
  batch_size: int,
  seed: int,
  start_step: int,
  steps: int | None,
  worker: Worker,
) -> tf.data.Dataset:
  """Steps and records drawn by weight: (int64 scalar, string [batch_size / workers]).

  Raises:
    ValueError: if the workers do not divide the batch, or a kind is to "stop" or
      "error" when it is used up: chance cannot say when that is.
  """
  if batch_size % worker.count:
    raise ValueError(
      f"engine 'chance' needs a batch size that {worker.count} workers divide, not {batch_size}"
    )
  for kind in mixture.kinds:
    if kind.when_short != "repeat":
      raise ValueError(
        f"engine 'chance' can only repeat kinds; {kind.name!r} has when_short={kind.when_short!r}"
      )
  sources = [_endless(shards[name], stable_hash(seed, "shuffle", name)) for name in mixture.names]
  weights = [kind.share / mixture.total_share for kind in mixture.kinds]
  mixed = tf.data.Dataset.sample_from_datasets(sources, weights, seed=stable_hash(seed, "draw") >> 1)
  batches = mixed.batch(batch_size // worker.count, drop_remainder=True).shard(worker.count, worker.index)
  numbered = batches.enumerate().skip(start_step)
  return numbered if steps is None else numbered.take(steps)


def _endless(shards: Sequence[Shard], seed: int) -> tf.data.Dataset:
  paths = [shard.path for shard in shards]
  kinds = {shard.compression for shard in shards}
  if len(kinds) > 1:
    raise ValueError(
      f"engine 'chance' reads shards of one compression; these mix gzip and none: {paths[0]}, ..."
    )
  read = tf.data.TFRecordDataset(paths, kinds.pop(), buffer_size=1 << 20)  # type: ignore[arg-type]
  return read.shuffle(_SHUFFLE, seed=seed >> 1, reshuffle_each_iteration=True).repeat()
