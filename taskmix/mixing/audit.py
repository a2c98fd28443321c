"""What was really drawn, held against the contract."""

import collections
import dataclasses
import json

import numpy as np

from taskmix.mixing.sampler import Sampler

# Steps seen but not yet counted: a pipeline draws some ahead of the training loop.
_PENDING_STEPS = 192


class ContractError(RuntimeError):
  """The batches broke the ratio contract."""


class Audit:
  """Counts the rows that a feed gathered by, as they are drawn.

  >>> audit = Audit()
  >>> batches = mixing.dataset(..., audit=audit)
  >>> ...  # train
  >>> audit.require(steps=trained)
  >>> path.write_text(audit.to_json(steps=trained))

  For one pass over one dataset: a second iterator would draw the same batches
  again, which counts as duplicates.
  """

  def __init__(self) -> None:
    self._sampler: Sampler | None = None
    self._start = self._next = 0
    self._pending: collections.deque[tuple[int, np.ndarray]] = collections.deque()
    self._kinds: list[_KindAudit] = []

  def bind(self, sampler: Sampler, *, start_step: int) -> None:
    """Called by the feed that it audits.

    Raises:
      ValueError: if it audits another feed already.
    """
    if self._sampler is not None:
      raise ValueError("this audit has a feed already; make one Audit a dataset")
    self._sampler, self._start, self._next = sampler, start_step, start_step
    self._kinds = [
      _KindAudit(name, count, size, base, start_step * count)
      for name, count, size, base in zip(
        sampler.names, sampler.counts, sampler.sizes, sampler.bases, strict=True
      )
    ]

  def see(self, first_step: int, rows: np.ndarray) -> None:
    """Takes note of the rows of steps first_step .. first_step + n - 1, int [n, batch]."""
    self._pending.append((first_step, np.asarray(rows)))
    while sum(len(rows) for _, rows in self._pending) - len(self._pending[0][1]) >= _PENDING_STEPS:
      self._count(*self._pending.popleft())

  def report(self, *, steps: int) -> dict:
    """The steps start .. steps - 1, as the training loop took them.

    Args:
      steps: the step after the last one that was trained.

    Returns:
      JSON-able: first_step, steps, and a kind: wanted, min and max (counts in a
      batch), size, epochs (whole and part), coverage (share of the examples drawn
      in each epoch seen whole, the least), duplicates (within an epoch), strangers
      (rows outside of the kind).
    """
    while self._pending and self._pending[0][0] < steps:
      first, rows = self._pending.popleft()
      self._count(first, rows[: steps - first])
      if first + len(rows) > steps:
        self._pending.appendleft((steps, rows[steps - first :]))
    kinds = {kind.name: kind.report() for kind in self._kinds}
    return {"first_step": self._start, "steps": self._next, "asked": steps, "kinds": kinds}

  def to_json(self, *, steps: int) -> str:
    return json.dumps(self.report(steps=steps), indent=2, sort_keys=True)

  def broken(self, *, steps: int) -> list[str]:
    """What breaks the contract, in words; empty where nothing does."""
    report = self.report(steps=steps)
    faults = []
    if report["steps"] != steps:
      faults.append(f"{report['steps'] - self._start} steps were drawn, {steps - self._start} were trained")
    for name, kind in report["kinds"].items():
      faults += [f"kind {name!r}: {fault}" for fault in _faults(kind, drawn=self._next > self._start)]
    return faults

  def require(self, *, steps: int) -> None:
    """Raises ContractError if the contract was broken."""
    if faults := self.broken(steps=steps):
      raise ContractError("the batches broke the ratio contract: " + "; ".join(faults))

  def _count(self, first: int, rows: np.ndarray) -> None:
    """Counts the steps from `first` on, of which those before the start were never given."""
    sampler = self._sampler
    if sampler is None:
      raise ValueError("this audit has no feed; pass it to mixing.dataset(audit=...)")
    rows = rows[max(self._start - first, 0) :]
    first = max(self._start, first)
    if not len(rows):
      return
    steps = np.arange(first, first + len(rows))
    kind, place = (column[steps % sampler.block_steps] for column in sampler.layout)
    for number, each in enumerate(self._kinds):
      drawn = (rows >= each.base) & (rows < each.base + each.size)
      each.count(drawn.sum(axis=1))
      mine = kind == number
      order = np.argsort((steps[:, None] * each.wanted + place)[mine], kind="stable")
      each.draw(rows[mine][order] - each.base)
    self._next = first + len(rows)


@dataclasses.dataclass
class _KindAudit:
  """One kind's account.

  Attributes:
    position: the next place of the kind's endless sequence.
    seen: bool [size], drawn in the current epoch.
    whole: whether the current epoch was seen from its start.
  """

  name: str
  wanted: int
  size: int
  base: int
  position: int
  least: int | None = None
  most: int | None = None
  duplicates: int = 0
  strangers: int = 0
  coverage: float | None = None

  def __post_init__(self) -> None:
    self.first = self.position
    self.seen = np.zeros(self.size, bool)
    self.whole = self.position % self.size == 0

  def count(self, counts: np.ndarray) -> None:
    least, most = int(counts.min()), int(counts.max())
    self.least = least if self.least is None else min(self.least, least)
    self.most = most if self.most is None else max(self.most, most)

  def draw(self, examples: np.ndarray) -> None:
    """The next examples of the sequence, in its order; int [n] within the kind."""
    inside = (examples >= 0) & (examples < self.size)
    self.strangers += int((~inside).sum())
    while len(examples):
      left = self.size - self.position % self.size
      self._mark(examples[:left][inside[:left]])
      self.position += min(left, len(examples))
      examples, inside = examples[left:], inside[left:]
      if self.position % self.size == 0:
        self._end_epoch()

  def _mark(self, examples: np.ndarray) -> None:
    once = np.unique(examples)
    self.duplicates += len(examples) - len(once) + int(self.seen[once].sum())
    self.seen[once] = True

  def _end_epoch(self) -> None:
    if self.whole:
      covered = float(self.seen.mean())
      self.coverage = covered if self.coverage is None else min(self.coverage, covered)
    self.seen[:] = False
    self.whole = True

  def report(self) -> dict:
    return {
      "wanted": self.wanted,
      "min": self.least,
      "max": self.most,
      "size": self.size,
      "epochs": round((self.position - self.first) / self.size, 4),
      "coverage": self.coverage,
      "duplicates": self.duplicates,
      "strangers": self.strangers,
    }


def _faults(kind: dict, *, drawn: bool) -> list[str]:
  faults = []
  if drawn and not kind["min"] == kind["max"] == kind["wanted"]:
    faults.append(f"{kind['min']} to {kind['max']} a batch, not {kind['wanted']}")
  if kind["duplicates"]:
    faults.append(f"{kind['duplicates']} examples came twice in an epoch")
  if kind["strangers"]:
    faults.append(f"{kind['strangers']} slots held another kind's examples")
  if kind["coverage"] not in (None, 1.0):
    faults.append(f"an epoch covered only {kind['coverage']:.4f} of {kind['size']} examples")
  return faults
