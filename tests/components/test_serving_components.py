"""ServingCheck and ModelPusher as TFX runs them: artifacts in, artifacts and properties out."""

import json
import pathlib
import shutil

import pytest
import tensorflow as tf
from tfx.components.util import model_utils
from tfx.types import artifact_utils, channel_utils, standard_artifacts

from components.model_pusher.component import ModelPusher
from components.model_pusher.executor import Executor as PusherExecutor
from components.serving_check.component import ServingCheck
from components.serving_check.executor import Executor as CheckExecutor
from taskmix.gates import GateError
from taskmix.serving import versions, warm_up
from taskmix.serving.check import read_report
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import to_json

POLICY = ServingPolicy(server="loopback", large_batch=16, examples=8)


def _artifact(artifact_type, folder: pathlib.Path):
  artifact = artifact_type()
  artifact.uri = str(folder)
  return artifact


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
  """A Model artifact whose only signature doubles the box of examples, and an Examples artifact."""
  folder = tmp_path_factory.mktemp("exported")

  class Double(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
      return {
        "box": 2 * tf.io.parse_example(examples, {"box": tf.io.FixedLenFeature([4], tf.float32)})["box"]
      }

  module = Double()
  tf.saved_model.save(
    module, str(folder / "model/Format-Serving"), signatures={"serve_examples": module.serve}
  )
  examples = _artifact(standard_artifacts.Examples, folder / "examples")
  splits = ["train-pos", "eval-neg", "eval-pos"]
  examples.split_names = artifact_utils.encode_split_names(splits)
  for number, split in enumerate(splits):
    path = folder / "examples" / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz"
    path.parent.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
      for index in range(5):
        example = tf.train.Example()
        example.features.feature["box"].float_list.value.extend([number, index, 0.5, 1])
        writer.write(example.SerializeToString())
  return _artifact(standard_artifacts.Model, folder / "model"), examples


def _check(exported, folder: pathlib.Path, *, model=None, policy: ServingPolicy = POLICY):
  outputs = {"blessing": [_artifact(standard_artifacts.InfraBlessing, folder / "blessing")]}
  CheckExecutor().Do(
    {"model": [model or exported[0]], "examples": [exported[1]]},
    outputs,
    {"name": "double", "photos": "[]", "constants": "{}", "policy": to_json(policy)},
  )
  return outputs["blessing"][0]


@pytest.fixture(scope="module")
def blessing(exported, tmp_path_factory):
  return _check(exported, tmp_path_factory.mktemp("blessed"))


def _push(exported, folder: pathlib.Path, **blessings):
  pushed = _artifact(standard_artifacts.PushedModel, folder / "pushed_model")
  PusherExecutor().Do(
    {"model": [exported[0]], **{key: [value] for key, value in blessings.items()}},
    {"pushed_model": [pushed]},
    {
      "name": "double",
      "push_directory": str(folder / "models"),
      "keep": 2,
      "net": "",
      "lineage": json.dumps({"config": "test"}),
    },
  )
  return pushed


def _judged(folder: pathlib.Path, blessed: bool):
  blessing = _artifact(standard_artifacts.ModelBlessing, folder / "evaluator")
  blessing.set_int_custom_property("blessed", int(blessed))
  return blessing


def test_a_sound_model_is_blessed_as_tfx_reads_it(blessing):
  assert model_utils.is_infra_validated(blessing)
  assert pathlib.Path(blessing.uri, "INFRA_BLESSED").exists()
  report = read_report(blessing.uri)
  assert report.blessed and report.asked["serve_examples"] > 10


def test_the_examples_come_from_every_eval_split_and_none_from_train(blessing):
  pushed = pathlib.Path(blessing.uri, "stamped_model")
  asked = [question for question, _ in warm_up.read_warm_up(pushed)][-1].inputs["examples"]
  boxes = [tf.train.Example.FromString(one).features.feature["box"].float_list.value[0] for one in asked]
  assert boxes == [1.0] * 4 + [2.0] * 4


def test_a_model_at_fault_is_marked_and_not_pushed(exported, tmp_path):
  shutil.copytree(exported[0].uri, tmp_path / "model")
  next((tmp_path / "model").rglob("saved_model.pb")).write_bytes(b"\xff")
  model = _artifact(standard_artifacts.Model, tmp_path / "model")
  blessing = _check(exported, tmp_path, model=model)
  assert not model_utils.is_infra_validated(blessing)
  assert pathlib.Path(blessing.uri, "INFRA_NOT_BLESSED").exists()
  assert "saved_model.pb is broken" in str(read_report(blessing.uri).stops[0])

  pushed = _push((model,), tmp_path, infra_blessing=blessing)
  assert pushed.get_int_custom_property("pushed") == 0
  assert not (tmp_path / "models").exists()


def test_a_passed_budget_fails_the_component_so_that_it_is_tried_again(exported, tmp_path):
  hasty = ServingPolicy(server="loopback", load_seconds=0.05)
  with pytest.raises(
    GateError, match=r"not within its budget\n  load_seconds \(loopback\): it was not ready"
  ):
    _check(exported, tmp_path, policy=hasty)


def test_the_checked_files_are_pushed_with_their_record(exported, blessing, tmp_path):
  pushed = _push(exported, tmp_path, infra_blessing=blessing, model_blessing=_judged(tmp_path, True))
  assert pushed.get_int_custom_property("pushed") == 1
  version = versions.show_version(tmp_path / "models")
  assert pushed.get_string_custom_property("pushed_destination") == version.path
  assert pushed.get_string_custom_property("pushed_version") == str(version.number)
  assert pathlib.Path(version.path, warm_up.WARM_UP).exists()
  assert version.record
  assert version.record.blessings == {"Evaluator": True, "ServingCheck": True}
  assert version.record.lineage["config"] == "test"
  assert version.record.lineage["model"] == exported[0].uri


def test_a_detectors_figures_are_recorded_with_its_version(exported, blessing, tmp_path):
  evaluation = _artifact(standard_artifacts.ModelEvaluation, tmp_path / "evaluation")
  (tmp_path / "evaluation").mkdir()
  candidate = {
    "average_precision": 0.8125,
    "operating_point": {"recall": 0.75, "precision": None},
    "landmarks": {"mean_error": 0.0625},
  }
  (tmp_path / "evaluation" / "metrics.json").write_text(json.dumps({"detectors": {"candidate": candidate}}))
  _push(exported, tmp_path, infra_blessing=blessing, evaluation=evaluation)
  record = versions.show_version(tmp_path / "models").record
  assert record
  assert record.metrics == {
    "detector": {"average_precision": 0.8125, "recall": 0.75, "landmark_error": 0.0625}
  }


def test_one_gate_that_does_not_bless_is_enough(exported, blessing, tmp_path):
  pushed = _push(exported, tmp_path, infra_blessing=blessing, model_blessing=_judged(tmp_path, False))
  assert pushed.get_int_custom_property("pushed") == 0
  assert not (tmp_path / "models").exists()


def test_the_components_say_what_they_need():
  model = channel_utils.as_channel([standard_artifacts.Model()])
  with pytest.raises(ValueError, match="needs examples or photos"):
    ServingCheck(model, name="pnet")
  with pytest.raises(ValueError, match="keep must be 1 or more"):
    ModelPusher(model, name="pnet", push_directory="models", keep=0)


def test_both_compile_for_kubeflow(tmp_path):
  from tfx.dsl.components.common.importer import Importer
  from tfx.orchestration import pipeline
  from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner as kubeflow

  model = Importer(source_uri="gs://b/model", artifact_type=standard_artifacts.Model).with_id("m")
  examples = Importer(source_uri="gs://b/examples", artifact_type=standard_artifacts.Examples).with_id("e")
  check = ServingCheck(model.outputs["result"], examples.outputs["result"], name="pnet")
  pusher = ModelPusher(
    model.outputs["result"],
    name="pnet",
    push_directory="gs://b/models",
    infra_blessing=check.outputs["blessing"],
  )
  runner = kubeflow.KubeflowV2DagRunner(
    kubeflow.KubeflowV2DagRunnerConfig(), output_dir=str(tmp_path), output_filename="p.json"
  )
  runner.run(
    pipeline.Pipeline(
      pipeline_name="serving", pipeline_root="gs://b/root", components=[model, examples, check, pusher]
    )
  )
  compiled = (tmp_path / "p.json").read_text()
  assert "components.serving_check.executor.Executor" in compiled
  assert "components.model_pusher.executor.Executor" in compiled
