"""The spec's classes check themselves and survive JSON."""

import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from taskmix import spec
from taskmix.nets.mtcnn import MTCNN, PNET
from taskmix.spec import Column, Loss, Mixture, Net, SampleKind, Source, Task

RATIO = Mixture(
  (SampleKind("neg", 3), SampleKind("pos", 1), SampleKind("part", 1), SampleKind("landmark", 2))
)


def test_counts_are_exact_at_the_ratio():
  assert RATIO.counts(7) == {"neg": 3, "pos": 1, "part": 1, "landmark": 2}
  assert RATIO.counts(896) == {"neg": 384, "pos": 128, "part": 128, "landmark": 256}


@pytest.mark.parametrize(
  ("size", "advice"),
  [(384, "use 378 or 385"), (3, "use 7"), (0, "use 7"), (-5, "use 7")],
)
def test_a_batch_that_cannot_hold_the_ratio_names_the_nearest_that_can(size, advice):
  with pytest.raises(ValueError, match=advice):
    RATIO.counts(size)


@hypothesis.given(shares=st.lists(st.integers(1, 20), min_size=1, max_size=6), size=st.integers(-3, 500))
def test_counts_hold_the_ratio_or_refuse(shares, size):
  mixture = Mixture(tuple(SampleKind(f"k{i}", share) for i, share in enumerate(shares)))
  try:
    counts = mixture.counts(size)
  except ValueError:
    assert size < 1 or any(size * share % sum(shares) for share in shares)
  else:
    assert sum(counts.values()) == size
    assert all(counts[f"k{i}"] * sum(shares) == size * share for i, share in enumerate(shares))


@pytest.mark.parametrize("net", MTCNN.nets, ids=lambda net: net.name)
def test_json_gives_the_same_net_back(net):
  sourced = dataclasses.replace(
    net, sources=(Source("a", "wider_face", "x.txt", "x", ("neg",), (("width", 5), ("strict", True))),)
  )
  assert Net.from_json(sourced.to_json()) == sourced


def test_json_with_an_unknown_field_is_refused():
  with pytest.raises(ValueError, match="sharess"):
    Net.from_json(PNET.to_json().replace('"share"', '"sharess"'))


def test_splits_are_phase_by_kind():
  assert PNET.splits == (
    "train-neg",
    "train-pos",
    "train-part",
    "train-landmark",
    "eval-neg",
    "eval-pos",
    "eval-part",
    "eval-landmark",
  )
  assert spec.split_parts("eval-landmark") == ("eval", "landmark")


@pytest.mark.parametrize("split", ["train", "test-neg", "train-", "neg-train"])
def test_what_is_no_split_is_refused(split):
  with pytest.raises(ValueError, match="not a split"):
    spec.split_parts(split)


def test_a_task_with_an_unknown_kind_names_the_known_ones():
  task = dataclasses.replace(PNET.tasks[0], kinds=("neg", "positive"))
  with pytest.raises(ValueError, match=r"'positive'; the mixture has neg, pos, part, landmark"):
    dataclasses.replace(PNET, tasks=(task,))


@pytest.mark.parametrize(
  ("make", "message"),
  [
    (lambda: Column("a b", "int64"), "letters"),
    (lambda: Column("a", "float32", (0,)), "shape"),
    (lambda: Column("a", "float32", low=2, high=1), "above"),
    (lambda: Column("a", "float32", classes=("x",)), "classes"),
    (lambda: Column("a", "float32", (2,), slices=(1,)), "slices"),
    (lambda: Column("a", "string", slices=(1,)), "slices"),
    (lambda: Column("a", "float32", slices=(2, 1)), "rise"),
    (lambda: spec.Bound("m"), "give min, max"),
    (lambda: spec.Bound("m", min=0, max_worsening=-1), "max_worsening"),
    (lambda: SampleKind("a", 0), "share"),
    (lambda: SampleKind("a", 1, 0.5), "both"),
    (lambda: SampleKind("a", 1, 0.7, 0.5), "max_iou"),
    (lambda: Mixture(()), "at least one"),
    (lambda: Mixture((SampleKind("a", 1), SampleKind("a", 2))), "twice: a"),
    (lambda: Loss("x", keep_hardest=0), "keep_hardest"),
    (lambda: Task("t", Column("y", "uint8"), ("a",), Loss("x")), "target"),
    (lambda: Task("t", Column("y", "int64"), ("a",), Loss("x")), "classes"),
    (lambda: Task("t", Column("y", "float32"), (), Loss("x")), "kind"),
    (
      lambda: Task("t", Column("y", "float32"), ("a",), Loss("x"), bounds=(spec.Bound("m", min=1),)),
      "bounds",
    ),
    (lambda: spec.Conversion(shards=-1), "shards"),
    (lambda: spec.Training(batch_size=0, steps=1), "batch_size"),
  ],
)
def test_a_value_that_makes_no_sense_is_refused_at_once(make, message):
  with pytest.raises(ValueError, match=message):
    make()


def test_slices_are_named_by_their_edges():
  assert Column("a", "float32", slices=(20, 40.5)).slice_names == ("under 20", "20 to 40.5", "40.5 and over")
  assert Column("a", "float32").slice_names == ()


def test_worse_is_lower_unless_only_a_maximum_is_given():
  assert spec.Bound("accuracy", min=0.8, max=1).worsening(0.75, 0.8) == pytest.approx(0.05)
  assert spec.Bound("error", max=0.2).worsening(0.75, 0.8) == pytest.approx(-0.05)


@pytest.mark.parametrize(
  ("bound", "held", "broken"),
  [
    (spec.Bound("m", min=0.5), (0.5, 1.0), (0.49, float("nan"))),
    (spec.Bound("m", max=0.5), (0.5, -1.0), (0.51, float("nan"))),
    (spec.Bound("m", min=0.2, max=0.5), (0.2, 0.5), (0.19, 0.51)),
  ],
)
def test_a_bound_holds_up_to_its_limits(bound, held, broken):
  assert all(bound.holds(value) for value in held)
  assert not any(bound.holds(value) for value in broken)
