"""The lines of a run: drawn on a terminal, written in a file."""

import io

import pytest

from pipeline.progress import Lines, duration, text
from taskmix.progress import Progress, tell


class Clock:
  now = 0.0

  def __call__(self) -> float:
    return self.now


@pytest.fixture
def clock():
  return Clock()


TRAINING = Progress(600, 1500, "steps", 10.0, {"face": 0.21339, "box": 0.0312, "examples/s": 4480.0})


def test_a_training_tells_counts_rate_time_left_and_a_loss_a_task():
  assert text(TRAINING) == ("600 of 1,500 steps, 4,480 examples/s, 1 min 30 s left; face 0.2134 box 0.0312")
  assert text(TRAINING, over=True) == "600 steps, 4,480 examples/s; face 0.2134 box 0.0312"


def test_what_is_not_known_is_not_told():
  assert text(Progress(7, 0, "photos")) == "7 photos"


@pytest.mark.parametrize(
  ("seconds", "words"), [(0, "0 s"), (59.4, "59 s"), (125, "2 min 5 s"), (12_000, "3 h 20 min")]
)
def test_durations(seconds, words):
  assert duration(seconds) == words


def test_a_file_gets_a_line_a_component_and_one_every_half_minute(clock):
  stream = io.StringIO()
  with Lines(stream, clock=clock, live=False) as lines:
    lines.say("taskmix run demo")
    lines.began("Trainer-pnet")
    tell(TRAINING)
    for now in (10.0, 31.0, 45.0):
      clock.now = now
      lines.look()
    clock.now = 50.0
    lines.ended("done")
  assert stream.getvalue().splitlines() == [
    "taskmix run demo",
    f"  Trainer-pnet                 running       31.0 s   {text(TRAINING)}",
    f"  Trainer-pnet                 done          50.0 s   {text(TRAINING, over=True)}",
  ]


@pytest.mark.parametrize("columns", [1, 8])
def test_a_terminal_of_hardly_any_width_stops_no_run(clock, monkeypatch, columns):
  monkeypatch.setattr("pipeline.progress._width", lambda stream: columns)
  stream = io.StringIO()
  with Lines(stream, clock=clock, live=True) as lines:
    lines.began("Trainer-pnet")
    tell(TRAINING)
    lines.look()
  assert "1,500" in stream.getvalue()


def test_a_long_name_moves_the_columns_of_all(clock):
  stream = io.StringIO()
  with Lines(stream, clock=clock, live=False) as lines:
    lines.expect(["Trainer-cifar10_cnn", "latest_blessed_model-cifar10_cnn"])
    for name in ("Trainer-cifar10_cnn", "latest_blessed_model-cifar10_cnn"):
      lines.began(name)
      lines.ended("done", told="whole")
  first, second = stream.getvalue().splitlines()
  assert first.index("done") == second.index("done") and first.index("whole") == second.index("whole")


def test_a_terminal_gets_the_line_drawn_anew(clock):
  stream = io.StringIO()
  with Lines(stream, clock=clock, live=True) as lines:
    lines.began("Trainer-pnet")
    lines.ended("from cache", seconds=0.5)
  drawn = stream.getvalue()
  assert drawn.startswith("\r\x1b[2K  Trainer-pnet                 running")
  assert drawn.endswith("\r\x1b[2K  Trainer-pnet                 from cache     0.5 s\n")


def test_a_narrow_terminal_has_what_is_told_below_the_name_and_wipes_all_of_it(clock, monkeypatch):
  monkeypatch.setattr("pipeline.progress._width", lambda stream: 40)
  stream = io.StringIO()
  with Lines(stream, clock=clock, live=True) as lines:
    lines.began("Trainer-pnet")
    tell(TRAINING)
    lines.look()
    drawn = stream.getvalue().rpartition("\r\x1b[2K")[2].splitlines()
    assert drawn == [
      "  Trainer-pnet                 running ",
      "      600 of 1,500 steps, 4,480",
      "      examples/s, 1 min 30 s left; face",
      "      0.2134 box 0.0312",
    ]
    lines.ended("done", told="1,500 steps")
  wiped = "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (len(drawn) - 1)
  assert stream.getvalue().endswith(
    f"{wiped}  Trainer-pnet                 done           0.0 s   1,500 steps\n"
  )


@pytest.mark.parametrize("live", [True, False])
def test_what_passes_leaves_no_line(clock, live):
  stream = io.StringIO()

  def work():
    with Lines(stream, clock=clock, live=live) as lines:
      lines.began("Loading TFX", passing=True)
      raise ValueError("no such photo")

  with pytest.raises(ValueError, match="no such photo"):
    work()
  told = stream.getvalue()
  if live:
    assert "Loading TFX" in told and told.endswith("\r\x1b[2K")
  else:
    assert told == ""


@pytest.mark.parametrize(("error", "state"), [(KeyboardInterrupt(), "stopped"), (ValueError("x"), "failed")])
def test_a_component_that_ends_badly_has_its_line_too(clock, error, state):
  stream = io.StringIO()

  def work():
    with Lines(stream, clock=clock, live=False) as lines:
      lines.began("Transform-pnet")
      raise error

  with pytest.raises(type(error)):
    work()
  assert stream.getvalue() == f"  Transform-pnet               {state:<11}    0.0 s\n"


def test_nothing_is_heard_when_it_is_over(clock):
  stream = io.StringIO()
  with Lines(stream, clock=clock, live=False):
    pass
  tell(TRAINING)
  assert stream.getvalue() == ""
