"""The reports of finished runs are found, rendered anew and compared."""

import json
import pathlib
import sys

import pytest
from typer.testing import CliRunner

from pipeline import reports
from pipeline.cli import app
from taskmix.report import facts


def _run(name: str = "20261121-104549", **changed) -> facts.RunFacts:
  return facts.RunFacts(
    **{
      "name": "demo",
      "run": name,
      "started": "2026-11-21T10:45:49",
      "seconds": 10.0,
      "command": "taskmix run",
      "data": "demo",
      "verdict": facts.Verdict("pushed", pushed="runs/demo/serving/detector/17"),
      "steps": (),
      "nets": (),
      "detector": None,
      "served": (),
      "model_size": None,
      "lineage": (),
      "config": {"name": "demo", "goal": ""},
      "versions": {"taskmix": "0.1.0"},
      **changed,
    }
  )


def _write(folder: pathlib.Path, number: int, run: facts.RunFacts) -> pathlib.Path:
  report = folder / "artifacts" / "ReportGen" / "report" / str(number)
  report.mkdir(parents=True)
  (report / "facts.json").write_text(run.to_json())
  return report


@pytest.fixture
def runs(tmp_path) -> pathlib.Path:
  """A run folder whose second run, number 10, was refused; 9 sorts behind it as text."""
  _write(tmp_path, 9, _run())
  _write(
    tmp_path,
    10,
    _run("later", verdict=facts.Verdict("refused", ("why",)), config={"name": "demo", "goal": "recall=0.9"}),
  )
  return tmp_path


def test_the_newest_report_of_a_run_folder_is_taken_or_the_one_that_is_named(runs):
  assert reports.read_facts(runs).run == "later"
  assert reports.read_facts(runs / "artifacts" / "ReportGen" / "report" / "9").verdict.outcome == "pushed"


def test_a_folder_without_a_report_says_what_to_give(tmp_path):
  with pytest.raises(ValueError, match="has no report: no run in it has come to an end yet"):
    reports.read_facts(tmp_path)
  with pytest.raises(ValueError, match="no run folder"):
    reports.read_facts(tmp_path / "gone")


def test_facts_that_cannot_be_read_say_what_to_do(tmp_path):
  _write(tmp_path, 1, _run())
  (tmp_path / "artifacts" / "ReportGen" / "report" / "1" / "facts.json").write_text('{"name": 1}')
  with pytest.raises(ValueError, match=r"cannot be read by this taskmix .*run again"):
    reports.read_facts(tmp_path)


def test_the_command_writes_the_page_anew(runs, tmp_path):
  out = tmp_path / "pages" / "demo.html"
  done = CliRunner().invoke(app, ["report", str(runs), "--out", str(out)])
  assert done.exit_code == 0, done.output
  assert "Not blessed, so not pushed</h2>" in out.read_text()


def test_the_command_compares_two_runs(runs):
  before = runs / "artifacts" / "ReportGen" / "report" / "9"
  done = CliRunner().invoke(app, ["report", "--compare", str(before), str(runs)])
  assert done.exit_code == 0, done.output
  assert "verdict  Pushed  Not blessed, so not pushed" in done.output
  assert "goal  none  recall=0.9" in done.output
  assert "Not blessed" in (runs / "comparison.html").read_text()
  told = CliRunner().invoke(app, ["report", "--compare", str(before), str(runs), "--json"])
  assert {each["what"] for each in json.loads(told.stdout)} == {"verdict", "goal"}


def test_two_runs_are_compared_and_one_is_shown(runs):
  assert CliRunner().invoke(app, ["report", "--compare", str(runs)]).exit_code == 2
  assert CliRunner().invoke(app, ["report", str(runs), str(runs)]).exit_code == 2


def test_rendering_needs_no_tensorflow(runs):
  import subprocess

  code = (
    "import pathlib, sys; from pipeline import reports; "
    f"reports.write_report(pathlib.Path({str(runs)!r})); "
    "assert not {'tensorflow', 'tfx', 'apache_beam'} & set(sys.modules)"
  )
  subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
