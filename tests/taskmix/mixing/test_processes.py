"""Python functions in other processes: order, seed, errors, killed workers, shutdown."""

import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from taskmix.mixing.processes import PythonMapError, python_map


def _gone(pid: int) -> bool:
  """Whether the process ends within a few seconds."""
  for _ in range(200):
    try:
      os.kill(pid, 0)
      if "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]:
        return True
    except (ProcessLookupError, FileNotFoundError):
      return True
    time.sleep(0.05)
  return False


def _open_files() -> int:
  return len(os.listdir("/proc/self/fd"))


def test_results_come_in_order_whoever_is_faster():
  def slow_when_even(number):
    time.sleep(0.05 if number % 2 == 0 else 0)
    return number, os.getpid()

  made = list(python_map(slow_when_even, range(20), workers=3))
  assert [number for number, _ in made] == list(range(20))
  processes = {pid for _, pid in made}
  assert len(processes) == 3
  assert os.getpid() not in processes


def test_random_numbers_hang_on_seed_and_sample_alone():
  def draw(sample, rng):
    return sample, rng.integers(1 << 30)

  one = list(python_map(draw, "abcdefgh", workers=1, seed=7))
  assert list(python_map(draw, "abcdefgh", workers=3, seed=7)) == one
  assert list(python_map(draw, "efgh", workers=2, seed=7, start=4)) == one[4:]
  assert list(python_map(draw, "abcdefgh", workers=1, seed=8)) != one


def test_any_structure_goes_there_and_back_with_arrays_of_ones_own():
  image = np.arange(300 * 200 * 3, dtype=np.uint8).reshape(300, 200, 3)  # larger than a slot at first
  sample = {
    "image": image,
    "turned": image.transpose(1, 0, 2),
    "strided": image[::2],
    "name": "ä",
    "box": None,
  }

  def back(sample):
    return [sample, (sample["image"].astype(np.float64) * 2, np.array([], np.int32), np.array("x"))]

  for got, (doubled, empty, text) in python_map(back, [sample] * 5, workers=2, ahead=1):
    np.testing.assert_equal(got, sample)
    np.testing.assert_array_equal(doubled, image * 2.0)
    assert empty.shape == (0,)
    assert text == "x"
    got["image"][:] = 0  # writable, and nobody else's
  assert image.any()


def test_an_exception_comes_in_its_turn_with_the_sample_s_name():
  def fussy(sample):
    if sample["file"] == "c.jpg":
      raise KeyError("no caption")
    return sample["file"]

  samples = [{"file": f"{letter}.jpg"} for letter in "abcd"]
  made = python_map(fussy, samples, workers=2, name=lambda sample: sample["file"], start=10)
  assert [next(made), next(made)] == ["a.jpg", "b.jpg"]
  with pytest.raises(PythonMapError, match=r"sample 12 \(c\.jpg\): KeyError: 'no caption'") as caught:
    next(made)
  assert isinstance(caught.value.__cause__, KeyError)
  assert "in fussy" in str(caught.value)  # the worker's own stack trace


def test_an_exception_that_cannot_travel_is_told_in_words():
  class Odd(Exception):
    def __init__(self, one, two):
      super().__init__(f"{one} and {two}")

  def fails(sample):
    raise Odd(sample, "more")

  with pytest.raises(PythonMapError, match=r"sample 0 .*Odd: 1 and more"):
    list(python_map(fails, [1], workers=1))


def test_what_pickle_cannot_carry_is_named():
  with pytest.raises(PythonMapError, match=r"sample 1 .*pickle"):
    list(python_map(lambda number: threading.Lock() if number else 0, range(2), workers=1))
  with pytest.raises(PythonMapError, match=r"sample 0 .*pickle cannot carry it"):
    list(python_map(len, [threading.Lock()], workers=1))


def test_samples_that_fail_to_come_raise_after_those_that_came():
  def samples():
    yield from range(3)
    raise OSError("disk gone")

  made = python_map(lambda number: number, samples(), workers=2)
  assert list(itertools.islice(made, 3)) == [0, 1, 2]
  with pytest.raises(OSError, match="disk gone"):
    next(made)


def test_a_killed_worker_is_replaced_and_its_samples_are_done_again(tmp_path):
  def dies_once(number, rng):
    marker = tmp_path / str(number)
    if number in (3, 4, 11) and not marker.exists():
      marker.touch()
      os.kill(os.getpid(), signal.SIGKILL)
    return number, rng.integers(1 << 30)

  expected = list(python_map(lambda number, rng: (number, rng.integers(1 << 30)), range(20), 1, seed=1))
  assert list(python_map(dies_once, range(20), workers=2, seed=1)) == expected


def test_workers_killed_from_outside_are_replaced():
  made = python_map(lambda number: (number, os.getpid()), range(200), workers=2)
  seen = [next(made)]
  for _ in range(3):
    os.kill(seen[-1][1], signal.SIGKILL)
    seen += itertools.islice(made, 40)
  seen += made
  assert [number for number, _ in seen] == list(range(200))
  assert len({pid for _, pid in seen}) > 2


def test_a_sample_that_kills_every_worker_is_named():
  def poisonous(number):
    if number == 2:
      os._exit(9)
    return number

  made = python_map(poisonous, range(6), workers=2)
  assert [next(made), next(made)] == [0, 1]
  with pytest.raises(
    PythonMapError, match=r"sample 2 \(2\): it ended 3 workers, the last with exit status 9"
  ):
    next(made)


def test_samples_are_taken_only_as_far_as_there_is_room():
  taken = []

  def samples():
    for number in itertools.count():
      taken.append(number)
      yield number

  made = python_map(lambda number: number, samples(), workers=2, ahead=3)
  for number in range(50):
    assert next(made) == number
    assert len(taken) - number <= 2 * 2 * 3
  made.close()


@pytest.mark.parametrize("end", ["close", "drop", "error"])
def test_nothing_is_left_behind(end):
  before = _open_files()
  made = python_map(lambda number: (os.getpid(), 1 // (30 - number)), range(99), workers=2)
  processes = {next(made)[0] for _ in range(12)}
  if end == "close":
    made.close()
  elif end == "error":
    with pytest.raises(PythonMapError):
      list(made)
  del made
  assert all(_gone(pid) for pid in processes)
  assert _open_files() == before


# A script without `if __name__ == "__main__"`, and a function of its own.
_SCRIPT = """
import itertools, os, time
from taskmix.mixing import python_map

class Row:
  pass

def f(number):
  Row()
  print("said by a worker")
  return os.getpid()

made = python_map(f, itertools.count(), workers=2)
print(*{next(made) for _ in range(20)}, flush=True)
time.sleep(60)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path):
  (tmp_path / "script.py").write_text(_SCRIPT)
  with subprocess.Popen(
    [sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, text=True
  ) as script:
    assert script.stdout
    processes = [int(pid) for pid in script.stdout.readline().split()]
    script.kill()
  assert len(processes) == 2
  assert all(_gone(pid) for pid in processes)


def test_results_can_come_stacked_in_batches():
  def make(number, rng):
    return {
      "x": np.full(2, number, np.float32),
      "pair": (number, [str(number)]),
      "drawn": rng.integers(1 << 30),
    }

  single = list(python_map(make, range(10), workers=2, seed=3))
  batches = list(python_map(make, range(10), workers=2, seed=3, batch=4))
  assert [batch["x"].shape for batch in batches] == [(4, 2), (4, 2), (2, 2)]
  np.testing.assert_array_equal(batches[1]["pair"][0], [4, 5, 6, 7])
  assert batches[1]["pair"][1][0].tolist() == ["4", "5", "6", "7"]
  drawn = np.concatenate([batch["drawn"] for batch in batches])
  assert drawn.tolist() == [each["drawn"] for each in single]


def test_a_failure_in_a_batch_names_its_sample():
  made = python_map(lambda number: 1 / (6 - number), range(8), workers=1, batch=4)
  assert len(next(made)) == 4
  with pytest.raises(PythonMapError, match=r"^sample 6 \(6\): ZeroDivisionError"):
    next(made)


def test_a_batch_that_cannot_be_stacked_is_said():
  with pytest.raises(PythonMapError, match=r"sample 0 .*ValueError: .*different keys than \['a'\]"):
    list(python_map(lambda number: {"ab"[number]: 1}, range(2), workers=1, batch=2))


def test_settings_that_make_no_sense_are_refused_at_once():
  with pytest.raises(ValueError, match="ahead must be 1 or more, not 0"):
    python_map(len, [], workers=1, ahead=0)
  with pytest.raises(ValueError, match="workers must be 0 or more, not -1"):
    python_map(len, [], workers=-1)


def test_no_samples_give_no_results():
  assert list(python_map(len, [], workers=2)) == []


def test_it_feeds_a_dataset():
  def made():
    return python_map(lambda number: {"x": np.full(3, number, np.float32)}, range(10), workers=2)

  signature = {"x": tf.TensorSpec((3,), tf.float32)}
  batches: Any = tf.data.Dataset.from_generator(made, output_signature=signature).batch(4)
  for _ in range(2):  # every pass starts anew
    got = np.concatenate([batch["x"][:, 0] for batch in batches])
    np.testing.assert_array_equal(got, np.arange(10))
