"""What a step does to its input and output around TFX's entry point."""

import json

import pytest

from pipeline.kubeflow import step


@pytest.mark.parametrize(
  ("uri", "path"),
  [
    ("s3://bucket/a/b", "/s3/bucket/a/b"),
    ("minio://mlpipeline/v2/x", "/minio/mlpipeline/v2/x"),
    ("gs://bucket/a", "gs://bucket/a"),
    ("/data/x", "/data/x"),
  ],
)
def test_uris_that_tensorflow_cannot_read_are_where_the_launcher_puts_them_and_back(uri, path):
  assert step.local_path(uri) == path
  assert step.remote_uri(path) == uri


def _artifact(uri, **metadata):
  return {"artifacts": [{"uri": uri, "metadata": metadata, "type": {"instanceSchema": "title: tfx.Model"}}]}


def test_an_absent_artifact_is_no_input():
  inputs = {"model": _artifact("s3://b/m"), "baseline_model": _artifact("s3://b/none", absent=1.0)}
  mended = step.mend({"inputs": {"artifacts": inputs}})
  assert list(mended["inputs"]["artifacts"]) == ["model"]


def test_a_nameless_artifact_is_named_by_its_uri():
  mended = step.mend({"inputs": {"artifacts": {"model": _artifact("s3://b/m")}}})
  (artifact,) = mended["inputs"]["artifacts"]["model"]["artifacts"]
  assert artifact["name"] == "s3://b/m"
  assert artifact["uri"] == "/s3/b/m"


def test_what_a_step_says_of_its_outputs_has_uris_again():
  said = {"artifacts": {"model": {"artifacts": [{"uri": "/minio/b/m", "metadata": {"blessed": 1.0}}]}}}
  assert step.restore(said) == {
    "artifacts": {"model": {"artifacts": [{"uri": "minio://b/m", "metadata": {"blessed": 1.0}}]}}
  }


def test_the_runs_data_folder_is_filled_in_also_inside_json():
  values = {
    "data_root": "{data}",
    "photos": json.dumps(["{data}/a.jpg", "{data}/b.jpg"]),
    "keep": 5,
    "taskmix_data": "gs://b/photos/",
  }
  assert step.with_run_parameters(values) == {
    "data_root": "gs://b/photos",
    "photos": '["gs://b/photos/a.jpg", "gs://b/photos/b.jpg"]',
    "keep": 5,
  }


def test_steps_and_batch_size_of_the_run_replace_the_configs():
  config = json.dumps({"net": "{}", "training": json.dumps({"steps": 1500, "batch_size": 448, "seed": 1})})
  given = {"custom_config": config, "run_fn": "a.b", "taskmix_steps": 20.0, "taskmix_batch_size": 56.0}
  values = step.with_run_parameters(given)
  # TFX's own names are left alone.
  assert list(values) == ["custom_config", "run_fn"]
  assert json.loads(json.loads(values["custom_config"])["training"]) == {
    "steps": 20,
    "batch_size": 56,
    "seed": 1,
  }


def test_a_run_parameter_that_cannot_be_is_refused():
  with pytest.raises(ValueError, match="without quotes"):
    step.with_run_parameters({"taskmix_data": 'a"b'})
  with pytest.raises(ValueError, match="steps must be 1 or more, not 0"):
    step.with_run_parameters({"custom_config": '{"training": "{}"}', "taskmix_steps": 0})
