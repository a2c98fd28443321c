"""Exact, step-addressed, resumable batches of several kinds of example.

  from taskmix import mixing
  batches = mixing.dataset(mixture, files, columns, batch_size=896, seed=1)

Independent of faces and of TFX: `docs/mixing.md` tells it by examples. Names are
imported when they are first used, so that the arithmetic
(`taskmix.mixing.sampler`) needs no TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from taskmix.mixing.audit import Audit, ContractError
  from taskmix.mixing.augment import Augmentation
  from taskmix.mixing.batches import Engine, Feed, dataset, feed
  from taskmix.mixing.processes import PythonMapError, python_map
  from taskmix.mixing.sampler import Sampler, Worker
  from taskmix.mixing.shards import Expected, ShardError, preflight

_HOME = {
  "Audit": "audit",
  "Augmentation": "augment",
  "ContractError": "audit",
  "Engine": "batches",
  "Expected": "shards",
  "Feed": "batches",
  "PythonMapError": "processes",
  "Sampler": "sampler",
  "ShardError": "shards",
  "Worker": "sampler",
  "dataset": "batches",
  "feed": "batches",
  "preflight": "shards",
  "python_map": "processes",
}

__all__ = [
  "Audit",
  "Augmentation",
  "ContractError",
  "Engine",
  "Expected",
  "Feed",
  "PythonMapError",
  "Sampler",
  "ShardError",
  "Worker",
  "dataset",
  "feed",
  "preflight",
  "python_map",
]


def __getattr__(name: str) -> object:
  if name not in _HOME:
    raise AttributeError(f"taskmix.mixing has no {name!r}; it has {', '.join(__all__)}")
  value = getattr(importlib.import_module(f"taskmix.mixing.{_HOME[name]}"), name)
  globals()[name] = value
  return value
