"""A run in MLflow's own words, in a store of files."""

import pytest

from taskmix.report import tracking


def test_a_run_is_logged_with_its_settings_figures_and_pages(pushed, tmp_path):
  mlflow = pytest.importorskip("mlflow", reason="needs MLflow: pip install 'taskmix[mlflow]'")
  page = tmp_path / "report.html"
  page.write_text("<p>")
  uri = (tmp_path / "mlruns").as_uri()
  run_id = tracking.log_run(pushed, uri=uri, files=[page])
  client = mlflow.tracking.MlflowClient(tracking_uri=uri)
  logged = client.get_run(run_id)
  assert logged.info.status == "FINISHED"
  assert logged.data.tags["verdict"] == "Pushed"
  assert logged.data.params["stages.pnet.training.steps"] == "1500"
  assert logged.data.metrics["pnet/face/accuracy"] == 0.858
  assert logged.data.metrics["pnet/face/accuracy kind pos"] == 0.628
  assert logged.data.metrics["detector/average precision"] == 0.688
  losses = client.get_metric_history(run_id, "pnet/face/loss/train")
  assert [(point.step, point.value) for point in losses] == [(250, 0.7), (750, 0.3)]
  assert [artifact.path for artifact in client.list_artifacts(run_id)] == ["report.html"]


def test_without_mlflow_it_says_what_to_install(pushed, monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "mlflow.entities", None)
  with pytest.raises(ImportError, match=r"pip install 'taskmix\[mlflow\]'"):
    tracking.log_run(pushed, uri="file:mlruns")
