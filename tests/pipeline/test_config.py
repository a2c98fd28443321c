"""Configs are found by name or path and checked before anything runs."""

import dataclasses

import pytest

from pipeline.config import Stage, load_config
from pipeline.configs import config_names
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Training


@pytest.mark.parametrize("name", config_names())
def test_every_config_that_comes_with_taskmix_loads(name):
  assert load_config(name).name == name


def test_an_unknown_config_names_the_nearest():
  with pytest.raises(ValueError, match="did you mean demo"):
    load_config("deno")


def test_a_config_of_ones_own_is_a_python_file(tmp_path):
  path = tmp_path / "mine.py"
  path.write_text(
    "import dataclasses\nfrom pipeline.configs.demo import CONFIG as DEMO\n"
    "CONFIG = dataclasses.replace(DEMO, name='mine')\n"
  )
  assert load_config(str(path)).name == "mine"


def test_a_file_without_a_config_says_what_to_define(tmp_path):
  path = tmp_path / "mine.py"
  path.write_text("")
  with pytest.raises(ValueError, match="must define CONFIG"):
    load_config(str(path))


def test_a_batch_that_cannot_hold_the_ratio_is_refused_on_the_launcher():
  (stage, *_) = load_config("demo").stages
  with pytest.raises(ValueError, match="multiple of 7: use 378 or 385"):
    dataclasses.replace(stage, training=Training(batch_size=384, steps=1))


def test_a_net_without_sources_is_refused():
  with pytest.raises(ValueError, match="'pnet' has no sources"):
    Stage(PNET, Training(batch_size=7, steps=1))


def test_a_kind_that_no_source_gives_is_refused():
  (stage, *_) = load_config("demo").stages
  net = dataclasses.replace(stage.net, sources=stage.net.sources[:1])
  with pytest.raises(ValueError, match="no source gives the kind landmark"):
    dataclasses.replace(stage, net=net)


def test_nets_of_one_name_or_too_many_stages_are_refused():
  demo = load_config("demo")
  with pytest.raises(ValueError, match="a name of its own"):
    dataclasses.replace(demo, stages=demo.stages[:1] * 2)
  with pytest.raises(ValueError, match="one to three stages, not 0"):
    dataclasses.replace(demo, stages=())


def test_a_part_of_a_config_ends_with_the_net_that_is_wanted():
  demo = load_config("demo")
  assert [stage.net.name for stage in demo.through("rnet")] == ["pnet", "rnet"]
  assert demo.through("") == demo.stages
  with pytest.raises(ValueError, match="no net 'qnet'; there is pnet, rnet, onet"):
    demo.through("qnet")
