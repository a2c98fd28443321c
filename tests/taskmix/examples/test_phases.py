"""Which photos train and which evaluate: by hash, by stratum, by group."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmix.examples.phases import EVAL, TRAIN, assign_phases, join_by_name
from taskmix.spec import Phases


def _assign(groups, *, share=0.25, strata=None, wanted=None):
  groups = np.array(groups)
  content = np.random.default_rng(0).integers(0, 2**63, len(groups)).astype(np.uint64)
  demands = np.full(len(groups), -1, np.int8) if wanted is None else np.array(wanted, np.int8)
  kinds = None if strata is None else np.array(strata)
  return assign_phases(groups, content, wanted=demands, eval_share=share, strata=kinds)


@given(
  sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4), share=st.sampled_from([0.0, 0.1, 0.25, 0.5])
)
def test_a_stratified_split_takes_the_share_of_every_kind_exactly(sizes, share):
  strata = np.repeat(np.arange(len(sizes)), sizes)
  phases = _assign(np.arange(len(strata)), share=share, strata=strata)
  for kind, size in enumerate(sizes):
    assert (phases[strata == kind] == EVAL).sum() == round(share * size)
  assert ((phases == EVAL) | (phases == TRAIN)).all()


@given(groups=st.lists(st.integers(0, 12), min_size=1, max_size=60), stratified=st.booleans())
def test_a_group_is_never_in_two_phases(groups, stratified):
  phases = _assign(groups, strata=np.zeros(len(groups), int) if stratified else None)
  for group in set(groups):
    assert len(set(phases[np.array(groups) == group])) == 1


def test_what_must_train_or_evaluate_does_so_and_the_share_is_of_the_rest():
  wanted = [EVAL] * 10 + [TRAIN] * 10 + [-1] * 20
  phases = _assign(range(40), strata=[0] * 40, wanted=wanted)
  assert (phases[:10] == EVAL).all()
  assert (phases[10:20] == TRAIN).all()
  assert (phases[20:] == EVAL).sum() == 5


def test_stratified_groups_come_near_the_share():
  phases = _assign(np.arange(100) // 5, share=0.25, strata=[0] * 100)
  assert (phases == EVAL).sum() == 25


def test_names_join_groups_and_copies_join_names():
  ids = ["ann/1.jpg", "ben/1.jpg", "ann/2.jpg", "cat/1.jpg", "ben/2.jpg"]
  assert join_by_name(np.arange(5), ids, "^([^/]+)/").tolist() == [0, 1, 0, 3, 1]
  # Cat's picture is Ben's: then they go together.
  assert join_by_name(np.array([0, 1, 2, 1, 4]), ids, "^([^/]+)/").tolist() == [0, 1, 0, 1, 1]
  assert join_by_name(np.array([0, 1, 2]), ids[:3], "").tolist() == [0, 1, 2]


def test_an_id_without_a_group_is_named():
  with pytest.raises(ValueError, match=r"finds nothing in the image id 'loose\.jpg'"):
    join_by_name(np.arange(2), ["ann/1.jpg", "loose.jpg"], "^([^/]+)/")


def test_a_broken_pattern_is_refused():
  with pytest.raises(ValueError, match="is no regular expression"):
    Phases(group="(")
