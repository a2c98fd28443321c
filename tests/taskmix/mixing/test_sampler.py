"""Properties of the arithmetic alone: over sizes, ratios, seeds and epochs."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.mixing.sampler import Sampler, Slots, Worker
from taskmix.mixing.windows import Index, WindowSampler


@st.composite
def samplers(draw):
  kinds = draw(st.integers(1, 4))
  counts = [draw(st.integers(1, 9)) for _ in range(kinds)]
  sizes = [draw(st.integers(1, 120)) for _ in range(kinds)]
  names = [f"kind{number}" for number in range(kinds)]
  seed = draw(st.integers(0, 2**63))
  sampler = Sampler.of(dict(zip(names, counts, strict=True)), dict(zip(names, sizes, strict=True)), seed=seed)
  if draw(st.booleans()):
    return sampler
  return WindowSampler(sampler, draw(st.integers(1, 20)), chunk=draw(st.integers(1, 40)))


def _arithmetic(sampler) -> Sampler:
  return sampler.sampler if isinstance(sampler, WindowSampler) else sampler


def _slots(sampler, steps: int) -> Slots:
  """Steps 0 .. steps - 1, computed as the engines do: by blocks, by windows."""
  if isinstance(sampler, WindowSampler):
    starts = range(0, steps, sampler.steps)
    parts = [sampler.slots(start, min(start + sampler.steps, steps)) for start in starts]
  else:
    parts = [sampler.block(number) for number in range(-(-steps // sampler.block_steps))]
  return Slots(*(np.concatenate(columns)[:steps] for columns in zip(*parts, strict=True)))


def _epochs(sampler, kind: int, drawn: Slots) -> list[np.ndarray]:
  """The kind's examples in the order of their positions, cut into whole epochs."""
  plain, mine = _arithmetic(sampler), drawn.kind == kind
  position, row = drawn.position[mine], drawn.row[mine]
  assert np.array_equal(np.sort(position), np.arange(len(position)))  # no position left out or taken twice
  row = row[np.argsort(position)] - plain.bases[kind]
  size = plain.sizes[kind]
  return [row[start : start + size] for start in range(0, len(row) - size + 1, size)]


@settings(max_examples=60, deadline=None)
@given(sampler=samplers())
def test_every_example_comes_exactly_once_in_every_epoch(sampler):
  drawn = _slots(sampler, 80)
  for kind, size in enumerate(_arithmetic(sampler).sizes):
    for epoch in _epochs(sampler, kind, drawn):
      assert np.array_equal(np.sort(epoch), np.arange(size))


@settings(max_examples=60, deadline=None)
@given(sampler=samplers(), step=st.integers(0, 10**9))
def test_every_batch_holds_the_exact_counts(sampler, step):
  plain, batch = _arithmetic(sampler), sampler.batch(step)
  assert np.bincount(batch.kind, minlength=len(plain.counts)).tolist() == list(plain.counts)
  bases, sizes = np.array(plain.bases)[batch.kind], np.array(plain.sizes)[batch.kind]
  assert ((batch.row >= bases) & (batch.row < bases + sizes)).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**63), windows=st.booleans())
def test_every_epoch_has_a_new_order(seed, windows):
  sampler = Sampler.of({"neg": 5, "pos": 3}, {"neg": 40, "pos": 25}, seed=seed)
  chosen = WindowSampler(sampler, 7, chunk=6) if windows else sampler
  epochs = _epochs(chosen, 0, _slots(chosen, 80))
  assert len({tuple(epoch) for epoch in epochs}) == len(epochs) == 10


@settings(max_examples=30, deadline=None)
@given(sampler=samplers())
def test_one_batch_is_that_of_its_block(sampler):
  drawn = _slots(sampler, 70)
  for step in (0, 1, 63, 64, 69):
    for one, many in zip(sampler.batch(step), drawn, strict=True):
      assert np.array_equal(one, many[step])


@given(sampler=samplers(), step=st.integers(0, 10**6), count=st.sampled_from([1, 2, 3, 7]))
@settings(max_examples=40, deadline=None)
def test_workers_slices_join_to_the_batch(sampler, step, count):
  row, size = sampler.batch(step).row, _arithmetic(sampler).batch_size
  if size < count:
    with pytest.raises(ValueError, match="no slot for each"):
      Worker(0, count).slice(size)
    return
  slices = [row[Worker(index, count).slice(size)] for index in range(count)]
  assert np.array_equal(np.concatenate(slices), row)
  assert {len(each) for each in slices} <= {size // count, -(-size // count)}


def test_other_seeds_give_other_batches():
  one, two = (Sampler.of({"a": 50}, {"a": 1000}, seed=seed).batch(0).row for seed in (1, 2))
  assert not np.array_equal(one, two)


def test_a_kinds_order_does_not_hang_on_the_other_kinds():
  alone = Sampler.of({"pos": 4}, {"pos": 30}, seed=3)
  among = Sampler.of({"neg": 8, "pos": 4}, {"neg": 99, "pos": 30}, seed=3)
  for step in range(20):
    with_others = among.batch(step)
    assert set(alone.batch(step).row) == set(with_others.row[with_others.kind == 1] - 99)


def test_kinds_are_mixed_inside_the_batch():
  sampler = Sampler.of({"neg": 384, "pos": 128, "part": 128, "landmark": 256}, dict.fromkeys(
    ("neg", "pos", "part", "landmark"), 1000), seed=1)  # fmt: skip
  for step in range(10):
    first_half = sampler.batch(step).kind[:448]
    counts = np.bincount(first_half, minlength=4)
    # Hypergeometric around 192, 64, 64, 128 with deviations below 11: five of them.
    assert np.abs(counts - (192, 64, 64, 128)).max() < 55


def test_a_kind_smaller_than_its_share_fills_it_again_and_again():
  batch = Sampler.of({"pos": 7}, {"pos": 3}, seed=0).batch(0)
  assert np.array_equal(np.sort(np.bincount(batch.row)), (2, 2, 3))


def test_an_empty_kind_is_an_error_that_names_it():
  with pytest.raises(ValueError, match="'pos' has 0 examples"):
    Sampler.of({"pos": 7}, {"pos": 0}, seed=0)


def test_a_far_step_costs_what_a_near_one_costs():
  sampler = Sampler.of({"neg": 6, "pos": 2}, {"neg": 1001, "pos": 77}, seed=0)
  far = 2**40
  assert sampler.batch(far).position.min() == far * 2
  assert WindowSampler(sampler, 10).batch(far).position.min() == far * 2


@given(
  lengths=st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=80), min_size=1, max_size=4),
  data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_runs_cover_the_rows(lengths, data):
  index = Index(tuple(np.array(each) for each in lengths))
  total = sum(len(each) for each in lengths)
  rows = np.array(data.draw(st.lists(st.integers(0, total - 1), min_size=1, max_size=40)))
  runs = index.runs(rows)
  # What a reader would give: (shard, byte) of every record, run after run.
  read = []
  for shard, offset, records in zip(runs.shard, runs.offset, runs.records, strict=True):
    starts = np.cumsum([0, *(length + 16 for length in lengths[shard])])
    first = int(np.flatnonzero(starts == offset)[0])
    read += [(int(shard), int(start)) for start in starts[first : first + records]]
    assert first + records <= len(lengths[shard])
  wanted = [
    (shard, int(start))
    for shard, each in enumerate(lengths)
    for start in np.cumsum([0, *(length + 16 for length in each[:-1])])
  ]
  assert [read[place] for place in runs.index] == [wanted[row] for row in rows]


def test_the_arithmetic_needs_no_tensorflow():
  code = "import sys, taskmix.mixing.sampler, taskmix.mixing.windows; sys.exit('tensorflow' in sys.modules)"
  assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
