"""A loopback server of TF Serving's gRPC and REST forms, in one file.

It stands in where neither Docker nor tensorflow_model_server is at hand: to
check a model before it is pushed, and to try a client. It loads a SavedModel as
the real one does - graph, signature and session, no Python objects of the
model - and imports nothing of taskmix, so that `launch` can run it in a process
that does not have taskmix.

    python -m taskmix.serving.server MODELS/pnet --name pnet --rest-port 8501

gRPC: tensorflow.serving.PredictionService Predict and GetModelMetadata,
ModelService GetModelStatus. REST: GET /v1/models/NAME, .../metadata, and POST
/v1/models/NAME[/versions/N]:predict, row ("instances") and column ("inputs")
form. No batching, no TLS: it is for this machine only.
"""

import argparse
import base64
import binascii
import concurrent.futures
import http.server
import json
import math
import os
import pathlib
import re
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import (
  get_model_metadata_pb2,
  get_model_status_pb2,
  model_service_pb2_grpc,
  predict_pb2,
  prediction_log_pb2,
  prediction_service_pb2_grpc,
)

WARM_UP = "assets.extra/tf_serving_warmup_requests"

# A request's size: 256 colour photos of 1,024 x 1,024 pixels are 768 MiB.
MAX_BODY = 1 << 30

_HTTP_STATUS = {
  grpc.StatusCode.INVALID_ARGUMENT: 400,
  grpc.StatusCode.FAILED_PRECONDITION: 400,
  grpc.StatusCode.OUT_OF_RANGE: 400,
  grpc.StatusCode.NOT_FOUND: 404,
  grpc.StatusCode.UNIMPLEMENTED: 501,
}
_STATUS_OF_CODE = {status.value[0]: status for status in grpc.StatusCode}
_PREDICT_PATH = re.compile(r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>\d+))?:predict")
_MODEL_PATH = re.compile(r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>\d+))?(?P<metadata>/metadata)?")


class Refused(Exception):
  """A request that gets no answer: the gRPC status and the reason."""

  def __init__(self, status: grpc.StatusCode, message: str):
    super().__init__(message)
    self.status = status


class Model:
  """One loaded version."""

  def __init__(self, path: pathlib.Path):
    """Loads graph and variables, and replays the warm-up requests.

    Args:
      path: the version's folder; its name is the version.
    """
    self.version = int(path.name)
    graph = tf.Graph()
    self._session = tf.compat.v1.Session(graph=graph)
    with graph.as_default():
      meta = tf.compat.v1.saved_model.load(self._session, [tf.saved_model.SERVING], str(path))
    self.signatures = dict(meta.signature_def)
    self._warm_up(path / WARM_UP)

  def predict(
    self, signature_name: str, inputs: Mapping[str, np.ndarray], wanted: Iterable[str] = ()
  ) -> dict[str, np.ndarray]:
    """The signature's outputs for a batch.

    Raises:
      Refused: if the request does not fit the signature or the graph refuses it.
    """
    signature = self.signature(signature_name)
    feeds = {signature.inputs[name].name: value for name, value in _fitting(signature, inputs).items()}
    wanted = list(wanted) or list(signature.outputs)
    unknown = sorted(set(wanted) - set(signature.outputs))
    if unknown:
      raise _invalid(f"no output {', '.join(unknown)}; there is {', '.join(sorted(signature.outputs))}")
    try:
      values = self._session.run([signature.outputs[name].name for name in wanted], feeds)
    except tf.errors.OpError as error:
      status = _STATUS_OF_CODE.get(error.error_code, grpc.StatusCode.INTERNAL)
      raise Refused(status, error.message.removeprefix("Graph execution error:").strip()) from None
    except UnicodeDecodeError:
      # TensorFlow quoted the input in its refusal, and Python could not read it.
      raise _invalid("the graph refused an input whose bytes are no text") from None
    return dict(zip(wanted, values, strict=True))

  def signature(self, name: str):
    """The SignatureDef of that name; "" is serving_default."""
    name = name or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if name not in self.signatures:
      known = ", ".join(key for key in sorted(self.signatures) if not key.startswith("_"))
      raise Refused(grpc.StatusCode.FAILED_PRECONDITION, f"no signature {name!r}; there is {known}")
    return self.signatures[name]

  def _warm_up(self, path: pathlib.Path) -> None:
    if not path.exists():
      return
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
      request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
      self.predict(request.model_spec.signature_name, _arrays(request))


class Models:
  """The newest version in a folder, loaded; answers go on while another is loaded."""

  def __init__(self, base: pathlib.Path, name: str):
    self.name = name
    self._base = base
    self._model = Model(_newest(base))

  def get(self, name: str, version: str | int | None = None) -> Model:
    """The loaded model; raises Refused if that is not the one asked for."""
    model = self._model
    if name != self.name:
      raise Refused(grpc.StatusCode.NOT_FOUND, f"no model {name!r}; this server has {self.name!r}")
    if version and int(version) != model.version:
      raise Refused(
        grpc.StatusCode.NOT_FOUND, f"no version {version} of {name!r}; this server has {model.version}"
      )
    return model

  def watch(self, seconds: float) -> None:
    """Loads what becomes the newest version; a version that fails leaves the old one serving."""
    while True:
      time.sleep(seconds)
      try:
        newest = _newest(self._base)
        if int(newest.name) != self._model.version:
          self._model = Model(newest)
          print(f"serving version {newest.name}", file=sys.stderr, flush=True)
      except Exception as error:
        print(f"still serving {self._model.version}: {_first_line(error)}", file=sys.stderr, flush=True)


class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
  """gRPC's PredictionService."""

  def __init__(self, models: Models):
    self._models = models

  def Predict(self, request, context):
    try:
      model = self._models.get(request.model_spec.name, request.model_spec.version.value)
      outputs = model.predict(request.model_spec.signature_name, _arrays(request), request.output_filter)
    except Refused as refused:
      context.abort(refused.status, str(refused))
    response = predict_pb2.PredictResponse()
    _name_model(response.model_spec, self._models.name, model.version, request.model_spec.signature_name)
    for name, value in outputs.items():
      response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    return response

  def GetModelMetadata(self, request, context):
    try:
      model = self._models.get(request.model_spec.name, request.model_spec.version.value)
    except Refused as refused:
      context.abort(refused.status, str(refused))
    return _metadata(self._models.name, model)


class Statuses(model_service_pb2_grpc.ModelServiceServicer):
  """gRPC's ModelService: whether the model is there."""

  def __init__(self, models: Models):
    self._models = models

  def GetModelStatus(self, request, context):
    try:
      model = self._models.get(request.model_spec.name, request.model_spec.version.value)
    except Refused as refused:
      context.abort(refused.status, str(refused))
    return _status(model)


class Rest(http.server.BaseHTTPRequestHandler):
  """The REST form; `models` is set by `serve`."""

  models: Models
  protocol_version = "HTTP/1.1"

  def do_GET(self) -> None:
    match = _MODEL_PATH.fullmatch(self.path)
    if not match:
      return self._answer(404, {"error": f"no such page {self.path}"})
    try:
      model = self.models.get(match["name"], match["version"])
    except Refused as refused:
      return self._answer(404, {"error": str(refused)})
    message = _metadata(self.models.name, model) if match["metadata"] else _status(model)
    return self._answer(200, json_format.MessageToDict(message, preserving_proto_field_name=True))

  def do_POST(self) -> None:
    try:
      body = self._body()
      match = _PREDICT_PATH.fullmatch(self.path)
      if not match:
        raise Refused(grpc.StatusCode.NOT_FOUND, f"no such page {self.path}")
      model = self.models.get(match["name"], match["version"])
      return self._answer(200, _rest_predict(model, body))
    except Refused as refused:
      return self._answer(_HTTP_STATUS.get(refused.status, 500), {"error": str(refused)})
    except Exception as error:  # A client is told of our own faults too, rather than cut off.
      return self._answer(500, {"error": f"{type(error).__name__}: {_first_line(error)}"})

  def _body(self) -> bytes:
    length = self.headers.get("Content-Length", "")
    if not length.isdecimal() or int(length) > MAX_BODY:
      self.close_connection = True
      raise _invalid(f"Content-Length must be a number up to {MAX_BODY}, not {length!r}")
    return self.rfile.read(int(length))

  def _answer(self, status: int, content: dict) -> None:
    text = json.dumps(content).encode()
    self.send_response(status)
    self.send_header("Content-Type", "application/json")
    self.send_header("Content-Length", str(len(text)))
    self.end_headers()
    self.wfile.write(text)

  def log_message(self, format: str, *args: Any) -> None:
    """One line a request would be noise."""


def serve(
  base: pathlib.Path,
  name: str,
  *,
  grpc_port: int = 0,
  rest_port: int = 0,
  watch: float = 0,
  until_stdin_ends: bool = False,
) -> None:
  """Serves the newest version in `base` on 127.0.0.1 until the process ends.

  Prints one line of JSON when ready: the ports and the version.

  Args:
    base: folder of numbered versions.
    name: what clients call the model.
    grpc_port, rest_port: 0 takes a free one.
    watch: seconds between looks for a newer version; 0 never looks.
    until_stdin_ends: end when whoever started the process goes, even by kill -9.
  """
  if until_stdin_ends:
    threading.Thread(target=_end_with_stdin, daemon=True).start()
  begin = time.monotonic()
  models = Models(base, name)
  options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
  server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=options)
  prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Predictions(models), server)
  model_service_pb2_grpc.add_ModelServiceServicer_to_server(Statuses(models), server)
  grpc_port = server.add_insecure_port(f"127.0.0.1:{grpc_port}")
  server.start()
  rest = http.server.ThreadingHTTPServer(
    ("127.0.0.1", rest_port), type("BoundRest", (Rest,), {"models": models})
  )
  if watch:
    threading.Thread(target=models.watch, args=(watch,), daemon=True).start()
  ready = {
    "grpc": grpc_port,
    "rest": rest.server_address[1],
    "version": models.get(name).version,
    "load_seconds": time.monotonic() - begin,
  }
  print(json.dumps(ready), flush=True)
  rest.serve_forever()


def _end_with_stdin() -> None:
  # By the descriptor: a reader of sys.stdin would hold its lock when we exit.
  while os.read(0, 1024):
    pass
  os._exit(0)


def _rest_predict(model: Model, body: bytes) -> dict:
  """The answer to a REST predict request, in the form in which it was asked."""
  try:
    request = json.loads(body)
  except (ValueError, RecursionError) as error:
    raise _invalid(f"the body is not JSON: {error}") from None
  if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
    raise _invalid('the body must be an object with either "instances" or "inputs"')
  name = request.get("signature_name", "")
  if not isinstance(name, str):
    raise _invalid("signature_name must be a string")
  signature = model.signature(name)
  if "inputs" in request:
    outputs = model.predict(name, _columns(signature, request["inputs"]))
    values = {key: _plain(key, value) for key, value in outputs.items()}
    return {"outputs": next(iter(values.values())) if len(values) == 1 else values}
  inputs = _rows(signature, request["instances"])
  outputs = model.predict(name, inputs)
  n = len(request["instances"])
  if any(value.ndim == 0 or len(value) != n for value in outputs.values()):
    raise _invalid('an output has no row an instance: ask in the column form, with "inputs"')
  values = {key: _plain(key, value) for key, value in outputs.items()}
  if len(values) == 1:
    return {"predictions": next(iter(values.values()))}
  return {"predictions": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]}


def _columns(signature, inputs: Any) -> dict[str, np.ndarray]:
  """ "inputs": an object of tensors, or the tensor of the only input."""
  if not isinstance(inputs, dict) or set(inputs) == {"b64"}:
    inputs = {_only_input(signature): inputs}
  return {name: _tensor(signature, name, value) for name, value in inputs.items()}


def _rows(signature, instances: Any) -> dict[str, np.ndarray]:
  """ "instances": a list of objects, or of values of the only input."""
  if not isinstance(instances, list) or not instances:
    raise _invalid('"instances" must be a list that is not empty')
  if not isinstance(instances[0], dict) or set(instances[0]) == {"b64"}:
    only = _only_input(signature)
    return {only: _tensor(signature, only, instances)}
  names = set(instances[0])
  if any(not isinstance(row, dict) or set(row) != names for row in instances):
    raise _invalid("every instance must be an object with the same keys")
  return {name: _tensor(signature, name, [row[name] for row in instances]) for name in names}


def _only_input(signature) -> str:
  if len(signature.inputs) != 1:
    raise _invalid(f"name the inputs: {', '.join(sorted(signature.inputs))}")
  return next(iter(signature.inputs))


def _tensor(signature, name: str, value: Any) -> np.ndarray:
  """JSON as an array of the input's dtype; never a silent cast."""
  if name not in signature.inputs:
    raise _invalid(f"no input {name!r}; there is {', '.join(sorted(signature.inputs))}")
  dtype = tf.as_dtype(signature.inputs[name].dtype)
  try:
    if dtype == tf.string:
      return np.array(_decoded(value), dtype=object)
    array = np.array(value)
    # JSON's kinds of number that the dtype takes; an empty list has any.
    kinds = "b" if dtype.is_bool else "iu" if dtype.is_integer else "iuf"
    fits = not array.size or array.dtype.kind in kinds
    cast = array.astype(dtype.as_numpy_dtype) if fits else array
    if not fits or (kinds == "iu" and not np.array_equal(cast, array)):
      raise ValueError(f"values do not fit {dtype.name}")
    return cast
  except (ValueError, TypeError, OverflowError, RecursionError) as error:
    raise _invalid(f"input {name!r} is not a {dtype.name} tensor: {_first_line(error)}") from None


def _decoded(value: Any) -> Any:
  """Nested lists of strings and {"b64": ...} as nested lists of bytes."""
  if isinstance(value, list):
    return [_decoded(item) for item in value]
  if isinstance(value, str):
    return value.encode()
  if isinstance(value, dict) and isinstance(value.get("b64"), str):
    try:
      return base64.b64decode(value["b64"], validate=True)
    except binascii.Error as error:
      raise ValueError(f"bad base64: {error}") from None
  raise ValueError('expected strings or {"b64": ...}')


def _plain(name: str, value: np.ndarray) -> Any:
  """An output for JSON; TF Serving encodes strings whose name ends with _bytes."""
  if value.dtype != object:
    return value.tolist()
  if name.endswith("_bytes"):
    encode = np.vectorize(lambda item: {"b64": base64.b64encode(item).decode()}, otypes=[object])
    return encode(value).tolist() if value.size else []
  try:
    decode = np.vectorize(lambda item: item.decode(), otypes=[object])
    return decode(value).tolist() if value.size else []
  except UnicodeDecodeError:
    raise _invalid(
      f"output {name!r} holds bytes that are no text: JSON carries them only if its name ends with _bytes"
    ) from None


def _fitting(signature, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """The inputs, if they are those of the signature, with its defaults filled in."""
  given = dict(inputs)
  for name, default in getattr(signature, "defaults", {}).items():
    given.setdefault(name, tf.make_ndarray(default))
  if set(given) != set(signature.inputs):
    raise _invalid(
      f"the signature takes {', '.join(sorted(signature.inputs))}, "
      f"and the request gives {', '.join(sorted(given)) or 'nothing'}"
    )
  for name, value in given.items():
    info = signature.inputs[name]
    dtype, shape = tf.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape)
    got = tf.string if value.dtype.kind in "OSU" else tf.as_dtype(value.dtype)
    if got != dtype:
      raise _invalid(f"input {name!r} must be {dtype.name}, not {got.name}")
    if not shape.is_compatible_with(value.shape):
      raise _invalid(f"input {name!r} must have shape {shape}, not {tuple(value.shape)}")
  return given


def _arrays(request) -> dict[str, np.ndarray]:
  return {name: _array(name, proto) for name, proto in request.inputs.items()}


def _array(name: str, proto) -> np.ndarray:
  """A request's tensor; one value with a huge shape would be repeated until memory ends."""
  try:
    sides = [dim.size for dim in proto.tensor_shape.dim]
    size = math.prod(sides) * max(1, tf.as_dtype(proto.dtype).size or 1)
    if size > MAX_BODY or any(side < 0 for side in sides):
      raise ValueError(f"its shape asks for {size} bytes, and {MAX_BODY} is the most")
    return tf.make_ndarray(proto)
  except (TypeError, ValueError) as error:
    raise _invalid(f"input {name!r} cannot be read: {_first_line(error)}") from None


def _metadata(name: str, model: Model):
  response = get_model_metadata_pb2.GetModelMetadataResponse()
  _name_model(response.model_spec, name, model.version, "")
  signatures = get_model_metadata_pb2.SignatureDefMap()
  for key, signature in model.signatures.items():
    signatures.signature_def[key].CopyFrom(signature)
  response.metadata["signature_def"].Pack(signatures)
  return response


def _status(model: Model):
  response = get_model_status_pb2.GetModelStatusResponse()
  one = response.model_version_status.add(version=model.version, state="AVAILABLE")
  one.status.SetInParent()
  return response


def _name_model(spec, name: str, version: int, signature_name: str) -> None:
  spec.name = name
  spec.version.value = version
  spec.signature_name = signature_name


def _newest(base: pathlib.Path) -> pathlib.Path:
  numbers = [int(name) for name in os.listdir(base) if name.isdecimal()]
  if not numbers:
    raise FileNotFoundError(f"{base} holds no version: a folder named by a number")
  return base / str(max(numbers))


def _invalid(message: str) -> Refused:
  return Refused(grpc.StatusCode.INVALID_ARGUMENT, message)


def _first_line(error: Exception) -> str:
  return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def main(arguments: list[str] | None = None) -> None:
  parser = argparse.ArgumentParser(description="Serve a SavedModel on this machine, as TF Serving does.")
  parser.add_argument("base", type=pathlib.Path, help="folder of numbered versions")
  parser.add_argument("--name", default="model", help="what clients call the model")
  parser.add_argument("--grpc-port", type=int, default=0, help="0 takes a free one")
  parser.add_argument("--rest-port", type=int, default=0, help="0 takes a free one")
  parser.add_argument("--watch", type=float, default=0, help="seconds between looks for a newer version")
  parser.add_argument("--until-stdin-ends", action="store_true", help="end with whoever holds stdin open")
  given = parser.parse_args(arguments)
  try:
    serve(
      given.base,
      given.name,
      grpc_port=given.grpc_port,
      rest_port=given.rest_port,
      watch=given.watch,
      until_stdin_ends=given.until_stdin_ends,
    )
  except KeyboardInterrupt:
    sys.exit(130)
  except Exception as error:
    sys.exit(f"cannot serve {given.base}: {type(error).__name__}: {_first_line(error)}")


if __name__ == "__main__":
  main()
