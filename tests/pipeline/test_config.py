"""Configs are found by name or path and checked before anything runs."""

import dataclasses
import sys

import pytest

from pipeline.config import Stage, load_config, schema_path
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


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("from taskmix.spec import Training\n\nTraining(batch_size=7, stepz=5)\n", ":3: Training has no field"),
    ("CONFIG = 1 +\n", ":1: SyntaxError"),
    ("import no_such_module\n", ":1: ModuleNotFoundError: No module named 'no_such_module'"),
    ("from taskmix.spec import Training\nTraining(batch_size=0, steps=5)\n", ":2: batch_size must be 1"),
  ],
)
def test_what_is_wrong_in_a_config_file_is_told_with_its_line(tmp_path, text, message):
  path = tmp_path / "mine.py"
  path.write_text(text)
  with pytest.raises(ValueError, match=r"mine\.py") as told:
    load_config(str(path))
  assert message in str(told.value)


def test_an_unknown_field_of_a_config_file_names_the_nearest(tmp_path):
  path = tmp_path / "mine.py"
  path.write_text("from taskmix.spec import Training\nTraining(batch_size=7, stepz=5)\n")
  with pytest.raises(ValueError, match="did you mean steps"):
    load_config(str(path))


def test_a_config_file_imports_what_lies_beside_it(tmp_path, monkeypatch):
  monkeypatch.setattr("sys.path", [*sys.path])
  (tmp_path / "steps_of_mine.py").write_text("STEPS = 5\n")
  path = tmp_path / "mine.py"
  path.write_text("from steps_of_mine import STEPS\nfrom pipeline.configs.demo import CONFIG\n")
  assert load_config(str(path)).name == "demo"


def test_settings_apply_to_what_is_loaded():
  assert load_config("cifar10", ["train.steps=7"]).stages[0].training.steps == 7


def test_schemas_lie_where_the_config_says():
  demo = load_config("demo")
  assert schema_path(demo, demo.nets[0]).parts[-2:] == ("schemas", "pnet.pbtxt")
  assert str(schema_path(dataclasses.replace(demo, schemas="/mine"), demo.nets[0])) == "/mine/pnet.pbtxt"
