"""A compiled job on a Kubeflow Pipelines server: handed over by its own client, followed to its end.

The server runs the job whether anybody follows it or not.
"""

import contextlib
import dataclasses
import io
import os
import pathlib
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pipeline.kubeflow.settings import Kubeflow

# Read by the client too.
ENDPOINT = "KF_PIPELINES_ENDPOINT"

# States of the v2beta1 API (RuntimeState) after which nothing happens any more.
_OVER = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
_WORDS = {"SUCCEEDED": "done", "FAILED": "failed", "SKIPPED": "skipped", "CANCELED": "stopped"}

# Seconds between looks; looks in a row that may find no server.
_LOOK, _PATIENCE = 10.0, 30


@dataclasses.dataclass(frozen=True)
class Step:
  """A step of a run that is over.

  Attributes:
    name: of the component.
    state: "done", "failed", "skipped" or "stopped".
    seconds: that it took, its container's start among them; 0 where it is not known.
  """

  name: str
  state: str
  seconds: float


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How a run ended.

  Attributes:
    run: its id.
    url: its page.
    state: as of a Step.
    failed: names of the steps that failed.
  """

  run: str
  url: str
  state: str
  failed: tuple[str, ...]


class Submitted:
  """A run on the server; `run` is its id, `url` its page."""

  def __init__(self, client: Any, run: str, endpoint: str, steps: Collection[str]):
    self._client, self._steps = client, steps
    self.run, self.url = run, f"{endpoint}/#/runs/details/{run}"

  def follow(self, ended: Callable[[Step], None], *, sleep: Callable[[float], None] = time.sleep) -> Outcome:
    """Waits until the run is over, and tells of every step when it is.

    Raises:
      ValueError: if the server answers no more, or refuses.
    """
    told: dict[str, Step] = {}
    while True:
      found = self._look(sleep)
      for step in self._over(found):
        if step.name not in told:
          told[step.name] = step
          ended(step)
      if found.state in _OVER:
        failed = tuple(name for name, step in told.items() if step.state == "failed")
        return Outcome(self.run, self.url, _WORDS[found.state], failed)
      sleep(_LOOK)

  def _look(self, sleep: Callable[[float], None]) -> Any:
    """The run as the server knows it; a server that is away for a while is waited for."""
    missed = 0
    while True:
      try:
        with _plain_errors(self.url):
          return self._client.get_run(self.run)
      except ConnectionError as error:
        missed += 1
        if missed == _PATIENCE:
          raise ValueError(f"{error}; the run goes on without this command") from error
        sleep(_LOOK)

  def _over(self, found: Any) -> Iterator[Step]:
    details = found.run_details.task_details if found.run_details else None
    # The backend's own drivers and executors of a step are among them.
    for task in details or ():
      if task.display_name in self._steps and task.state in _OVER:
        known = task.start_time and task.end_time
        seconds = (task.end_time - task.start_time).total_seconds() if known else 0.0
        # A step that never started may end in the year 1.
        yield Step(task.display_name, _WORDS[task.state], max(seconds, 0.0))


def endpoint_of(settings: Kubeflow) -> str:
  """The server's address; raises ValueError if none is named."""
  endpoint = (settings.endpoint or os.environ.get(ENDPOINT, "")).rstrip("/")
  if not endpoint:
    raise ValueError(
      "no Kubeflow Pipelines server is named: set kubeflow.endpoint in the runner's .json file, or "
      f"{ENDPOINT}, such as http://localhost:8080 after "
      "kubectl -n kubeflow port-forward svc/ml-pipeline-ui 8080:80"
    )
  return endpoint


def submit(
  job: Mapping[str, Any], package: pathlib.Path, *, settings: Kubeflow, experiment: str, name: str
) -> Submitted:
  """Starts a run of the job, with the parameters' defaults.

  Args:
    job: of `compile_job`.
    package: its .yaml, as `write_job` wrote it.
    settings: say where the server is.
    experiment: that the run belongs to; made where it is not there.
    name: of the run.

  Raises:
    ValueError: if no server is named, none answers, or it refuses.
  """
  endpoint = endpoint_of(settings)
  try:
    with _plain_errors(endpoint):
      import kfp

      named: dict[str, Any] = {"namespace": settings.namespace} if settings.namespace else {}
      # The client's types leave its ids open.
      client: Any = kfp.Client(endpoint, **named)
      made = client.create_experiment(experiment, **named)
      root = job["runtimeConfig"].get("gcsOutputDirectory")
      run = client.run_pipeline(made.experiment_id, name, str(package), pipeline_root=root)
  except ConnectionError as error:
    raise ValueError(f"{error}; is it running, and its port forwarded?") from error
  return Submitted(client, run.run_id, endpoint, job["pipelineSpec"]["root"]["dag"]["tasks"])


@contextlib.contextmanager
def _plain_errors(place: str) -> Iterator[None]:
  """Turns the client's errors into one line; ConnectionError if there is no answer. Its prints go nowhere."""
  import kfp_server_api
  import urllib3

  try:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
      warnings.simplefilter("ignore")
      yield
  except urllib3.exceptions.HTTPError as error:
    raise ConnectionError(f"no answer from {place}") from error
  except kfp_server_api.ApiException as error:
    said = " ".join(str(error.body or "").split())
    raise ValueError(f"{place} refuses: {error.status} {error.reason} {said}".rstrip()[:600]) from error
