"""A model is asked in a clean process, and what is wrong with it is said plainly."""

import dataclasses
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest

from taskmix.serving import launch, operations, policy, reference, warm_up
from taskmix.serving.check import Report, check_model
from taskmix.serving.policy import ServingPolicy
from taskmix.serving.questions import Question, strings
from taskmix.serving.signatures import Spec, read_signatures

QUICK = ServingPolicy(server="loopback", large_batch=32)

# Stands where TensorFlow Serving's binary would, and takes its flags.
_FAKE_BINARY = """#!{python}
import sys
from taskmix.serving import server
flags = dict(flag[2:].split("=", 1) for flag in sys.argv[1:])
server.main([flags["model_base_path"], "--name", flags["model_name"],
             "--grpc-port", flags["port"], "--rest-port", flags["rest_api_port"]])
"""


@pytest.fixture(scope="module")
def good(toy_model, toy_records, tmp_path_factory):
  """(report, pushed form) of a sound model, asked by the loopback server and a stand-in for the real one."""
  folder = tmp_path_factory.mktemp("good")
  binary = folder / "bin" / "tensorflow_model_server"
  binary.parent.mkdir()
  binary.write_text(_FAKE_BINARY.format(python=sys.executable))
  binary.chmod(0o755)
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("PATH", f"{binary.parent}{os.pathsep}{os.environ['PATH']}")
    report = check_model(toy_model, folder / "pushed", examples=toy_records, name="toy")
  return report, folder / "pushed"


def test_a_sound_model_is_blessed_by_every_server(good):
  report, _ = good
  assert report.findings == ()
  assert report.blessed
  assert set(report.measured) == {launch.LOOPBACK, launch.BINARY}
  for measured in report.measured.values():
    assert set(measured) == {"load_seconds", "answer_seconds", "memory_mib"}
    assert 0 < measured["memory_mib"] < 4096


def test_every_signature_was_asked_good_and_bad(good):
  report, _ = good
  assert set(report.asked) == {"serving_default", "serve_examples", "transform_features", "no_such_signature"}
  assert min(report.asked.values()) >= 2 * 2
  assert Report.from_json(report.to_json()) == report


def test_the_pushed_form_has_a_warm_up_for_each_signature_with_its_answers(good):
  _, pushed = good
  recorded = warm_up.read_warm_up(pushed)
  assert [question.signature for question, _ in recorded] == sorted(
    ["serving_default", "serve_examples", "transform_features"] * 2
  )
  for question, answer in recorded:
    assert len(next(iter(answer.values()))) == len(next(iter(question.inputs.values())))


def test_answers_other_than_the_trainers_are_refused_and_budgets_warn(toy_model, toy_records, tmp_path):
  model = tmp_path / "model"
  shutil.copytree(toy_model, model)
  asked = Question("", "serve_examples", {"examples": strings(toy_records[:1])})
  (answer,) = reference.answers(model, [asked])
  in_memory = {**answer, "box": answer["box"] + 0.25}
  warm_up.write_warm_up(model, [asked], answers=[in_memory])
  lenient = dataclasses.replace(QUICK, memory_mib=10, answer_seconds=1e-9, warn=("memory_mib",))

  report = check_model(model, tmp_path / "pushed", examples=toy_records, policy=lenient)

  assert not report.blessed
  found = {(finding.check, finding.severity) for finding in report.findings}
  assert found == {("answers", "stop"), ("memory_mib", "warn"), ("answer_seconds", "stop")}
  assert not report.depends_on_the_machine
  wrong = next(finding for finding in report.findings if finding.check == "answers")
  assert "output 'box' differs from the Trainer's by up to 0.25 in 4 of 4 values" in wrong.detail
  assert "the tolerance is 0.0001" in wrong.detail
  slow = next(finding for finding in report.findings if finding.check == "answer_seconds")
  assert "and the budget is 1e-09 s" in slow.detail


@pytest.fixture(scope="module")
def careless(tmp_path_factory):
  """A model that pads short pictures in silence, and makes NaN of one."""
  import tensorflow as tf

  class Careless(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
      parsed = tf.io.parse_example(examples, {"image": tf.io.FixedLenFeature([], tf.string, "")})
      pixels = tf.cast(tf.io.decode_raw(parsed["image"], tf.uint8, fixed_length=48), tf.float32)
      return {"share": pixels / tf.reduce_max(pixels - pixels, 1, keepdims=True)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "temperature")])
    def unknown(self, temperature):
      return {"double": temperature * 2}

  module = Careless()
  folder = tmp_path_factory.mktemp("careless") / "model"
  signatures = {"serve_examples": module.serve, "unknown": module.unknown}
  tf.saved_model.save(module, str(folder), signatures=signatures)
  return folder


def test_silence_about_bad_requests_and_nan_are_refused_and_an_unasked_signature_is_named(
  careless, toy_records, tmp_path
):
  report = check_model(careless, tmp_path / "pushed", examples=toy_records, policy=QUICK)
  checks = {finding.check for finding in report.stops}
  assert checks == {"bad_requests", "finite"}
  text = "\n".join(map(str, report.findings))
  assert (
    "an example without its bytes features for 'examples' to 'serve_examples' over gRPC was answered" in text
  )
  assert "an example whose bytes are cut short" in text
  assert "unasked: signature 'unknown' was not asked" in text
  assert "nothing that was given fills temperature" in text


@pytest.fixture(scope="module")
def impure(tmp_path_factory):
  """A model whose answer needs a Python function, and leaves a file behind."""
  import tensorflow as tf

  folder = tmp_path_factory.mktemp("impure")

  class Impure(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
      with tf.control_dependencies([tf.io.write_file(str(folder / "left behind"), "x")]):
        return {"length": tf.numpy_function(lambda e: np.array([len(x) for x in e]), [examples], tf.int64)}

  module = Impure()
  tf.saved_model.save(module, str(folder / "model"), signatures={"serve_examples": module.serve})
  return folder / "model"


def test_a_graph_that_does_more_than_compute_is_refused_without_loading_it(impure, toy_records, tmp_path):
  report = check_model(impure, tmp_path / "pushed", examples=toy_records, policy=QUICK)
  assert [str(finding) for finding in report.stops] == [
    "operations: the graph calls Python (PyFunc); a model that answers requests has no need to",
    "operations: the graph writes files (WriteFile); a model that answers requests has no need to",
  ]
  assert not (impure.parent / "left behind").exists()
  with pytest.raises(ValueError, match=r"is not loaded: its graph calls Python \(PyFunc\); writes files"):
    operations.require_pure(impure)


def test_the_operations_that_bring_weights_in_are_no_part_of_an_answer(toy_model, tmp_path):
  import tensorflow as tf

  assert operations.forbidden_operations(toy_model) == []

  class Saver(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
      tf.raw_ops.SaveV2(
        prefix=examples[0], tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)]
      )
      return {"length": tf.strings.length(examples)}

  module = Saver()
  tf.saved_model.save(module, str(tmp_path / "m"), signatures={"serve_examples": module.serve})
  assert operations.forbidden_operations(tmp_path / "m") == ["writes files (SaveV2)"]


def test_a_model_that_needs_python_code_does_not_load_in_a_clean_process(impure, toy_records, tmp_path):
  lenient = dataclasses.replace(QUICK, warn=("operations",))
  report = check_model(impure, tmp_path / "pushed", examples=toy_records, policy=lenient)
  (finding,) = report.stops
  assert finding.check == "load"
  assert "pyfunc" in finding.detail and "exit status 1" in finding.detail
  assert [finding.check for finding in report.findings if finding.severity == "warn"] == ["operations"] * 2


def test_a_broken_model_is_refused_with_the_file_at_fault(toy_model, toy_records, tmp_path):
  shutil.copytree(toy_model, tmp_path / "cut")
  data = next((tmp_path / "cut/variables").glob("*.data*"))
  data.write_bytes(data.read_bytes()[:10])
  report = check_model(tmp_path / "cut", tmp_path / "pushed", examples=toy_records, policy=QUICK)
  (finding,) = report.findings
  assert finding.check == "load" and "cannot be loaded" in finding.detail

  (tmp_path / "cut/saved_model.pb").write_bytes(b"\xff\xff")
  report = check_model(tmp_path / "cut", tmp_path / "pushed", examples=toy_records, policy=QUICK)
  assert "saved_model.pb is broken" in report.findings[0].detail


def test_a_server_that_is_late_is_a_matter_of_the_machine(toy_model, toy_records, tmp_path):
  hasty = dataclasses.replace(QUICK, load_seconds=0.05)
  report = check_model(toy_model, tmp_path / "pushed", examples=toy_records, policy=hasty)
  assert [finding.check for finding in report.findings] == ["load_seconds"]
  assert report.depends_on_the_machine


def test_nothing_real_to_ask_with_is_an_error(toy_model, tmp_path):
  with pytest.raises(ValueError, match="needs real examples or photos"):
    check_model(toy_model, tmp_path / "pushed")


def test_the_clean_process_has_no_taskmix(tmp_path):
  """Neither by its path nor by an installed package."""
  script = tmp_path / "script.py"
  script.write_text("import numpy, sys; print(len(sys.path))\nimport taskmix")
  command = launch._loopback_command(pathlib.Path("base"), "name")
  boot = command[5].replace(str(pathlib.Path(launch.__file__).with_name("server.py")), str(script))
  import subprocess

  ended = subprocess.run([*command[:5], boot], capture_output=True, text=True, timeout=60, check=False)
  assert "must not need the package taskmix" in ended.stderr


def test_signatures_are_read_without_loading_the_model(toy_model):
  signature = read_signatures(toy_model)["serving_default"]
  assert signature.inputs == {"image": Spec("uint8", (None, 4, 4, 3))}
  assert signature.outputs == {"box": Spec("float", (None, 4)), "face": Spec("float", (None, 2))}


def test_a_policy_that_makes_no_sense_names_what_there_is():
  with pytest.raises(ValueError, match=r"no serving check speed; there is operations, load, answers"):
    ServingPolicy(warn=("speed",))
  with pytest.raises(ValueError, match="memory_mib must be positive, not 0"):
    ServingPolicy(memory_mib=0)
  assert set(policy.MEASURED) <= set(policy.CHECKS)


def test_an_answer_that_holds_nothing_is_equal_though_json_lost_its_last_sides():
  from taskmix.serving.check import _difference

  none_found = {"boxes": np.zeros((2, 0, 4), np.float32)}
  assert _difference({"boxes": np.zeros((2, 0), np.float32)}, none_found, 1e-4) == ""
  assert "shape" in _difference({"boxes": np.zeros((1, 0), np.float32)}, none_found, 1e-4)
  assert "shape" in _difference({"boxes": np.zeros((2, 4), np.float32)}, none_found, 1e-4)
