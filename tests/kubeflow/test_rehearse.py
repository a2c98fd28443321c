"""A rehearsal: the rules on little jobs, and a whole compiled pipeline from photos to a pushed model."""

import json
import pathlib
import subprocess
import sys

import pytest

from pipeline.kubeflow import rehearse

TYPE = {"instanceSchema": "title: tfx.Model\ntype: object\n"}


# What every step begins with: its executor input, and where the launcher keeps a URI.
BEGIN = """
import json, os, pathlib, sys
root = os.environ["TASKMIX_LAUNCHER_ROOT"]
given = json.loads(sys.argv[1])
def place(side):
  return pathlib.Path(root, *given[side]["artifacts"]["model"]["artifacts"][0]["uri"].split("://"))
"""
WRITE = "place('outputs').mkdir(); (place('outputs') / 'f').write_text('x')"
READ = "assert (place('inputs') / 'f').read_text() == 'x'"


def _job(code: str, *, executor: dict | None = None, name: str = "write-it") -> dict:
  """Two steps: `name`, which runs the code, and `read`, which wants its output."""
  containers = {
    step: {"container": {"command": ["python", "-c"], "args": [BEGIN + text, "{{$}}"]}}
    for step, text in {name: code, "read": READ}.items()
  }
  if executor:
    containers[name] = executor
  source = {"taskOutputArtifact": {"producerTask": name, "outputArtifactKey": "model"}}
  return {
    "pipelineSpec": {
      "root": {
        "dag": {
          "tasks": {
            "read": {
              "componentRef": {"name": "read"},
              "dependentTasks": [name],
              "inputs": {"artifacts": {"model": source}},
            },
            name: {"componentRef": {"name": name}},
          }
        }
      },
      "components": {
        name: {"executorLabel": name, "outputDefinitions": {"artifacts": {"model": {"artifactType": TYPE}}}},
        "read": {"executorLabel": "read"},
      },
      "deploymentSpec": {"executors": containers},
    }
  }


def _rehearse(job: dict, folder: pathlib.Path, **parameters) -> list[str]:
  python = pathlib.Path(sys.executable)
  return [done.name for done in rehearse.rehearse(job, python=python, folder=folder, parameters=parameters)]


def test_steps_run_after_what_they_need_and_get_its_output(tmp_path):
  assert _rehearse(_job(WRITE), tmp_path) == ["write-it", "read"]


def test_an_output_outside_its_place_does_not_reach_the_next_step(tmp_path):
  elsewhere = "pathlib.Path(root, 'f').write_text('x')"
  with pytest.raises(rehearse.RehearsalError, match=r"(?s)read ended with status 1.*FileNotFoundError"):
    _rehearse(_job(elsewhere), tmp_path)


def test_a_step_sees_nothing_of_this_process(tmp_path, monkeypatch):
  monkeypatch.setenv("SECRET", "1")
  _rehearse(_job(f"assert 'SECRET' not in os.environ; {WRITE}"), tmp_path)


def test_a_failed_step_is_told_with_the_end_of_its_log(tmp_path):
  with pytest.raises(
    rehearse.RehearsalError, match=r"(?s)write-it ended with status 3; its log is .*no luck"
  ):
    _rehearse(_job("print('no luck'); sys.exit(3)"), tmp_path)


@pytest.mark.parametrize(
  ("job", "message"),
  [
    (_job(WRITE, executor={"resolver": {}}), "write-it: resolver is neither container nor importer"),
    (_job(WRITE, name="write_it"), "write_it: a task's name has letters, digits and hyphens"),
    (
      _job(WRITE, executor={"container": {"lifecycle": {"preCacheCheck": {}}}}),
      "a container's lifecycle is not run",
    ),
  ],
)
def test_what_the_backend_would_refuse_is_refused(job, message, tmp_path):
  with pytest.raises(ValueError, match=message):
    _rehearse(job, tmp_path)


def test_a_parameter_that_the_job_has_not_is_refused(tmp_path):
  with pytest.raises(ValueError, match="the job has no parameter stepps"):
    _rehearse(_job(WRITE), tmp_path, stepps=1)


@pytest.mark.engines
@pytest.mark.timeout(2400)
def test_a_compiled_pipeline_goes_from_photos_to_a_pushed_model(handful, write_config, tmp_path):
  """In an environment of the image's packages: nothing of this checkout is on its path."""
  taskmix = str(pathlib.Path(sys.executable).with_name("taskmix"))
  compiled = ["compile-kubeflow", "job", "--config", write_config(steps=500, nets=1), "--data", str(handful)]
  subprocess.run([taskmix, *compiled], cwd=tmp_path, check=True, capture_output=True, timeout=600)
  parameters = ["--parameter", f"data={handful}", "--parameter", "steps_pnet=10"]
  command = [taskmix, "rehearse-kubeflow", "job.json", "--folder", "rehearsal", *parameters]
  done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=2300)
  assert done.returncode == 0, done.stdout + done.stderr
  versions = tmp_path / "rehearsal" / "volumes" / "taskmix-state" / "serving" / "pnet"
  (version,) = [path for path in versions.iterdir() if path.name.isdecimal()]
  assert (version / "saved_model.pb").is_file()
  history = tmp_path / "rehearsal" / "store/minio/taskmix/rehearsal/Trainer-pnet/model_run/history.json"
  # The run's parameter, not the config's 500.
  assert json.loads(history.read_text())["steps"] == 10
  assert (tmp_path / "rehearsal/volumes/taskmix-state/blessed/Trainer-pnet/1/record.json").is_file()
