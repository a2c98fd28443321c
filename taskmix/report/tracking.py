"""A run's parameters, figures and pages in MLflow, for teams that keep their runs there.

MLflow is an extra: `pip install 'taskmix[mlflow]'`.
"""

import os
import pathlib
import re
from collections.abc import Iterator, Sequence

from taskmix.report import compare, facts, page

# MLflow takes no longer parameters, and so many at a time.
_LONGEST, _AT_ONCE = 500, 100


def log_run(run: facts.RunFacts, *, uri: str, files: Sequence[pathlib.Path] = ()) -> str:
  """Logs a run into the experiment that is named after its config; the run's id there.

  Args:
    run: its config becomes parameters; its metrics, its detector's figures and its
      losses over the steps become metrics; its verdict and versions become tags.
    uri: of a tracking server, or of a folder: "file:mlruns".
    files: to keep as artifacts.

  Raises:
    ImportError: if MLflow is not installed.
  """
  if uri.startswith(("file:", "/", ".")):
    # A folder is what a run on one machine wants; MLflow 3 asks for this word first.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
  try:
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient
  except ImportError:
    raise ImportError("logging to MLflow needs it: pip install 'taskmix[mlflow]'") from None
  client = MlflowClient(tracking_uri=uri)
  found = client.get_experiment_by_name(run.name)
  experiment = found.experiment_id if found else client.create_experiment(run.name)
  logged = client.create_run(experiment, run_name=run.run or run.name).info
  params = [Param(_key(key), word[:_LONGEST]) for key, word in compare.flat(run.config).items() if word]
  metrics = [Metric(_key(name), value, logged.start_time, step) for name, value, step in figures(run)]
  tags = [RunTag("verdict", page.headline(run)), RunTag("command", run.command or "unknown")]
  tags += [RunTag(f"version.{name}", value) for name, value in run.versions.items()]
  for start in range(0, max(len(params), 1), _AT_ONCE):
    client.log_batch(logged.run_id, params=params[start : start + _AT_ONCE])
  for start in range(0, max(len(metrics), 1), _AT_ONCE):
    client.log_batch(logged.run_id, metrics=metrics[start : start + _AT_ONCE])
  client.log_batch(logged.run_id, tags=tags)
  for file in files:
    client.log_artifact(logged.run_id, str(file))
  good = run.verdict.outcome in ("pushed", "blessed")
  client.set_terminated(logged.run_id, status="FINISHED" if good else "FAILED")
  return logged.run_id


def figures(run: facts.RunFacts) -> Iterator[tuple[str, float, int]]:
  """(name, value, step) of every number that was measured; step 0 where there is none."""
  for net in run.nets:
    for metric in net.metrics:
      # No slash: a store of files has a file of the metric's name, and no folder beside it.
      where = f" {metric.column} {metric.slice}" if metric.column else ""
      if metric.value is not None:
        yield f"{net.name}/{metric.task}/{metric.metric}{where}", metric.value, 0
    for curves in net.training.curves if net.training else ():
      for curve in curves.losses:
        for step, value in zip(curve.x, curve.y, strict=True):
          if value is not None:
            yield f"{net.name}/{curves.task}/loss/{curve.name}", value, int(step)
  for name, value in (run.detector.figures[0].numbers if run.detector else {}).items():
    if value is not None:
      yield f"detector/{name}", value, 0


def _key(name: str) -> str:
  """With the letters that MLflow takes; members of lists as `taskmix run --set` names them."""
  return re.sub(r"[^\w\-. /]", "_", re.sub(r"\[([^]]*)\]", r".\1", name))[:250]
