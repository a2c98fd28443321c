"""ImportSchemaGen in a pipeline of its own: a schema that was edited is not that of the run before."""

from tfx.orchestration import metadata
from tfx.orchestration import pipeline as tfx_pipeline

from components.import_schema_gen import ImportSchemaGen
from pipeline.local import NarratingDagRunner, Step
from taskmix import schema
from taskmix.nets.mtcnn import PNET


def _run(file, folder) -> tuple[bool, str]:
  """Whether the schema came from the cache, and what it is."""
  steps: list[Step] = []
  pipeline = tfx_pipeline.Pipeline(
    "schemas",
    str(folder / "artifacts"),
    metadata_connection_config=metadata.sqlite_metadata_connection_config(str(folder / "metadata.sqlite")),
    components=[ImportSchemaGen(schema_file=str(file))],
    enable_cache=True,
  )
  NarratingDagRunner(began=lambda name: None, ended=steps.append).run(pipeline)
  (step,) = steps
  (artifact,) = step.outputs["schema"]
  return step.cached, f"{artifact.uri}/schema.pbtxt"


def test_an_edited_schema_meets_no_stale_cache(tmp_path):
  file = tmp_path / "pnet.pbtxt"
  schema.write_schema(PNET, file)
  cached, first = _run(file, tmp_path)
  assert not cached
  assert _run(file, tmp_path) == (True, first)
  edited = schema.read_schema(file)
  edited.feature[0].presence.min_fraction = 0.5
  file.write_text(str(edited))
  cached, second = _run(file, tmp_path)
  assert not cached
  assert schema.read_schema(second) == edited
