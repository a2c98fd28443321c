"""One namespace of finding types; each stops, warns or passes as the config says."""

import pathlib

import pytest

from taskmix.gates import Finding, GateError, GatePolicy, raise_on_stop
from taskmix.gates.policy import OWN_TYPES, types
from taskmix.spec import from_json, to_json

TFDV = Finding("FLOAT_TYPE_BIG_FLOAT", "train-pos", "iou", "values above 1")
OURS = Finding("EYES_SWAPPED", "train-landmark", "landmarks", "3 of 9", count=9, names=tuple("abcdefghi"))


def test_everything_stops_unless_the_policy_says_otherwise():
  assert [finding.severity for finding in GatePolicy().judge([TFDV, OURS])] == ["stop", "stop"]


@pytest.mark.parametrize("finding", [TFDV, OURS])
def test_a_warning_stays_in_the_report_and_lets_the_run_pass(finding):
  (judged,) = GatePolicy(warn=(finding.type,)).judge([finding])
  assert judged.severity == "warn"
  raise_on_stop("ExampleGate", [judged], "")


@pytest.mark.parametrize("finding", [TFDV, OURS])
def test_what_is_allowed_is_not_even_reported(finding):
  assert GatePolicy(allow=(finding.type,)).judge([finding]) == []


@pytest.mark.parametrize(
  ("wrong", "nearest"),
  [
    ("FLOAT_TYPE_BIGFLOAT", "FLOAT_TYPE_BIG_FLOAT"),
    ("eyes_swaped", "EYES_SWAPPED"),
    ("NEAR_DUPLICATES", "NEAR_DUPLICATE_IN_TWO_PHASES"),
  ],
)
def test_an_unknown_type_is_refused_with_the_nearest(wrong, nearest):
  with pytest.raises(ValueError, match=f"'{wrong}'; did you mean {nearest}"):
    GatePolicy(warn=(wrong,))


def test_a_type_like_none_lists_ours():
  with pytest.raises(ValueError, match=r"ours are .*POINT_OUTSIDE_CROP"):
    GatePolicy(allow=("zzz",))


def test_a_type_cannot_both_warn_and_pass():
  with pytest.raises(ValueError, match="EYES_SWAPPED: either"):
    GatePolicy(warn=("EYES_SWAPPED",), allow=("EYES_SWAPPED",))


def test_a_negative_sample_is_refused():
  with pytest.raises(ValueError, match="examples_per_split must be 0 or more, not -1"):
    GatePolicy(examples_per_split=-1)


def test_a_policy_survives_json():
  policy = GatePolicy(warn=("EYES_SWAPPED",), examples_per_split=10)
  assert from_json(GatePolicy, to_json(policy)) == policy


def test_our_types_and_those_of_tfdv_do_not_clash():
  from tensorflow_metadata.proto.v0 import anomalies_pb2

  assert len(types()) == len(OWN_TYPES) + len(anomalies_pb2.AnomalyInfo.Type.keys())


def test_the_message_shows_the_first_names_and_how_many_more():
  with pytest.raises(GateError) as error:
    raise_on_stop("ExampleGate", [OURS], "/runs/x")
  lines = str(error.value).splitlines()
  assert lines[0] == "ExampleGate stopped the run: 1 finding"
  assert [line.strip() for line in lines[2:8]] == [*"abcde", "and 4 more"]


def test_the_documentation_lists_every_type_of_ours():
  page = (pathlib.Path(__file__).parents[3] / "docs" / "gates.md").read_text()
  assert [name for name, words in OWN_TYPES.items() if f"| `{name}` | {words} |" not in page] == []
