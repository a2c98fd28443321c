"""Requests that a model is asked before it is served: real ones, and bad ones.

Made from a signature's specs alone, so that they fit every net, and the
detector too.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from taskmix.serving.signatures import Signature, Spec

Expectation = Literal["answer", "refusal", "either"]

GARBAGE = b"\x00\xffthis is no example and no picture\xfe"

# The head of a PNG of 10 GB, which a careless decoder would make room for.
_BOMB = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xea\x60\0\0\xea\x60\x08\x02\0\0\0\x0f\xb0\xe2\x15"


@dataclasses.dataclass(frozen=True)
class Question:
  """One request, and what a sound server does with it.

  Attributes:
    about: what is special about it, for reports: "7 real examples".
    signature: that is asked.
    inputs: name -> array; strings as object arrays of bytes.
    expect: "answer"; "refusal", as the client's fault; or "either" of them,
      but no crash, no silence and no fault of the server.
    rows: whether axis 0 of every input is the batch.
  """

  about: str
  signature: str
  inputs: Mapping[str, np.ndarray]
  expect: Expectation = "answer"
  rows: bool = False


def from_examples(
  signature: Signature, records: Sequence[bytes], *, constants: Mapping[str, Any] | None = None
) -> dict[str, np.ndarray] | None:
  """The inputs that ask `signature` about serialized tf.Examples.

  A lone vector of strings takes the examples as they are; any other input takes
  the feature of its name.

  Args:
    signature: of the model.
    records: serialized tf.Examples, one an item.
    constants: input -> value, of those that no example fills.

  Returns:
    name -> array with one row a record; None if they cannot fill it.
  """
  inputs, open_inputs = _constants(signature, constants)
  if len(open_inputs) == 1:
    ((name, spec),) = open_inputs.items()
    if _is_strings(spec):
      return {**inputs, name: strings(records)}
  features = [_features(record) for record in records]
  for name, spec in open_inputs.items():
    rows = [_feature_as(spec, found.get(name)) for found in features]
    if not rows or any(row is None for row in rows):
      return None
    inputs[name] = np.stack([row for row in rows if row is not None])
  return inputs


def from_photos(
  signature: Signature, photos: Sequence[bytes], *, constants: Mapping[str, Any] | None = None
) -> dict[str, np.ndarray] | None:
  """The inputs that ask `signature` about encoded photos.

  A vector of strings takes the files; an image tensor [h, w, 3] the first
  picture; a batch of images [n, h, w, 3] all of them at its size, or the first
  where its size is open.

  Args:
    signature: of the model.
    photos: JPEG or PNG files.
    constants: input -> value, of those that no photo fills.

  Returns:
    name -> array; None if they cannot fill it.
  """
  inputs, open_inputs = _constants(signature, constants)
  if not open_inputs:
    return inputs
  if len(open_inputs) != 1:
    return None
  ((name, spec),) = open_inputs.items()
  if _is_strings(spec):
    return {**inputs, name: strings(photos)}
  if spec.shape is None or len(spec.shape) not in (3, 4) or spec.shape[-1] not in (3, None):
    return None
  dtype = _numpy_dtype(spec)
  height, width = spec.shape[-3:-1]
  if len(spec.shape) == 3:
    return {**inputs, name: _picture(photos[0], height, width).astype(dtype)}
  # Pictures of an open size cannot share a batch.
  chosen = photos if height and width else photos[:1]
  return {**inputs, name: np.stack([_picture(photo, height, width) for photo in chosen]).astype(dtype)}


def real_questions(
  name: str, inputs: Mapping[str, np.ndarray], *, large_batch: int, batched: bool = True
) -> list[Question]:
  """One example, all, and the large batch: the real ones over and over.

  Args:
    name: the signature's.
    inputs: what fills it, one row an example.
    large_batch: rows of the largest request.
    batched: whether axis 0 is the batch; else there is the one question.
  """
  if not batched:
    return [Question("a real example", name, inputs)]
  n = _rows(inputs)
  return [
    Question("one real example", name, _take(inputs, [0]), rows=True),
    Question(f"{n} real examples", name, inputs, rows=True),
    Question(f"a batch of {large_batch}", name, _take(inputs, np.arange(large_batch) % n), rows=True),
  ]


def bad_questions(
  signature: Signature, inputs: Mapping[str, np.ndarray], *, photos: bool = False
) -> list[Question]:
  """Requests as careless and hostile clients send them.

  Args:
    signature: that is asked.
    inputs: a good request for it.
    photos: whether its strings are photos rather than examples. A model may say
      "no face" to a broken photo rather than fail the batch it came in.
  """
  name = signature.name
  some = _take(inputs, [0]) if is_batched(signature) else dict(inputs)
  asked = []
  if is_batched(signature):
    asked.append(
      Question("an empty batch", name, {key: value[:0] for key, value in inputs.items()}, "either")
    )
  for key, value in some.items():
    spec = signature.inputs[key]

    def changed(about: str, array: Any, expect: Expectation = "refusal", key: str = key) -> None:
      asked.append(Question(f"{about} for {key!r}", name, {**some, key: array}, expect))

    changed("the wrong dtype", _other_dtype(value))
    if spec.shape is not None:
      changed("one axis too many", value[..., np.newaxis])
    if spec.dtype == "string":
      changed("garbage bytes", strings([GARBAGE]), "either" if photos else "refusal")
      changed("empty bytes", strings([b""]), "either" if photos else "refusal")
      changed(
        "a cut-off record", strings([value[0][: len(value[0]) // 2]]), "either" if photos else "refusal"
      )
      if photos:
        changed("a picture that promises 60,000 x 60,000 pixels", strings([_BOMB]), "either")
      else:
        if _has_bytes(value[0]):
          changed("an example without its bytes features", strings([_without_bytes(value[0])]))
          # A signature that passes bytes on, as TFMA's does, need not look into them.
          passes_on = any(output.dtype == "string" for output in signature.outputs.values())
          changed(
            "an example whose bytes are cut short",
            strings([_with_short_bytes(value[0])]),
            "either" if passes_on else "refusal",
          )
        changed("an example whose features have another dtype", strings([_retyped(value[0])]))
    elif spec.shape and len(spec.shape) > 1 and spec.shape[1]:
      changed("a side too long", np.concatenate([value, value[:, :1]], axis=1))
  if some:
    asked.append(Question("no input", name, {}, "refusal"))
  asked.append(
    Question("an input of another name", name, {**some, "no_such_input": strings([b"x"])}, "refusal")
  )
  return [dataclasses.replace(question, rows=is_batched(signature)) for question in asked]


def stray_question(inputs: Mapping[str, np.ndarray]) -> Question:
  """A signature that no model has."""
  return Question("an unknown signature", "no_such_signature", inputs, "refusal")


def strings(items: Sequence[bytes]) -> np.ndarray:
  """Bytes as the object array [n] that TensorFlow takes for strings."""
  array = np.empty(len(items), object)
  array[:] = list(items)
  return array


def is_batched(signature: Signature) -> bool:
  """Whether axis 0 of every input that must be given is the batch: open, and not a picture's height."""
  needed = signature.needed.values()
  return bool(needed) and all(
    spec.shape and spec.shape[0] is None and not (len(spec.shape) == 3 and spec.shape[-1] == 3)
    for spec in needed
  )


def _constants(
  signature: Signature, constants: Mapping[str, Any] | None
) -> tuple[dict[str, np.ndarray], dict[str, Spec]]:
  """The needed inputs that are given as constants, and those that are not."""
  given = constants or {}
  needed = signature.needed
  fixed = {name: np.array(given[name], _numpy_dtype(needed[name])) for name in needed if name in given}
  return fixed, {name: spec for name, spec in needed.items() if name not in fixed}


def _numpy_dtype(spec: Spec) -> Any:
  """NumPy's name of TensorFlow's DT_ name."""
  return {"string": object, "float": "float32", "double": "float64", "half": "float16"}.get(
    spec.dtype, spec.dtype
  )


def _is_strings(spec: Spec) -> bool:
  return spec.dtype == "string" and (spec.shape is None or len(spec.shape) == 1)


def _take(inputs: Mapping[str, np.ndarray], rows: Any) -> dict[str, np.ndarray]:
  return {name: value[rows] for name, value in inputs.items()}


def _rows(inputs: Mapping[str, np.ndarray]) -> int:
  return len(next(iter(inputs.values())))


def _other_dtype(value: np.ndarray) -> np.ndarray:
  """The array as a dtype to which no sound server casts: half-way floats, or numbers for strings."""
  if value.dtype == object:
    return np.full(value.shape, 0.5, np.float32)
  if value.dtype.kind == "f":
    return np.full(value.shape, b"0.5", object)
  return np.full(value.shape, 0.5, np.float32)


def _features(record: bytes) -> Mapping[str, Any]:
  from tensorflow.core.example import example_pb2

  return example_pb2.Example.FromString(record).features.feature


def _feature_as(spec: Spec, feature: Any) -> np.ndarray | None:
  """One row of an input from the feature of its name; None if it does not fit."""
  if feature is None or spec.shape is None:
    return None
  kind = feature.WhichOneof("kind")
  values = getattr(feature, kind).value if kind else []
  row_shape = [-1 if size is None else size for size in spec.shape[1:]]
  try:
    if kind == "bytes_list" and spec.dtype != "string":
      flat = np.frombuffer(values[0], _numpy_dtype(spec))
    elif spec.dtype == "string":
      flat = strings(list(values))
    else:
      flat = np.array(values, _numpy_dtype(spec))
    return flat.reshape(row_shape)
  except (ValueError, IndexError, TypeError):
    return None


def _has_bytes(record: bytes) -> bool:
  return any(feature.HasField("bytes_list") for feature in _features(record).values())


def _without_bytes(record: bytes) -> bytes:
  """The tf.Example without its pictures and strings."""
  from tensorflow.core.example import example_pb2

  example = example_pb2.Example.FromString(record)
  for name in [name for name, value in example.features.feature.items() if value.HasField("bytes_list")]:
    del example.features.feature[name]
  return example.SerializeToString(deterministic=True)


def _with_short_bytes(record: bytes) -> bytes:
  """The tf.Example with half of the bytes of its pictures and strings."""
  from tensorflow.core.example import example_pb2

  example = example_pb2.Example.FromString(record)
  for feature in example.features.feature.values():
    if feature.HasField("bytes_list"):
      feature.bytes_list.value[:] = [value[: len(value) // 2] for value in feature.bytes_list.value]
  return example.SerializeToString(deterministic=True)


def _retyped(record: bytes) -> bytes:
  """The tf.Example with numbers for its bytes, and bytes for its numbers."""
  from tensorflow.core.example import example_pb2

  example = example_pb2.Example.FromString(record)
  for feature in example.features.feature.values():
    if feature.HasField("bytes_list"):
      feature.int64_list.value[:] = [1, 2, 3]
    else:
      feature.bytes_list.value[:] = [b"1"]
  return example.SerializeToString(deterministic=True)


def _picture(photo: bytes, height: int | None, width: int | None) -> np.ndarray:
  """The photo as uint8 RGB [height, width, 3]; its own size where that is open."""
  import cv2

  pixels = cv2.imdecode(np.frombuffer(photo, np.uint8), cv2.IMREAD_COLOR)
  if pixels is None:
    raise ValueError("a photo to ask the model about cannot be decoded: give JPEG or PNG files")
  if height and width:
    pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
  return np.ascontiguousarray(pixels[..., ::-1])
