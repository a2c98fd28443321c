"""Who wrote an artifact, and from what, by ML Metadata's events."""

import ml_metadata as mlmd
from ml_metadata.proto import metadata_store_pb2

_Event = metadata_store_pb2.Event


def written_by(store: mlmd.MetadataStore, artifact_id: int, node: str) -> list[int]:
  """Ids of the executions of that node that wrote the artifact; none if another node did."""
  events = store.get_events_by_artifact_ids([artifact_id])
  written = [event.execution_id for event in events if event.type == _Event.OUTPUT]
  return [execution for execution in written if _is_of_node(store, execution, node)]


def read_by_writer(store: mlmd.MetadataStore, artifact_id: int, node: str) -> set[int]:
  """Artifacts that the node read when it wrote this one: ids; none if another node wrote it."""
  writers = written_by(store, artifact_id, node)
  events = store.get_events_by_execution_ids(writers) if writers else []
  return {event.artifact_id for event in events if event.type == _Event.INPUT}


def _is_of_node(store: mlmd.MetadataStore, execution_id: int, node: str) -> bool:
  # TFX names a node's context pipeline.node.
  contexts = store.get_contexts_by_execution(execution_id)
  return any(context.type == "node" and context.name.endswith(f".{node}") for context in contexts)
