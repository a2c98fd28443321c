"""Configs are found by name or path and checked before anything runs."""

import dataclasses

import pytest

from pipeline.config import Config, config_names, load_config
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
  demo = load_config("demo")
  with pytest.raises(ValueError, match="multiple of 7: use 378 or 385"):
    dataclasses.replace(demo, training=Training(batch_size=384, steps=1))


def test_a_net_without_sources_is_refused():
  with pytest.raises(ValueError, match="has no sources"):
    Config(name="x", net=PNET, training=Training(batch_size=7, steps=1))


def test_a_kind_that_no_source_gives_is_refused():
  demo = load_config("demo")
  net = dataclasses.replace(demo.net, sources=demo.net.sources[:1])
  with pytest.raises(ValueError, match="no source gives the kind landmark"):
    dataclasses.replace(demo, net=net)
