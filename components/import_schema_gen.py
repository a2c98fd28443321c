"""TFX's ImportSchemaGen, which notices that the schema was edited.

TFX keys its cache by the file's path: a curated schema that was mended, as the
ExampleGate asks for, would be that of the run before.
"""

import hashlib
import pathlib

from tfx.components.schema_gen.import_schema_gen import component
from tfx.dsl.components.base import executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts, standard_component_specs

_SPEC = standard_component_specs.ImportSchemaGenSpec


class ImportSchemaGenSpec(component_spec.ComponentSpec):
  """TFX's own, and the hash of the file's content."""

  PARAMETERS = {**_SPEC.PARAMETERS, "fingerprint": component_spec.ExecutionParameter(type=str)}
  INPUTS = _SPEC.INPUTS
  OUTPUTS = _SPEC.OUTPUTS


class ImportSchemaGen(component.ImportSchemaGen):
  """Brings a curated schema into the pipeline."""

  SPEC_CLASS = ImportSchemaGenSpec
  EXECUTOR_SPEC: executor_spec.ExecutorClassSpec = component.ImportSchemaGen.EXECUTOR_SPEC

  def __init__(self, schema_file: str):
    """
    Args:
      schema_file: a tensorflow_metadata Schema as text (.pbtxt).
    """
    # Past TFX's own __init__, which makes a spec without the fingerprint.
    super(component.ImportSchemaGen, self).__init__(
      spec=ImportSchemaGenSpec(
        schema_file=schema_file,
        fingerprint=hashlib.sha256(pathlib.Path(schema_file).read_bytes()).hexdigest(),
        schema=channel_utils.as_channel([standard_artifacts.Schema()]),
      )
    )
