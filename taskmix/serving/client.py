"""Asks a model server over gRPC or REST, with NumPy arrays in and out."""

import base64
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

# Statuses that put a request down to its sender.
_CLIENT_FAULTS = ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND", "OUT_OF_RANGE", "UNIMPLEMENTED")


class Refusal(Exception):
  """A request that got no answer.

  Attributes:
    status: gRPC's name of the status, or "HTTP 400".
    client_fault: whether the server calls the request wrong, rather than
      failing, being away or being late.
  """

  def __init__(self, status: str, message: str, *, client_fault: bool):
    super().__init__(f"{status}: {message.strip().splitlines()[0] if message.strip() else 'no reason given'}")
    self.status = status
    self.client_fault = client_fault


class Client(Protocol):
  """One way of asking one model."""

  form: str

  def ask(
    self, signature: str, inputs: Mapping[str, np.ndarray], *, timeout: float, rows: bool = False
  ) -> dict[str, np.ndarray]:
    """Output name -> array.

    Args:
      signature: its name.
      inputs: name -> array; strings as object arrays of bytes.
      timeout: seconds.
      rows: whether axis 0 of every input is the batch, so that JSON may hold a
        list of instances; the column form fits all.

    Raises:
      Refusal: if no answer came within `timeout` seconds.
    """
    ...


class GrpcClient:
  """TF Serving's PredictionService.Predict."""

  form = "gRPC"

  def __init__(self, address: str, model: str):
    """Connects.

    Args:
      address: host:port.
      model: the name under which it is served.
    """
    import grpc
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    # The default of 4 MiB a message is less than a batch of photos.
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    self._channel = grpc.insecure_channel(address, options=options)
    self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
    self._model = model

  def ask(
    self, signature: str, inputs: Mapping[str, np.ndarray], *, timeout: float, rows: bool = False
  ) -> dict[str, np.ndarray]:
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = self._model
    request.model_spec.signature_name = signature
    for name, value in inputs.items():
      request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    try:
      response = self._stub.Predict(request, timeout=timeout)
    except grpc.RpcError as error:
      code = error.code().name  # type: ignore[attr-defined]
      raise Refusal(code, error.details() or "", client_fault=code in _CLIENT_FAULTS) from None  # type: ignore[attr-defined]
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}

  def close(self) -> None:
    self._channel.close()


class RestClient:
  """TF Serving's REST predict, in row or column form."""

  form = "REST"

  def __init__(self, address: str, model: str):
    """Nothing is sent yet.

    Args:
      address: host:port.
      model: the name under which it is served.
    """
    self._url = f"http://{address}/v1/models/{model}:predict"
    # Never by a proxy of the environment: the server is on this machine.
    self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

  def ask(
    self, signature: str, inputs: Mapping[str, np.ndarray], *, timeout: float, rows: bool = False
  ) -> dict[str, np.ndarray]:
    body = json.dumps({"signature_name": signature, **_json_inputs(inputs, rows)}).encode()
    request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
    try:
      with self._open(request, timeout=timeout) as response:
        content = json.load(response)
    except urllib.error.HTTPError as error:
      text = error.read().decode(errors="replace")
      with contextlib.suppress(ValueError, KeyError, TypeError):
        text = json.loads(text)["error"]
      raise Refusal(f"HTTP {error.code}", text, client_fault=400 <= error.code < 500) from None
    except (OSError, ValueError) as error:
      raise Refusal("no answer", str(error), client_fault=False) from None
    return _arrays(content)

  def close(self) -> None:
    """Nothing is kept open."""


def rest_can_carry(outputs: Mapping[str, np.ndarray]) -> bool:
  """Whether JSON can hold these outputs: strings only as text, or named *_bytes."""
  return all(
    value.dtype != object or name.endswith("_bytes") or _is_text(value) for name, value in outputs.items()
  )


def _is_text(value: np.ndarray) -> bool:
  try:
    for item in value.ravel():
      item.decode()
  except (UnicodeDecodeError, AttributeError):
    return False
  return True


def _json_inputs(inputs: Mapping[str, np.ndarray], rows: bool) -> dict[str, Any]:
  """Rows if they are wanted and there are any, else columns."""
  lengths = {len(value) if value.ndim else 0 for value in inputs.values()}
  columns = {name: _json(value) for name, value in inputs.items()}
  if not rows or len(lengths) != 1 or lengths == {0}:
    return {"inputs": columns}
  instances = zip(*columns.values(), strict=True)
  return {"instances": [dict(zip(columns, row, strict=True)) for row in instances]}


def _json(value: np.ndarray) -> Any:
  if value.dtype != object:
    return value.tolist()
  encoded = np.vectorize(lambda item: {"b64": base64.b64encode(item).decode()}, otypes=[object])
  return encoded(value).tolist() if value.size else []


def _arrays(content: Any) -> dict[str, np.ndarray]:
  """The answer's arrays; a lone output has no name in JSON and is called ""."""
  if not isinstance(content, dict) or not ("outputs" in content or "predictions" in content):
    raise Refusal("no answer", f"neither outputs nor predictions in {str(content)[:80]}", client_fault=False)
  if "predictions" in content:
    rows = content["predictions"]
    if rows and isinstance(rows[0], dict) and set(rows[0]) != {"b64"}:
      return {name: _array([row[name] for row in rows]) for name in rows[0]}
    return {"": _array(rows)}
  columns = content["outputs"]
  if isinstance(columns, dict) and set(columns) != {"b64"}:
    return {name: _array(value) for name, value in columns.items()}
  return {"": _array(columns)}


def _array(value: Any) -> np.ndarray:
  array = np.array(_bytes(value))
  return array.astype(object) if array.dtype.kind == "S" else array


def _bytes(value: Any) -> Any:
  if isinstance(value, list):
    return [_bytes(item) for item in value]
  if isinstance(value, str):
    return value.encode()
  if isinstance(value, dict) and "b64" in value:
    return base64.b64decode(value["b64"])
  return value
