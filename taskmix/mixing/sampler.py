"""Which examples make up batch n: pure arithmetic, no data, no TensorFlow.

Each kind k is an endless sequence: epoch after epoch, each a new seeded
permutation of the kind's examples. Batch n takes positions n*q .. n*q + q - 1 of
it, where q is the kind's count in a batch, and puts them into slots that are
shuffled by the same seed. So batch n depends on (seed, n, sizes) alone.

  neg   | 4 0 2 | 1 5 3 | 2 4 1 | ...   size 6, q = 3: an epoch is two batches
  pos   | 1     | 0     | 1     | ...   size 2, q = 1
  batch   n = 0   n = 1   n = 2
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from taskmix.keys import keyed_rng, stable_hash
from taskmix.mixing import permutation

# Steps share this many seeded slot orders in turn, and are computed a block at a
# time so that the cost of an operation's start is spread over many steps. A block
# has about this many slots: 1/4 MiB a column, which stays in the L2 cache.
_BLOCK_STEPS = 64
_BLOCK_SLOTS = 1 << 16


class Slots(NamedTuple):
  """What a batch, or a block of batches, holds in every slot.

  Attributes:
    kind: int32, the kind's number in the mixture.
    position: int64, place in the kind's endless sequence.
    row: int64, the example's number within all kinds laid end to end.
  """

  kind: np.ndarray
  position: np.ndarray
  row: np.ndarray


@dataclasses.dataclass(frozen=True)
class Worker:
  """One of `count` input pipelines; takes its slice of every batch.

  >>> Worker(1, 3).slice(8)
  slice(2, 5, None)
  """

  index: int = 0
  count: int = 1

  def __post_init__(self):
    if not 0 <= self.index < self.count:
      raise ValueError(f"worker index {self.index} must be in 0..{self.count - 1}")

  def slice(self, batch_size: int) -> slice:
    """The worker's slots; the slices of all workers join to the whole batch.

    Raises:
      ValueError: if a worker would get none.
    """
    if batch_size < self.count:
      raise ValueError(f"a batch of {batch_size} has no slot for each of {self.count} workers")
    return slice(batch_size * self.index // self.count, batch_size * (self.index + 1) // self.count)


@dataclasses.dataclass(frozen=True)
class Sampler:
  """The arithmetic of one mixture over examples of known number.

  Attributes:
    names: of the kinds.
    counts: q, how many slots of a batch each kind has.
    sizes: how many examples each kind has.
    seed: of every order.
  """

  names: tuple[str, ...]
  counts: tuple[int, ...]
  sizes: tuple[int, ...]
  seed: int

  def __post_init__(self):
    for name, size in zip(self.names, self.sizes, strict=True):
      if not 1 <= size <= permutation.MAX_SIZE:
        raise ValueError(f"kind {name!r} has {size} examples; it needs 1 to {permutation.MAX_SIZE}")

  @classmethod
  def of(cls, counts: Mapping[str, int], sizes: Mapping[str, int], *, seed: int) -> "Sampler":
    """From kind -> count in a batch and kind -> number of examples."""
    names = tuple(counts)
    return cls(names, tuple(counts.values()), tuple(sizes[name] for name in names), seed)

  @property
  def batch_size(self) -> int:
    return sum(self.counts)

  @property
  def bases(self) -> tuple[int, ...]:
    """The row of each kind's first example."""
    return tuple(int(base) for base in np.cumsum((0, *self.sizes[:-1])))

  @property
  def block_steps(self) -> int:
    """How many steps are computed together; blocks start at its multiples."""
    return max(1, min(_BLOCK_STEPS, _BLOCK_SLOTS // self.batch_size))

  @functools.cached_property
  def layout(self) -> tuple[np.ndarray, np.ndarray]:
    """Kind (int32) and place among the kind's q (int64) of every slot: [block_steps, batch].

    The kinds are mixed inside the batch, since a distribution strategy slices it
    along axis 0.
    """
    kind = np.repeat(np.arange(len(self.counts), dtype=np.int32), self.counts)
    place = np.concatenate([np.arange(count) for count in self.counts])
    orders = [
      keyed_rng(self.seed, "slots", step).permutation(self.batch_size) for step in range(self.block_steps)
    ]
    return kind[orders], place[orders]

  @property
  def kind_keys(self) -> np.ndarray:
    """uint32 [kinds, 2]: a kind's key hangs on its name, so other kinds never change its order."""
    keys = [stable_hash(self.seed, "kind", name) for name in self.names]
    return np.array([(key & 0xFFFFFFFF, key >> 32) for key in keys], np.uint32)

  def block(self, number: int) -> Slots:
    """Steps number*block_steps .. of `block_steps` batches, arrays [block_steps, batch]."""
    kind, place = self.layout
    steps = number * self.block_steps + np.arange(self.block_steps)[:, None]
    position = steps * np.array(self.counts, np.int64)[kind] + place
    size = np.array(self.sizes, np.int64)[kind]
    keys = self.kind_keys[kind]
    key = permutation.epoch_key((position // size).astype(np.uint32), keys[..., 0], keys[..., 1])
    place_in_epoch = permutation.permute((position % size).ravel(), size.ravel(), key.ravel())
    row = np.array(self.bases, np.int64)[kind] + place_in_epoch.reshape(kind.shape)
    return Slots(kind, position, row)

  def batch(self, step: int) -> Slots:
    """What batch `step` holds, arrays [batch]."""
    number, offset = divmod(step, self.block_steps)
    return Slots(*(column[offset] for column in self.block(number)))


class BlockRows:
  """`Sampler.block(n).row` as uint32 operations on whole blocks, in any array module.

  A slot's place in its kind's sequence is the block's start, which is the same for
  all slots of the kind and divided once in int64, plus the slot's offset in the
  block, which is a constant. So all work on [slots] is uint32.

  Attributes, one value a slot of the block, [block_steps * batch_size]:
    kind: int32. offset: uint32, from the block's start in the kind's sequence.
    size, first, second: uint32, of the permutation. low, high: uint32 key.
    base: int64, row of the kind's first example.
  And one a kind: stride, sizes: int64, positions a block takes, examples.
  """

  def __init__(self, sampler: Sampler, constant: Callable[[np.ndarray], Any] = np.asarray):
    """`constant` turns a table into an array of the module that will use it."""
    kind, place = (column.ravel() for column in sampler.layout)
    counts = np.array(sampler.counts, np.int64)
    step = np.repeat(np.arange(sampler.block_steps), sampler.batch_size)
    keys = sampler.kind_keys
    first, second = permutation.sides(sampler.sizes)
    self.sizes = np.array(sampler.sizes, np.int64)
    self.stride = counts * sampler.block_steps
    self.kind = constant(kind)
    self.offset = constant((step * counts[kind] + place).astype(np.uint32))
    self.size = constant(self.sizes[kind].astype(np.uint32))
    self.first, self.second = constant(first[kind]), constant(second[kind])
    self.low, self.high = constant(keys[kind, 0]), constant(keys[kind, 1])
    self.base = constant(np.array(sampler.bases, np.int64)[kind])

  def start(self, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Epoch and place in it, uint32 [kinds], at which block `number` starts."""
    epoch, place = np.divmod(number * self.stride, self.sizes)
    return epoch.astype(np.uint32), place.astype(np.uint32)

  def place(self, epoch: Any, place: Any, *, xp: Any = np) -> tuple[Any, Any]:
    """The uint32 place in its permutation of every slot, before walking, and its key.

    Args:
      epoch, place: uint32 [kinds], from `start`.
      xp: the array module.
    """
    distance = xp.take(place, self.kind) + self.offset
    epochs = distance // self.size
    index = distance - epochs * self.size
    key = permutation.epoch_key(xp.take(epoch, self.kind) + epochs, self.low, self.high, xp=xp)
    return permutation.encrypt(index, self.first, self.second, key, xp=xp), key
