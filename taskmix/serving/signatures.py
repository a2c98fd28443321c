"""What a SavedModel can be asked, read from its file without loading it."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

# TensorFlow's own initialiser; nobody asks it.
_INTERNAL = "__saved_model_init_op"

_FILE = "saved_model.pb"


@dataclasses.dataclass(frozen=True)
class Spec:
  """A tensor: TensorFlow's name of its dtype, and its shape, None where it is open.

  `shape` itself is None if even the rank is open.
  """

  dtype: str
  shape: tuple[int | None, ...] | None


@dataclasses.dataclass(frozen=True)
class Signature:
  """One entry of a SavedModel.

  Attributes:
    inputs, outputs: name -> spec.
    defaults: input -> the value that it has where a request leaves it out.
  """

  name: str
  inputs: Mapping[str, Spec]
  outputs: Mapping[str, Spec]
  defaults: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

  @property
  def needed(self) -> dict[str, Spec]:
    """The inputs that a request must give."""
    return {name: spec for name, spec in self.inputs.items() if name not in self.defaults}


def read_signatures(model: str | os.PathLike) -> dict[str, Signature]:
  """The serving signatures of a SavedModel, by name.

  Raises:
    ValueError: if the folder holds no SavedModel that can be read.
  """
  import tensorflow as tf

  found = {}
  for meta in read_saved_model(model).meta_graphs:
    if "serve" in meta.meta_info_def.tags:
      for name, proto in meta.signature_def.items():
        if name != _INTERNAL:
          defaults = {key: tf.make_ndarray(value) for key, value in proto.defaults.items()}
          found[name] = Signature(name, _specs(proto.inputs), _specs(proto.outputs), defaults)
  if not found:
    raise ValueError(
      f"{pathlib.Path(model, _FILE)} has no serving signature: export it with signatures={{...}}"
    )
  return dict(sorted(found.items()))


def read_saved_model(model: str | os.PathLike) -> Any:
  """The SavedModel's proto; nothing is loaded or run.

  Raises:
    ValueError: if the folder holds none that can be read.
  """
  from google.protobuf.message import DecodeError
  from tensorflow.core.protobuf import saved_model_pb2

  path = pathlib.Path(model, _FILE)
  if not path.is_file():
    raise ValueError(f"{model} is no SavedModel: it has no {_FILE}")
  try:
    return saved_model_pb2.SavedModel.FromString(path.read_bytes())
  except DecodeError as error:
    raise ValueError(f"{path} is broken: {error}") from None


def _specs(infos) -> dict[str, Spec]:
  from tensorflow.core.framework import types_pb2

  return {
    name: Spec(types_pb2.DataType.Name(info.dtype)[len("DT_") :].lower(), _shape(info.tensor_shape))
    for name, info in sorted(infos.items())
  }


def _shape(proto) -> tuple[int | None, ...] | None:
  if proto.unknown_rank:
    return None
  return tuple(None if dim.size < 0 else dim.size for dim in proto.dim)
