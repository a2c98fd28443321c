import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.mixing.audit import Audit, ContractError
from taskmix.mixing.sampler import Sampler

SAMPLER = Sampler.of({"neg": 6, "pos": 2}, {"neg": 40, "pos": 7}, seed=3)
BLOCKS = [SAMPLER.block(number).row for number in range(6)]


def _audit(rows, *, start=0, first=0):
  audit = Audit()
  audit.bind(SAMPLER, start_step=start)
  audit.see(first, rows)
  return audit


def _rows(steps=64):
  return BLOCKS[0][:steps].copy()


def test_a_kept_contract_is_reported():
  report = _audit(_rows()).report(steps=50)
  assert report["kinds"]["neg"] == {
    "wanted": 6,
    "min": 6,
    "max": 6,
    "size": 40,
    "epochs": 7.5,
    "coverage": 1.0,
    "duplicates": 0,
    "strangers": 0,
  }
  assert report["kinds"]["pos"]["epochs"] == round(100 / 7, 4)
  _audit(_rows()).require(steps=50)


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 60), steps=st.integers(0, 200), data=st.data())
def test_any_start_and_any_blocks_keep_the_contract(start, steps, data):
  audit = Audit()
  audit.bind(SAMPLER, start_step=start)
  for number in range(start // 64, (start + steps) // 64 + 1):
    block, cut = BLOCKS[number], data.draw(st.integers(1, 63))
    audit.see(number * 64, block[:cut])
    audit.see(number * 64 + cut, block[cut:])
  audit.require(steps=start + steps)
  for name, kind in audit.report(steps=start + steps)["kinds"].items():
    assert kind["epochs"] == round(steps * {"neg": 6 / 40, "pos": 2 / 7}[name], 4)


def test_an_example_that_comes_twice_is_found():
  rows = _rows()
  neg = np.flatnonzero(rows[0] < 40)
  rows[0, neg[0]] = rows[0, neg[1]]
  with pytest.raises(ContractError, match=r"'neg': 1 examples came twice in an epoch; kind 'neg': an"):
    _audit(rows).require(steps=64)


def test_a_wrong_count_is_found():
  rows = _rows()
  rows[5, np.flatnonzero(rows[5] < 40)[0]] = 46
  with pytest.raises(ContractError, match=r"'neg': 5 to 6 a batch, not 6.*'pos': 2 to 3 a batch, not 2"):
    _audit(rows).require(steps=64)


def test_steps_that_were_never_drawn_are_found():
  with pytest.raises(ContractError, match="10 steps were drawn, 20 were trained"):
    _audit(_rows(10)).require(steps=20)


def test_what_was_drawn_ahead_is_not_counted():
  audit = _audit(_rows())
  assert audit.report(steps=10)["kinds"]["neg"]["epochs"] == 1.5
  assert audit.report(steps=20)["kinds"]["neg"]["epochs"] == 3.0


def test_json_is_that_of_the_report():
  audit = _audit(_rows())
  assert json.loads(audit.to_json(steps=8)) == audit.report(steps=8)


def test_one_audit_a_dataset():
  audit = _audit(_rows())
  with pytest.raises(ValueError, match="one Audit a dataset"):
    audit.bind(SAMPLER, start_step=0)
