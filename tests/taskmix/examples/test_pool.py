import os
import pathlib
import signal
import sys
import time

import pytest

from taskmix.examples import pool

# The children look where this process does.
sys.path.append(str(pathlib.Path(__file__).parent))
from pool_functions import die, double, raise_awkward, refuse_three, whoami


@pytest.mark.parametrize("processes", [1, 2])
def test_every_item_is_worked_on_once(processes):
  found = pool.fan_out(double, iter(range(20)), processes=processes)
  assert sorted(found) == [2 * number for number in range(20)]


@pytest.mark.parametrize("processes", [1, 2])
def test_what_the_function_raises_is_raised_here(processes):
  with pytest.raises(ValueError, match=r"^three is not allowed$"):
    list(pool.fan_out(refuse_three, range(8), processes=processes))


def test_an_error_that_cannot_be_pickled_keeps_its_name_and_message():
  with pytest.raises(RuntimeError, match="AwkwardError: this and that"):
    list(pool.fan_out(raise_awkward, [1], processes=2))


def test_a_killed_child_is_an_error_that_names_its_item():
  with pytest.raises(RuntimeError, match=rf"died \(exit status -{signal.SIGKILL:d}\) at 2$"):
    list(pool.fan_out(die, range(4), processes=2))


def test_children_kept_warm_serve_one_fan_out_after_another():
  with pool.kept_warm(2):
    first = set(pool.fan_out(whoami, range(8), processes=2))
    second = set(pool.fan_out(whoami, range(8), processes=2))
  assert os.getpid() not in first
  assert first == second


def test_children_end_with_the_fan_out():
  (child,) = set(pool.fan_out(whoami, [1], processes=2))
  with pytest.raises(ProcessLookupError):
    os.kill(child, 0)


def test_children_of_a_fan_out_that_was_left_standing_can_be_ended():
  """Its reader was interrupted outside of it: nobody has closed it yet."""
  left = pool.fan_out(time.sleep, [0, 600, 600], processes=2)
  next(left)
  began = time.monotonic()
  pool.end_all()
  with pytest.raises(RuntimeError, match="a worker process died"):
    next(left)
  assert time.monotonic() - began < 60
