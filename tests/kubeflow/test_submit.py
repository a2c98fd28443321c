"""A job handed over by Kubeflow Pipelines' real client; the server here only keeps what it is told."""

import datetime
import http.server
import json
import re
import threading

import pytest
from typer.testing import CliRunner

from pipeline import cli
from pipeline.kubeflow.settings import Kubeflow
from pipeline.kubeflow.submit import Step, submit

STEPS = ("CropExampleGen-pnet", "Evaluator-pnet", "ModelPusher")

TASKS = {name: {"componentRef": {"name": "step"}, "taskInfo": {"name": name}} for name in STEPS}
SPEC = {
  "schemaVersion": "2.1.0",
  "pipelineInfo": {"name": "faces"},
  "deploymentSpec": {"executors": {"exec": {"container": {"image": "taskmix:1"}}}},
  "components": {"step": {"executorLabel": "exec"}},
  "root": {"dag": {"tasks": TASKS}},
}
JOB = {"pipelineSpec": SPEC, "runtimeConfig": {"gcsOutputDirectory": "s3://artifacts/v2"}}


class Server:
  """The routes of the v2beta1 API that a submission needs.

  Attributes:
    runs: bodies of the runs that were asked for.
    looks: what GET of the run answers, one after the other; the last again and again.
    refuses: status with which runs are refused; 0 takes them.
  """

  def __init__(self):
    self.runs, self.experiments, self.looks, self.refuses = [], [], [], 0
    answer = self.answer

    class Handler(http.server.BaseHTTPRequestHandler):
      def do_GET(self):
        self._reply(answer("GET", self.path, None))

      def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._reply(answer("POST", self.path, json.loads(body)))

      def _reply(self, told):
        status, value = told
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

      def log_message(self, *args):
        pass

    self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    self.url = f"http://127.0.0.1:{self.http.server_port}"
    threading.Thread(target=self.http.serve_forever, daemon=True).start()

  def answer(self, method: str, path: str, body: dict | None) -> tuple[int, dict]:
    route = f"{method} {path.partition('?')[0].removeprefix('/apis/v2beta1')}"
    if route == "GET /healthz":
      return 200, {"multi_user": False}
    if route == "GET /experiments":
      return 200, {"experiments": self.experiments}
    if route == "POST /experiments":
      self.experiments.append({**body, "experiment_id": "e1"})
      return 200, self.experiments[-1]
    if route == "POST /runs":
      if self.refuses:
        return self.refuses, {"error": "pipeline spec is invalid"}
      self.runs.append(body)
      return 200, {**body, "run_id": "r1"}
    if route == "GET /runs/r1":
      return 200, self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
    return 404, {"error": f"no {route}"}


@pytest.fixture
def server(monkeypatch, tmp_path):
  """A server, and a home without a client's settings."""
  monkeypatch.setattr("kfp.Client._LOCAL_KFP_CONTEXT", str(tmp_path / "context.json"))
  monkeypatch.delenv("KF_PIPELINES_ENDPOINT", raising=False)
  started = Server()
  yield started
  started.http.shutdown()
  started.http.server_close()


@pytest.fixture
def package(tmp_path):
  path = tmp_path / "faces.yaml"
  path.write_text(json.dumps(SPEC))
  return path


def _look(state: str, **tasks: str) -> dict:
  """A run in that state, its tasks in theirs; each that is over took 90 seconds."""
  begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
  end = begin + datetime.timedelta(seconds=90)
  details = [
    {
      "display_name": name.replace("_", "-"),
      "state": its,
      "start_time": begin.isoformat(),
      "end_time": end.isoformat() if its != "RUNNING" else None,
    }
    for name, its in tasks.items()
  ]
  driver = {"display_name": "Evaluator-pnet-driver", "state": "SUCCEEDED", "start_time": begin.isoformat()}
  return {"run_id": "r1", "state": state, "run_details": {"task_details": [*details, driver]}}


def _submit(server, package):
  return submit(JOB, package, settings=Kubeflow(endpoint=server.url), experiment="faces", name="faces-1")


def test_a_run_gets_the_pipeline_its_root_and_a_place_among_its_own(server, package):
  submitted = _submit(server, package)
  assert submitted.url == f"{server.url}/#/runs/details/r1"
  assert [each["display_name"] for each in server.experiments] == ["faces"]
  _submit(server, package)
  assert len(server.experiments) == 1
  first = server.runs[0]
  assert first["display_name"] == "faces-1" and first["experiment_id"] == "e1"
  assert first["runtime_config"]["pipeline_root"] == "s3://artifacts/v2"
  assert set(first["pipeline_spec"]["root"]["dag"]["tasks"]) == set(STEPS)


def test_every_step_is_told_once_when_it_is_over(server, package):
  server.looks = [
    {"run_id": "r1", "state": "PENDING"},
    _look("RUNNING", CropExampleGen_pnet="RUNNING"),
    _look("RUNNING", CropExampleGen_pnet="SUCCEEDED", Evaluator_pnet="RUNNING"),
    _look("SUCCEEDED", CropExampleGen_pnet="SUCCEEDED", Evaluator_pnet="SUCCEEDED", ModelPusher="SUCCEEDED"),
  ]
  told: list[Step] = []
  outcome = _submit(server, package).follow(told.append, sleep=lambda seconds: None)
  assert outcome.state == "done" and outcome.failed == ()
  assert told == [Step(name, "done", 90.0) for name in STEPS]


def test_a_step_that_failed_is_named(server, package):
  server.looks = [_look("FAILED", CropExampleGen_pnet="SUCCEEDED", Evaluator_pnet="FAILED")]
  outcome = _submit(server, package).follow(lambda step: None, sleep=lambda seconds: None)
  assert (outcome.state, outcome.failed) == ("failed", ("Evaluator-pnet",))


def test_a_server_that_is_away_for_a_while_is_waited_for_and_one_that_stays_away_is_told(
  server, package, monkeypatch
):
  submitted = _submit(server, package)
  server.looks = [_look("SUCCEEDED")]
  answers = iter([ConnectionError("away"), ConnectionError("away")])
  ask = submitted._client.get_run

  def sometimes(run):
    if error := next(answers, None):
      import urllib3

      raise urllib3.exceptions.HTTPError from error
    return ask(run)

  monkeypatch.setattr(submitted._client, "get_run", sometimes)
  slept: list[float] = []
  assert submitted.follow(lambda step: None, sleep=slept.append).state == "done"
  assert len(slept) == 2
  answers = iter([ConnectionError("away")] * 1000)
  with pytest.raises(ValueError, match=r"no answer from .*; the run goes on without this command"):
    submitted.follow(lambda step: None, sleep=slept.append)


def test_a_refusal_and_a_missing_server_are_told_in_a_line(server, package):
  server.refuses = 400
  with pytest.raises(ValueError, match=r"refuses: 400 .*pipeline spec is invalid"):
    _submit(server, package)
  gone = Kubeflow(endpoint="http://127.0.0.1:9")
  with pytest.raises(ValueError, match=r"no answer from http://127\.0\.0\.1:9; is it running"):
    submit(JOB, package, settings=gone, experiment="faces", name="faces-1")
  with pytest.raises(ValueError, match="must begin with http"):
    Kubeflow(endpoint="localhost:8080")


def _run(*arguments: str):
  return CliRunner().invoke(cli.app, ["run", "--config", "demo", "--runner", *arguments])


def test_the_command_hands_over_the_compiled_cascade_and_ends_as_the_run_does(server, tmp_path, monkeypatch):
  runner = tmp_path / "cluster.json"
  settings = {"endpoint": server.url, "pipeline_root": "minio://mlpipeline/v2"}
  runner.write_text(json.dumps({"name": "kubeflow", "kubeflow": settings}))
  server.looks = [_look("FAILED", CropExampleGen_pnet="SUCCEEDED", Evaluator_pnet="FAILED")]
  refused = _run(str(runner), "--runs", str(tmp_path / "runs"))
  assert refused.exit_code == cli.REFUSED, refused.output
  assert re.search(r"^  CropExampleGen-pnet +done +90\.0 s$", refused.output, re.M)
  assert f"the run failed at Evaluator-pnet; the step's log says why: {server.url}/#/runs" in refused.output
  (run,) = server.runs
  assert len(run["pipeline_spec"]["root"]["dag"]["tasks"]) == 40
  server.looks = [_look("SUCCEEDED", CropExampleGen_pnet="SUCCEEDED")]
  done = _run(str(runner), "--runs", str(tmp_path / "runs"))
  assert done.exit_code == 0, done.output
  assert "Done. The report is report.html in /taskmix-state" in done.output
  assert len(list((tmp_path / "runs" / "demo" / "kubeflow").glob("*.yaml"))) >= 1


def test_the_command_says_what_it_cannot_do_there(server):
  nowhere = _run("kubeflow")
  assert nowhere.exit_code == cli.UNUSABLE
  assert "no Kubeflow Pipelines server is named" in nowhere.output
  part = _run("kubeflow", "--net", "pnet")
  assert part.exit_code == cli.UNUSABLE
  assert "no option --net on Kubeflow" in part.output
