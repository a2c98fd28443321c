"""The lines that end a run say what came of it."""

import dataclasses

import pytest

from pipeline import summary
from pipeline.run import _explain
from pipeline.summary import NetSummary, Summary
from taskmix.gates import GateError
from taskmix.nets.mtcnn import PNET

NET = NetSummary(
  PNET,
  counts=dict.fromkeys(PNET.splits, 1200),
  metrics={"face": {"accuracy": 0.93, "auc": 0.98}, "box": {"mean_absolute_error": 0.0712}},
)
GOOD = Summary(
  nets=(NET,),
  blessed=True,
  reasons=(),
  warnings=(),
  pushed="/runs/demo/serving/pnet/17",
  seconds=125.2,
  log="/runs/demo/logs/x.log",
)


def test_a_good_run_shows_counts_metrics_bounds_and_where_the_model_is():
  lines = summary.text(GOOD)
  assert "neg                    1,200     1,200   share 3 of 7" in lines
  assert "accuracy                  0.9300   must be at least 0.8" in lines
  assert "Blessed" in lines
  assert "saved_model_cli show --dir /runs/demo/serving/pnet/17" in lines
  assert "Took 2 min 5 s" in lines
  reported = summary.text(dataclasses.replace(GOOD, report="/runs/demo/report.html"))
  assert "Report:  /runs/demo/report.html" in reported


def test_a_refused_run_ends_with_the_gate_the_number_its_bound_and_where_to_look():
  refused = dataclasses.replace(
    GOOD,
    blessed=False,
    pushed="",
    reasons=("Evaluator-pnet: face accuracy is 0.7000, must be at least 0.8",),
    look_at=("/runs/demo/artifacts/Evaluator-pnet/evaluation/9",),
  )
  lines = summary.text(refused)
  assert lines.splitlines()[-3:] == [
    "Not blessed, so not pushed:",
    "  Evaluator-pnet: face accuracy is 0.7000, must be at least 0.8",
    "Look at /runs/demo/artifacts/Evaluator-pnet/evaluation/9",
  ]
  assert "saved_model_cli" not in lines
  assert "Blessed" not in lines


def test_what_a_policy_let_through_is_said():
  lines = summary.text(dataclasses.replace(GOOD, warnings=("ServingCheck: slow",)))
  assert "Warning: ServingCheck: slow" in lines
  assert "Blessed: a policy let the warnings above pass" in lines
  assert "every bound held" not in lines


def test_an_error_is_told_by_its_cause_and_a_gate_by_its_findings():
  def raised(cause: Exception) -> Exception:
    try:
      try:
        raise cause
      except Exception as error:
        raise RuntimeError("Trainer failed") from error
    except RuntimeError as error:
      return error

  assert _explain(raised(ValueError("no weights x.h5"))) == "Trainer failed: no weights x.h5"
  assert _explain(raised(GateError("ExampleGate stopped the run"))) == "ExampleGate stopped the run"


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_a_metric_without_samples_is_shown_as_nan(metric):
  lines = summary.text(dataclasses.replace(GOOD, nets=(dataclasses.replace(NET, metrics={}),)))
  assert f"face      {metric:<22}       nan" in lines


def test_a_part_of_a_run_pushes_nothing_and_says_so():
  part = summary.text(dataclasses.replace(GOOD, whole=False, pushed=""))
  assert "part of the run: nothing is pushed" in part
  assert "Pushed:" not in part


def test_a_detector_is_shown_with_its_picture_and_the_command_that_uses_it():
  lines = summary.text(
    dataclasses.replace(GOOD, pushed="/r/serving/detector/17", picture="/r/pictures/17.png")
  )
  assert "Picture: /r/pictures/17.png" in lines
  assert "taskmix detect /r/serving/detector YOUR_PHOTO.jpg" in lines
