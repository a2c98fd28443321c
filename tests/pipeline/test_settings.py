"""Fields of a config are changed by their paths, with checked names and types."""

import pytest

from pipeline.config import load_config
from pipeline.configs import config_names
from pipeline.settings import apply, lines


@pytest.fixture(scope="module")
def demo():
  return load_config("demo")


@pytest.mark.parametrize("name", config_names())
def test_every_field_of_every_config_is_printed_as_it_can_be_set(name):
  config = load_config(name)
  assert apply(config, lines(config)) == config


@pytest.mark.parametrize(
  ("setting", "changed"),
  [
    ("keep_versions=3", ["keep_versions=3"]),
    ("pnet.train.steps=500", ["stages.pnet.training.steps=500"]),
    ("train.steps=500", [f"stages.{net}.training.steps=500" for net in ("pnet", "rnet", "onet")]),
    ("stages.*.training.steps=500", [f"stages.{net}.training.steps=500" for net in ("pnet", "rnet", "onet")]),
    ("onet.train.augment=mirror,hue", ["stages.onet.training.augment=mirror,hue"]),
    ("onet.train.augment=", ["stages.onet.training.augment="]),
    ("pnet.train.jit_compile=true", ["stages.pnet.training.jit_compile=true"]),
    ("pnet.net.recipe.side_range=0.9,1.1", ["stages.pnet.net.recipe.side_range=[0.9, 1.1]"]),
    ("pnet.net.tasks.face.bounds.accuracy.min=0.9", ["stages.pnet.net.tasks.face.bounds.accuracy.min=0.9"]),
    ("serving.warn=load,finite", ["serving.warn=load,finite"]),
    ("serving.server=loopback", ["serving.server=loopback"]),
  ],
)
def test_a_path_changes_what_it_means_and_nothing_else(demo, setting, changed):
  after = lines(apply(demo, [setting]))
  assert sorted(set(after) - set(lines(demo))) == sorted(changed)
  assert len(after) == len(lines(demo))


@pytest.mark.parametrize(
  ("setting", "message"),
  [
    ("trian.steps=5", "Config has no field 'trian'; did you mean train.steps?"),
    ("steps=5", "Config has no field 'steps'; did you mean train.steps?"),
    ("train.stepz=5", "Training has no field 'stepz'; did you mean steps?"),
    ("train.zzz=5", "Training has no field 'zzz'; there is batch_size, steps,"),
    ("pnet.net.tasks.fce.loss_weight=2", "there is no 'fce'; did you mean face?"),
    ("train.steps=5.5", "'5.5' is not a whole number"),
    ("train.jit_compile=maybe", "'maybe' is not true or false or none"),
    ("serving.server=there", "'there' is not one of 'auto', 'loopback'"),
    ("gate=5", "it has fields of its own: give one, such as gate.warn="),
    ("name.x=5", "name is demo and has no field 'x'"),
    ("train.batch_size=100", "multiple of 7: use 98 or 105"),
    ("train.steps=0", "steps must be 1 or more, not 0"),
    ("pnet.net.tasks.face.bounds.accuracy.min=none", "give min, max or both"),
    ("train.steps", "write FIELD=VALUE"),
    ('gate.drift=[{"colum": "kind"}]', "Limit has no field 'colum'; did you mean column?"),
  ],
)
def test_a_slip_is_told_with_what_is_near(demo, setting, message):
  with pytest.raises(ValueError) as told:  # noqa: PT011 - the message is looked at
    apply(demo, [setting])
  assert message in str(told.value)
  assert str(told.value).startswith(f"--set {setting}")


def test_the_later_setting_wins_and_what_goes_together_may_change_together(demo):
  settings = ["pnet.net.mixture.kinds.neg.share=4", "pnet.train.batch_size=64", "pnet.train.batch_size=80"]
  changed = apply(demo, settings)
  assert changed.stages[0].training.batch_size == 80
  assert changed.stages[0].net.mixture.counts(80) == {"neg": 40, "pos": 10, "part": 10, "landmark": 20}


def test_parts_may_be_given_as_json(demo):
  changed = apply(demo, ['gate.drift=[{"column": "kind", "divergence": 0.1}]'])
  assert changed.gate.drift[0].divergence == 0.1
