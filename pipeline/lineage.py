"""From a pushed model back to the photos, by ML Metadata."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from pipeline.folders import RunFolder
from taskmix.examples import manifest
from taskmix.sources.files import join


@dataclasses.dataclass(frozen=True)
class Ancestor:
  """An artifact that a model was made from.

  Attributes:
    type: of the artifact: "Examples", "Model", ...
    component: that wrote it.
    uri: its folder.
  """

  type: str
  component: str
  uri: str


@dataclasses.dataclass(frozen=True)
class Photo:
  """A photo that a model was trained or evaluated on.

  Attributes:
    image_id: its path below the data folder.
    phase: "train" or "eval".
    content: hash of its decoded pixels, 16 hexadecimal digits.
  """

  image_id: str
  phase: str
  content: str


def ancestors(folder: RunFolder, version: pathlib.Path) -> list[Ancestor]:
  """All that the pushed version was made from, the nearest first.

  Args:
    folder: of the run that pushed it.
    version: the pushed version's folder.

  Raises:
    ValueError: if the run folder has no metadata, or knows no such version.
  """
  import ml_metadata as mlmd
  from ml_metadata.proto import metadata_store_pb2 as pb

  if not folder.metadata.is_file():
    raise ValueError(f"no {folder.metadata}: lineage is told from the run folder that pushed the model")
  config = pb.ConnectionConfig()
  config.sqlite.filename_uri = str(folder.metadata)
  config.sqlite.connection_mode = pb.SqliteMetadataSourceConfig.READONLY
  store = mlmd.MetadataStore(config)
  wanted = str(version.resolve())
  pushed = [
    artifact.id
    for artifact in store.get_artifacts_by_type("PushedModel")
    if artifact.custom_properties["pushed_destination"].string_value == wanted
  ]
  if not pushed:
    raise ValueError(f"{folder.metadata} knows no push to {wanted}")
  return list(_walk(store, pushed))


def photos(found: list[Ancestor]) -> list[Photo]:
  """The photos of all examples among the ancestors, each once."""
  seen: dict[Photo, None] = {}
  for ancestor in found:
    # Transform's examples are made from others, and list no photos.
    if ancestor.type == "Examples" and os.path.exists(join(ancestor.uri, manifest.PHOTOS)):
      image_ids, phases, prints = manifest.read_photos(ancestor.uri)
      for image_id, phase, content in zip(image_ids, phases, prints.content.tolist(), strict=True):
        seen[Photo(image_id, phase, f"{content:016x}")] = None
  return list(seen)


def text(found: list[Ancestor]) -> str:
  """A line an ancestor, and how many photos they come from."""
  lines = [f"{ancestor.type:<22}{ancestor.component:<28}{ancestor.uri}" for ancestor in found]
  pictures = photos(found)
  counts = ", ".join(
    f"{sum(photo.phase == phase for photo in pictures)} {phase}" for phase in ("train", "eval")
  )
  return "\n".join([*lines, f"{len(pictures)} photos: {counts}"])


def _walk(store: Any, start: list[int]) -> Iterator[Ancestor]:
  """Breadth first over inputs of the executions that wrote each artifact."""
  from ml_metadata.proto import metadata_store_pb2 as pb

  types = {each.id: each.name for each in store.get_artifact_types()}
  seen, level = set(start), start
  while level:
    events = store.get_events_by_artifact_ids(level)
    writers = {event.execution_id for event in events if event.type == pb.Event.OUTPUT}
    read = store.get_events_by_execution_ids(sorted(writers)) if writers else []
    level = sorted({event.artifact_id for event in read if event.type == pb.Event.INPUT} - seen)
    seen.update(level)
    for artifact in store.get_artifacts_by_id(level):
      yield Ancestor(types[artifact.type_id], _writer(store, artifact.id), artifact.uri)


def _writer(store: Any, artifact_id: int) -> str:
  """The component that wrote the artifact first: a cached execution only hands it on."""
  from ml_metadata.proto import metadata_store_pb2 as pb

  events = [
    event for event in store.get_events_by_artifact_ids([artifact_id]) if event.type == pb.Event.OUTPUT
  ]
  if not events:
    return ""
  contexts = store.get_contexts_by_execution(min(event.execution_id for event in events))
  nodes = [context.name for context in contexts if context.type == "node"]
  return nodes[0].partition(".")[2] if nodes else ""
