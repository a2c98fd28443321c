"""Columns that moved by more than their limit are named; others are not."""

import dataclasses

import numpy as np
import pytest
import tensorflow_data_validation as tfdv

from taskmix.gates import GatePolicy, Limit
from taskmix.gates.drift import drift_findings, skew_findings
from taskmix.gates.policy import require_columns
from taskmix.nets.mtcnn import PNET

LIMITS = (Limit("face_size", 0.2), Limit("iou", 0.2))


def _statistics(face_sizes: np.ndarray):
  """Of a split whose faces have those sizes, and whose IoU is always spread alike."""
  import pandas

  rows = pandas.DataFrame(
    {
      "face_size": face_sizes.astype(np.float32),
      "iou": np.linspace(0.65, 1, len(face_sizes), dtype=np.float32),
      "kind": ["pos"] * len(face_sizes),
    }
  )
  return tfdv.generate_statistics_from_dataframe(rows)


@pytest.fixture(scope="module")
def small():
  return _statistics(np.linspace(20, 60, 400))


@pytest.fixture(scope="module")
def large():
  return _statistics(np.linspace(100, 300, 400))


def test_the_same_data_has_not_drifted(small):
  assert drift_findings(PNET, {"train-pos": small}, {"train-pos": small}, LIMITS) == []


def test_a_column_that_moved_is_named_with_its_split_and_by_how_much(small, large):
  (found,) = drift_findings(PNET, {"train-pos": large}, {"train-pos": small}, LIMITS)
  assert (found.type, found.split, found.feature) == ("DRIFT", "train-pos", "face_size")
  assert "0.2" in found.description and "Jensen-Shannon" in found.description


def test_columns_without_a_limit_are_not_compared(small, large):
  assert drift_findings(PNET, {"train-pos": large}, {"train-pos": small}, LIMITS[1:]) == []


def test_splits_that_the_earlier_run_had_not_are_not_compared(small, large):
  assert drift_findings(PNET, {"train-pos": large}, {"eval-pos": small}, LIMITS) == []


def test_train_and_eval_of_a_kind_that_differ_are_skewed(small, large):
  (found,) = skew_findings(PNET, {"train-pos": small, "eval-pos": large, "train-neg": large}, LIMITS)
  assert (found.type, found.split, found.feature) == ("SKEW", "eval-pos", "face_size")
  assert skew_findings(PNET, {"train-pos": small, "eval-pos": small}, LIMITS) == []


def test_a_limit_on_no_column_of_the_net_names_the_nearest():
  with pytest.raises(ValueError, match=r"'face_sise'.*did you mean face_size"):
    require_columns(GatePolicy(drift=(Limit("face_sise", 0.1),)), PNET)
  with pytest.raises(ValueError, match="'image'"):
    require_columns(GatePolicy(skew=(Limit("image", 0.1),)), PNET)


@pytest.mark.parametrize("divergence", [0, -1, 1.1])
def test_a_limit_outside_of_what_the_measure_gives_is_refused(divergence):
  with pytest.raises(ValueError, match="divergence must be in"):
    dataclasses.replace(LIMITS[0], divergence=divergence)
