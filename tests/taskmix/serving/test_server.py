"""The loopback server speaks as TensorFlow Serving does, and the documented client is understood."""

import contextlib
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

import grpc
import numpy as np
import psutil
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from taskmix.serving import launch, versions
from taskmix.serving import server as server_module
from taskmix.serving.check import check_model
from taskmix.serving.client import GrpcClient, Refusal, RestClient
from taskmix.serving.policy import ServingPolicy

DOCS = pathlib.Path(__file__).parents[3] / "docs" / "serving.md"
IMAGES = np.arange(2 * 48).reshape(2, 4, 4, 3).astype(np.uint8)


@pytest.fixture(scope="module")
def served(toy_model, tmp_path_factory):
  """(folder of versions, server that watches it)."""
  base = tmp_path_factory.mktemp("base")
  versions.publish(toy_model, base, record=versions.Record("toy"))
  with launch.serving(base, name="toy", watch=0.05) as server:
    yield base, server


def _post(server, body, path="/v1/models/toy:predict"):
  data = body if isinstance(body, bytes) else json.dumps(body).encode()
  try:
    with urllib.request.urlopen(f"http://{server.rest}{path}", data, timeout=30) as response:
      return response.status, json.load(response)
  except urllib.error.HTTPError as error:
    return error.code, json.load(error)


def test_rows_and_columns_give_the_same_answer(served):
  _, server = served
  _, rows = _post(server, {"instances": [{"image": image} for image in IMAGES.tolist()]})
  _, bare = _post(server, {"instances": IMAGES.tolist()})
  _, columns = _post(server, {"inputs": {"image": IMAGES.tolist()}, "signature_name": "serving_default"})
  assert rows == bare
  assert [row["box"] for row in rows["predictions"]] == columns["outputs"]["box"]
  assert np.allclose(np.sum(columns["outputs"]["face"], 1), 1)


def test_grpc_and_rest_agree(served):
  _, server = served
  by_grpc = GrpcClient(server.grpc, "toy").ask("serving_default", {"image": IMAGES}, timeout=30)
  by_rest = RestClient(server.rest, "toy").ask("serving_default", {"image": IMAGES}, timeout=30)
  np.testing.assert_allclose(by_rest["face"], by_grpc["face"], rtol=1e-6)
  assert by_grpc["face"].dtype == np.float32


@pytest.mark.parametrize(
  ("body", "status", "reason"),
  [
    (b"{", 400, "not JSON"),
    (b"[" * 100_000, 400, "not JSON"),
    ({}, 400, 'either "instances" or "inputs"'),
    ({"instances": []}, 400, "a list that is not empty"),
    ({"instances": [{"photo": 1}]}, 400, "no input 'photo'; there is image"),
    ({"instances": [{"image": [[1, 2], [3]]}]}, 400, "is not a uint8 tensor"),
    ({"instances": [{"image": 300}]}, 400, "values do not fit uint8"),
    ({"instances": [{"image": 1}]}, 400, "must have shape"),
    ({"inputs": {"image": "x"}}, 400, "is not a uint8 tensor"),
    ({"instances": ["x"], "signature_name": "gone"}, 400, "no signature 'gone'; there is serve_examples"),
    ({"instances": ["x"], "signature_name": "serve_examples"}, 400, "Could not parse example input"),
    ({"instances": [{"b64": "?"}], "signature_name": "serve_examples"}, 400, "bad base64"),
  ],
)
def test_a_bad_body_is_refused_with_its_reason(served, body, status, reason):
  _, server = served
  got, answer = _post(server, body)
  assert got == status
  assert reason in answer["error"]


def test_a_tensor_whose_shape_asks_for_all_memory_is_refused(served):
  _, server = served
  request = predict_pb2.PredictRequest()
  request.model_spec.name = "toy"
  bomb = request.inputs["image"]
  bomb.CopyFrom(tf.make_tensor_proto(np.zeros((1, 4, 4, 3), np.uint8)))
  bomb.tensor_shape.dim[0].size = 10**12
  with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as error:
    prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=30)
  assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
  assert "asks for 48000000000000 bytes" in error.value.details()


_JSON = st.recursive(
  st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
  lambda inner: (
    st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["b64", "image", "examples", "x"]), inner, max_size=3)
  ),
  max_leaves=12,
)


@pytest.fixture(scope="module")
def loaded(served):
  base, _ = served
  return server_module.Model(base / str(versions.list_versions(base)[-1].number))


@settings(max_examples=200, deadline=None)
@given(
  content=st.binary(max_size=30) | st.dictionaries(st.sampled_from(["instances", "inputs"]), _JSON),
  signature=st.sampled_from(["serving_default", "serve_examples"]),
)
def test_no_body_gets_anything_but_an_answer_or_a_refusal(loaded, content, signature):
  if isinstance(content, dict):
    content = json.dumps({"signature_name": signature, **content}).encode()
  with contextlib.suppress(server_module.Refused):
    server_module._rest_predict(loaded, content)


def test_a_server_ends_with_the_process_that_started_it(toy_model, tmp_path):
  base = tmp_path / "base"
  versions.publish(toy_model, base, record=versions.Record("toy"))
  code = (
    "import sys, time\nfrom taskmix.serving import launch\n"
    "with launch.serving(sys.argv[1]) as server:\n"
    "  print(server._process.pid, flush=True)\n  time.sleep(600)"
  )
  starter = subprocess.Popen([sys.executable, "-c", code, str(base)], stdout=subprocess.PIPE, text=True)
  assert starter.stdout
  served = psutil.Process(int(starter.stdout.readline()))
  starter.kill()
  starter.wait()
  starter.stdout.close()
  assert psutil.wait_procs([served], timeout=30)[1] == []


def test_unknown_models_versions_and_pages_are_not_found(served):
  _, server = served
  for path in ("/v1/models/other:predict", "/v1/models/toy/versions/7:predict", "/"):
    assert _post(server, {"instances": IMAGES.tolist()}, path)[0] == 404


def test_status_and_metadata_are_those_of_tensorflow_serving(served):
  base, server = served
  with urllib.request.urlopen(f"http://{server.rest}/v1/models/toy", timeout=30) as response:
    (status,) = json.load(response)["model_version_status"]
  assert status["state"] == "AVAILABLE"
  assert int(status["version"]) == versions.show_version(base).number
  with urllib.request.urlopen(f"http://{server.rest}/v1/models/toy/metadata", timeout=30) as response:
    metadata = json.load(response)["metadata"]
  assert "serving_default" in metadata["signature_def"]["signature_def"]


def test_a_refusal_over_grpc_has_status_and_reason(served):
  _, server = served
  with pytest.raises(Refusal, match=r"INVALID_ARGUMENT: input 'image' must be uint8, not float") as refusal:
    GrpcClient(server.grpc, "toy").ask("serving_default", {"image": IMAGES / 2}, timeout=30)
  assert refusal.value.client_fault
  with pytest.raises(Refusal, match="NOT_FOUND"):
    GrpcClient(server.grpc, "other").ask("serving_default", {"image": IMAGES}, timeout=30)


def test_a_server_that_is_away_is_no_fault_of_the_client():
  for client in (GrpcClient("127.0.0.1:9", "toy"), RestClient("127.0.0.1:9", "toy")):
    with pytest.raises(Refusal) as refusal:
      client.ask("serving_default", {"image": IMAGES}, timeout=5)
    assert not refusal.value.client_fault


def test_a_watching_server_follows_push_and_rollback_without_a_refusal(served, toy_export, tmp_path):
  base, server = served
  client = GrpcClient(server.grpc, "toy")

  def box() -> float:
    return float(client.ask("serving_default", {"image": IMAGES}, timeout=30)["box"][0, 0])

  def wait_for(value: float) -> None:
    deadline = time.monotonic() + 60
    while abs(box() - value) > 1e-3:
      assert time.monotonic() < deadline, "the server did not follow"

  first = box()
  versions.publish(toy_export(tmp_path / "m", bias=10.0), base, record=versions.Record("toy"))
  wait_for(first + 10)
  versions.rollback(base)
  wait_for(first)


@pytest.fixture(scope="module")
def detector(tmp_path_factory) -> pathlib.Path:
  """A stand-in with a detector's signatures: one face, whose box is the photo."""

  class Detector(tf.Module):
    def one(self, photo):
      return tf.cast(tf.shape(tf.io.decode_image(photo, 3, expand_animations=False)), tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "images")])
    def serve(self, images):
      n = tf.size(images)
      size = tf.map_fn(self.one, images, fn_output_signature=tf.TensorSpec([3], tf.float32))
      corner = tf.zeros([n, 1, 2])
      boxes = tf.concat([corner, size[:, None, 1::-1]], 2)
      points = tf.tile(boxes[:, :, None, 2:] / 2, [1, 1, 5, 1])
      ones = tf.ones([n, 1])
      return {"boxes": boxes, "scores": ones, "landmarks": points, "count": tf.ones([n], tf.int32)}

    @tf.function(
      input_signature=[
        tf.TensorSpec([None, None, 3], tf.uint8, "image"),
        tf.TensorSpec([], tf.float32, "min_face"),
      ]
    )
    def pixels(self, image, min_face):
      return {"mean": tf.reduce_mean(tf.cast(image, tf.float32)) + min_face}

    @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.uint8, "image")])
    def image(self, image):
      return {"size": tf.shape(image)[:2]}

    @tf.function(input_signature=[])
    def options(self):
      return {"min_face": tf.constant(20.0)}

  module = Detector()
  folder = tmp_path_factory.mktemp("detector") / "model"
  signatures = {
    "serving_default": module.serve,
    "detect_image": module.image,
    "detect_image_with_options": module.pixels,
    "options": module.options,
  }
  tf.saved_model.save(module, str(folder), signatures=signatures)
  return folder


def test_a_detector_is_asked_with_photos(detector, demo, tmp_path):
  photos = [path.read_bytes() for path in sorted((demo / "photos").glob("*.jpg"))[:3]]
  report = check_model(
    detector,
    tmp_path / "pushed",
    photos=photos,
    constants={"min_face": 20.0},
    policy=ServingPolicy(server="loopback", large_batch=9),
    name="detector",
  )
  assert report.findings == ()
  signatures = {"serving_default", "detect_image", "detect_image_with_options", "options"}
  assert set(report.asked) == {*signatures, "no_such_signature"}


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> pathlib.Path:
  """The detector of `taskmix import-weights`, where the release is."""
  from taskmix.faces.import_weights import import_weights

  cache = pathlib.Path.home() / ".cache" / "taskmix" / "peers" / "mtcnn-1.0.0"
  installed = all(importlib.util.find_spec(name) for name in ("mtcnn", "lz4"))
  if not installed and not (cache / "mtcnn").is_dir():
    pytest.skip(f"needs the released weights: pip install --no-deps --target {cache} mtcnn==1.0.0 lz4")
  out = tmp_path_factory.mktemp("released")
  return pathlib.Path(import_weights(out, package=None if installed else cache)["detector"])


def test_the_documented_client_finds_the_astronauts_face_with_the_released_detector(
  released, demo, tmp_path, capsys
):
  (script,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
  client: dict = {"__name__": "client"}
  exec(compile(script, str(DOCS), "exec"), client)
  photo = (demo / "photos" / "skimage_astronaut.jpg").read_bytes()
  versions.publish(released, tmp_path / "base", record=versions.Record("detector"))
  with launch.serving(tmp_path / "base", name="detector") as server:
    client["print_faces"](client["ask_grpc"](server.grpc, photo))
    client["print_faces"](client["ask_rest"](server.rest, photo))
  by_grpc, by_rest = capsys.readouterr().out.splitlines()
  assert by_grpc == by_rest
  # Annotated in demo/bbx_gt.txt as 179 57 91 120: x, y, width, height.
  assert re.fullmatch(r"1\.00  box 18\d, 6\d, 26\d, 17\d  left eye 20\d, 1?\d\d", by_grpc)


def test_the_documented_client_prints_the_faces(detector, demo, tmp_path, capsys):
  (script,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
  client: dict = {"__name__": "client"}
  exec(compile(script, str(DOCS), "exec"), client)
  photo = (demo / "photos" / "skimage_astronaut.jpg").read_bytes()
  base = tmp_path / "base"
  versions.publish(detector, base, record=versions.Record("detector"))
  with launch.serving(base, name="detector") as server:
    client["print_faces"](client["ask_grpc"](server.grpc, photo))
    client["print_faces"](client["ask_rest"](server.rest, photo))
    with pytest.raises(SystemExit, match="refused: Unknown image file format"):
      client["ask_rest"](server.rest, b"no photo")
  by_grpc, by_rest = capsys.readouterr().out.splitlines()
  assert by_grpc == by_rest
  assert re.fullmatch(r"1\.00  box 0, 0, \d+, \d+  left eye \d+, \d+", by_grpc)


def test_the_kserve_manifest_serves_what_is_pushed():
  import yaml

  (text,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
  manifest = yaml.safe_load(text)
  assert (manifest["apiVersion"], manifest["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
  model = manifest["spec"]["predictor"]["model"]
  assert model["modelFormat"] == {"name": "tensorflow"}
  assert model["storageUri"].endswith(f"/{manifest['metadata']['name']}")
  assert set(model["resources"]) == {"requests", "limits"}
  # KServe asks by the model's name in the path, which the client gives by default.
  assert f'model="{manifest["metadata"]["name"]}"' in DOCS.read_text()


def test_the_documented_batching_settings_are_those_of_tensorflow_serving():
  (text,) = re.findall(r"```\n(max_batch_size.*?)```", DOCS.read_text(), re.DOTALL)
  settings = dict(re.findall(r"^(\w+) { value: (\d+) }$", text, re.MULTILINE))
  # session_bundle_config.proto, BatchingParameters.
  assert set(settings) == {
    "max_batch_size",
    "batch_timeout_micros",
    "num_batch_threads",
    "max_enqueued_batches",
  }
  assert int(settings["max_batch_size"]) == ServingPolicy().large_batch
