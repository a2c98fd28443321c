"""The command line answers quickly and fails in plain words."""

import json
import os
import re
import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

import taskmix
from pipeline import benches, cli


def test_help_imports_nothing_heavy():
  code = (
    "import sys\nfrom pipeline import cli\ntry:\n  cli.main()\nexcept SystemExit: pass\n"
    "heavy = {'tensorflow', 'tfx', 'apache_beam', 'keras', 'cv2'} & set(sys.modules)\n"
    "assert not heavy, heavy"
  )
  done = subprocess.run(
    [sys.executable, "-c", code, "run", "--help"], capture_output=True, text=True, check=True, timeout=60
  )
  assert "taskmix run --config demo" in done.stdout


def test_the_version_is_told():
  result = CliRunner().invoke(cli.app, ["--version"])
  assert (result.exit_code, result.output) == (0, f"taskmix {taskmix.__version__}\n")


def test_an_unknown_config_ends_with_exit_code_2_and_no_stack_trace():
  result = CliRunner().invoke(cli.app, ["run", "--config", "deno"])
  assert result.exit_code == cli.UNUSABLE
  assert "did you mean demo" in result.output
  assert "Traceback" not in result.output


def test_a_data_folder_that_is_not_there_is_said(tmp_path):
  result = CliRunner().invoke(
    cli.app, ["run", "--data", str(tmp_path / "nowhere"), "--runs", str(tmp_path / "runs")]
  )
  assert result.exit_code == cli.UNUSABLE
  assert "no data folder" in result.output


def test_convert_writes_to_a_relative_folder_and_refuses_to_overwrite(handful, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  command = ["convert", "out", "--config", "demo", "--data", str(handful)]
  first = CliRunner().invoke(cli.app, command)
  assert first.exit_code == 0, first.output
  assert (tmp_path / "out" / "manifest.json").is_file()
  second = CliRunner().invoke(cli.app, command)
  assert second.exit_code == cli.UNUSABLE
  assert "holds a finished conversion" in second.output


def test_models_of_a_folder_that_is_not_there(tmp_path):
  result = CliRunner().invoke(cli.app, ["models", "list", str(tmp_path / "none")])
  assert result.exit_code == cli.UNUSABLE
  assert "no model folder" in result.output


def test_tuning_to_what_is_no_goal_is_refused(tmp_path):
  command = ["tune", str(tmp_path), "speed=1", "--data", str(tmp_path), "--annotations", "faces.txt"]
  result = CliRunner().invoke(cli.app, command)
  assert result.exit_code == cli.UNUSABLE
  assert "is no goal such as recall=0.9" in result.output


def test_the_schema_of_a_config_s_nets_is_printed():
  result = CliRunner().invoke(cli.app, ["schema", "--config", "cifar10_tasks"])
  assert result.exit_code == 0, result.output
  assert [
    name for name in ("label", "turn", "tone", "box_offsets") if f'name: "{name}"' in result.output
  ] == [
    "label",
    "turn",
    "tone",
  ]


def test_every_command_has_an_example_in_its_help():
  commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
  every = {
    **{name: each for name, each in commands.items() if name != "models"},
    **commands["models"].commands,
  }
  lacking = [name for name, command in every.items() if "Example" not in (command.help or "")]
  assert not lacking
  assert "Example" in CliRunner().invoke(cli.app, ["models", "list", "--help"]).output


def test_versions_of_a_model_as_json(tmp_path):
  from taskmix.serving.versions import Record, publish

  model = tmp_path / "model"
  model.mkdir()
  (model / "saved_model.pb").write_bytes(b"graph")
  publish(model, tmp_path / "base", record=Record(model="toy", metrics={"face": {"auc": float("nan")}}))
  result = CliRunner().invoke(cli.app, ["models", "list", str(tmp_path / "base"), "--json"])
  (version,) = json.loads(result.output)
  assert version["current"]
  assert version["record"]["metrics"] == {"face": {"auc": None}}


def test_a_bug_ends_with_its_own_code_and_without_stack_trace(tmp_path, monkeypatch):
  def broken(folder):
    raise KeyError("lost")

  monkeypatch.setattr("taskmix.serving.versions.list_versions", broken)
  result = CliRunner().invoke(cli.app, ["models", "list", str(tmp_path)])
  assert result.exit_code == cli.BUG
  assert "KeyError: 'lost'" in result.output
  assert "--debug" in result.output
  assert "Traceback" not in result.output
  assert isinstance(
    CliRunner().invoke(cli.app, ["models", "list", str(tmp_path), "--debug"]).exception, KeyError
  )


def test_config_names_complete():
  done = subprocess.run(
    [sys.executable, "-m", "pipeline.cli"],
    env={
      **os.environ,
      "_TASKMIX_COMPLETE": "complete_bash",
      "COMP_WORDS": "taskmix run --config ca",
      "COMP_CWORD": "3",
    },
    capture_output=True,
    text=True,
    check=False,
    timeout=60,
  )
  assert done.stdout.split() == ["cats_dogs"]


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_no_control_characters_without_a_terminal(environment):
  environment = {**{key: value for key, value in os.environ.items() if key != "FORCE_COLOR"}, **environment}
  done = subprocess.run(
    [sys.executable, "-m", "pipeline.cli", "--help"],
    env=environment,
    capture_output=True,
    text=True,
    check=True,
    timeout=60,
  )
  assert "\x1b" not in done.stdout


def test_the_config_is_printed_with_what_is_set(tmp_path):
  command = ["run", "--config", "demo", "--set", "train.steps=7", "--print-config"]
  result = CliRunner().invoke(cli.app, command)
  assert result.exit_code == 0, result.output
  assert "stages.rnet.training.steps=7" in result.output.splitlines()
  read = json.loads(CliRunner().invoke(cli.app, [*command, "--json"]).output)
  assert [stage["training"]["steps"] for stage in read["stages"]] == [7, 7, 7]


def test_an_unknown_field_is_an_unusable_argument():
  result = CliRunner().invoke(cli.app, ["run", "--set", "train.stepz=7", "--print-config"])
  assert result.exit_code == cli.UNUSABLE
  assert "did you mean steps?" in result.output


def test_benchmarks_are_listed_and_need_the_source_tree(tmp_path, monkeypatch):
  listed = CliRunner().invoke(cli.app, ["bench"])
  assert {line.split()[0] for line in listed.output.splitlines()} == set(benches.BENCHES)
  slip = CliRunner().invoke(cli.app, ["bench", "convrt"])
  assert (slip.exit_code, "did you mean convert?" in slip.output) == (cli.UNUSABLE, True)
  monkeypatch.setattr(benches, "REPOSITORY", tmp_path)
  elsewhere = CliRunner().invoke(cli.app, ["bench", "convert"])
  assert elsewhere.exit_code == cli.UNUSABLE
  assert "make bench-convert" in elsewhere.output


def test_every_benchmark_of_the_makefile_has_its_name():
  makefile = (benches.REPOSITORY / "Makefile").read_text()
  assert {f"bench-{name}" for name in benches.BENCHES} == set(re.findall(r"^(bench-\w+):", makefile, re.M))
  for name in benches.BENCHES:
    assert benches.command(name)[1:] == ["-m", f"benchmarks.{benches.BENCHES[name][0]}"]


def test_a_detector_is_judged_on_a_list_alone(tmp_path):
  (tmp_path / "saved_model.pb").write_bytes(b"")
  result = CliRunner().invoke(cli.app, ["evaluate", str(tmp_path)])
  assert result.exit_code == cli.UNUSABLE
  assert "--annotations" in result.output
