"""What a SavedModel's graph would do beside computing, read from its file without loading it.

A graph is a program: it can read and write files, call Python, print into a
file, or end the process. None of these has a place in a model that answers
requests, so a graph that holds one is refused before it is loaded.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from taskmix.serving.signatures import read_saved_model

# TensorFlow's names; the same operations come as V2, V3, ...
FORBIDDEN: Mapping[str, str] = {
  **dict.fromkeys(("PyFunc", "PyFuncStateless", "EagerPyFunc"), "calls Python"),
  **dict.fromkeys(("ReadFile", "MatchingFiles", "WholeFileReader", "TextLineReader"), "reads files"),
  **dict.fromkeys(("FixedLengthRecordReader", "TFRecordReader", "LMDBReader"), "reads files"),
  **dict.fromkeys(("TextLineDataset", "TFRecordDataset", "FixedLengthRecordDataset"), "reads files"),
  **dict.fromkeys(("CSVDataset", "ExperimentalCSVDataset", "SqlDataset", "LMDBDataset"), "reads files"),
  **dict.fromkeys(("LoadDataset", "GenerateVocabRemapping", "LoadAndRemapMatrix"), "reads files"),
  **dict.fromkeys(("ExperimentalSqlDataset", "ExperimentalLMDBDataset"), "reads files"),
  **dict.fromkeys(("WriteFile", "SaveDataset", "DatasetToTFRecord", "SnapshotDataset"), "writes files"),
  **dict.fromkeys(("CacheDataset", "CreateSummaryFileWriter", "CreateSummaryDbWriter"), "writes files"),
  "ExperimentalDatasetToTFRecord": "writes files",
  **dict.fromkeys(("DebugIdentity", "DebugNumericSummary", "DebugNanCount"), "writes files or sends data"),
  **dict.fromkeys(("DataServiceDataset", "RegisterDataset", "RemoteCall"), "talks to other machines"),
  "FileSystemSetConfiguration": "changes how files are reached",
  "Abort": "ends the process",
}

# Every SavedModel has these to bring its weights in; its answers must not use them.
_FOR_WEIGHTS = {
  "Save": "writes files",
  "SaveSlices": "writes files",
  "Restore": "reads files",
  "RestoreSlice": "reads files",
  "MergeV2Checkpoints": "moves files",
}


def forbidden_operations(model: str | os.PathLike) -> list[str]:
  """What each forbidden operation is called and does, a line each; [] if there is none.

  Raises:
    ValueError: if the folder holds no SavedModel that can be read.
  """
  found = set()
  for meta in read_saved_model(model).meta_graphs:
    functions = {function.signature.name: function for function in meta.graph_def.library.function}
    everything = [*meta.graph_def.node, *(node for each in functions.values() for node in each.node_def)]
    found |= {_words(node, FORBIDDEN) for node in everything}
    found |= {_words(node, _FOR_WEIGHTS) for node in _answering(meta, functions)}
  return sorted(found - {""})


def require_pure(model: str | os.PathLike) -> None:
  """Raises ValueError if the graph would do more than compute; says what."""
  found = forbidden_operations(model)
  if found:
    raise ValueError(f"{model} is not loaded: its graph {'; '.join(found)}; a model has no need to")


def _words(node: Any, forbidden: Mapping[str, str]) -> str:
  """What a node does; "" if it may."""
  name = node.op
  while name and name not in forbidden:
    # "TFRecordDatasetV2" is a TFRecordDataset, "SaveV2" a Save.
    name, version, number = name.rpartition("V")
    if not version or not number.isdecimal():
      name = ""
  if name:
    return f"{forbidden[name]} ({node.op})"
  if node.op in ("Print", "PrintV2") and node.attr["output_stream"].s.startswith(b"file:"):
    return f"writes files ({node.op})"
  return ""


def _answering(meta: Any, functions: Mapping[str, Any]) -> Iterator[Any]:
  """Every node that a signature's answer depends on, in the graph and in the functions that it calls."""
  nodes = {node.name: node for node in meta.graph_def.node}
  outputs = [info.name for each in meta.signature_def.values() for info in each.outputs.values()]
  reached, todo = set(), [_node_name(name) for name in outputs]
  called: set[str] = set()
  while todo:
    name = todo.pop()
    if name in reached or name not in nodes:
      continue
    reached.add(name)
    yield nodes[name]
    todo += [_node_name(each) for each in nodes[name].input]
    called.update(_functions_of([nodes[name]]))
  entered: set[str] = set()
  while called - entered:
    name = (called - entered).pop()
    entered.add(name)
    if name in functions:
      yield from functions[name].node_def
      called.update(_functions_of(functions[name].node_def))


def _functions_of(nodes: Iterable[Any]) -> Iterator[str]:
  for node in nodes:
    yield node.op  # A function can be called by its name as well.
    for value in node.attr.values():
      yield from filter(None, (value.func.name, *(each.name for each in value.list.func)))


def _node_name(tensor: str) -> str:
  """Of "name:0" or "^name"."""
  return tensor.lstrip("^").partition(":")[0]
