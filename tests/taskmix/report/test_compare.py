"""What changed from one run to another."""

import dataclasses

from taskmix.report import compare


def _found(before, after) -> dict[str, compare.Difference]:
  return {each.what: each for each in compare.compare(before, after)}


def test_equal_runs_do_not_differ(pushed):
  assert compare.compare(pushed, pushed) == ()
  assert compare.text(pushed, pushed).endswith("nothing differs")


def test_verdict_config_and_metrics_that_changed_are_told_with_their_direction(pushed, refused):
  found = _found(pushed, refused)
  assert (found["verdict"].before, found["verdict"].after) == ("Pushed", "Stopped by ModelGate-pnet")
  steps = found["stages[pnet].training.steps"]
  assert (steps.group, steps.before, steps.after) == ("config", "1500", "5")
  accuracy = found["pnet: face accuracy"]
  assert (accuracy.before, accuracy.after, accuracy.change) == ("0.858", "0.700", "-0.1580")
  assert accuracy.better is False
  assert found["average precision"].after == compare.page.NONE


def test_photos_that_came_went_or_changed_sides_are_named(pushed):
  (net,) = pushed.nets
  photos = dataclasses.replace(net.photos, listed={"photos/a.jpg": "eval 00ff", "photos/c.jpg": "train 02ff"})
  after = dataclasses.replace(pushed, nets=(dataclasses.replace(net, photos=photos),))
  found = _found(pushed, after)
  assert found["photos that are gone"].before == "1: photos/b.jpg"
  assert found["photos that are new"].after == "1: photos/c.jpg"
  assert found["photos that changed from train to held out, or back"].after == "1: photos/a.jpg"


def test_the_terminal_gets_a_table_a_group(pushed, refused):
  lines = compare.text(pushed, refused).splitlines()
  assert lines[0] == "demo 20261121-104549  ->  demo 20261121-120000"
  assert [line for line in lines if line in compare.GROUPS] == [
    "result",
    "config",
    "metrics",
    "detector",
    "model",
  ]
  (line,) = [line for line in lines if "pnet: face accuracy  " in line]
  assert line.split()[-4:] == ["0.858", "0.700", "-0.1580", "worse"]


def test_the_page_has_both_verdicts_and_the_losses_in_one_chart(pushed, refused):
  html = compare.render(pushed, refused)
  assert "Pushed" in html and "Stopped by ModelGate-pnet" in html
  assert "pnet face: loss on the held-out samples" in html
  assert "1500" in html


def test_members_of_lists_go_by_their_names():
  plain = {
    "stages": [{"net": {"name": "pnet", "tasks": [{"name": "face", "loss_weight": 1.0}]}}],
    "warn": ["a", "b"],
  }
  assert compare.flat(plain) == {
    "stages[pnet].net.name": "pnet",
    "stages[pnet].net.tasks[face].name": "face",
    "stages[pnet].net.tasks[face].loss_weight": "1.0",
    "warn": "a, b",
  }
