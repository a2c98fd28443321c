"""Runs a pipeline on this machine and says what happens, a line a component."""

import dataclasses
import datetime
import os
import time
from collections.abc import Callable

from ml_metadata.proto import metadata_store_pb2
from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration.local import local_dag_runner, runner_utils
from tfx.orchestration.portable import launcher, runtime_parameter_utils
from tfx.orchestration.portable.mlmd import execution_lib
from tfx.proto.orchestration import pipeline_pb2
from tfx.types import Artifact

from taskmix.examples import manifest


@dataclasses.dataclass(frozen=True)
class Step:
  """One component's end.

  Attributes:
    component: its id in the pipeline.
    seconds: that it took.
    cached: whether its outputs come from an earlier run.
    outputs: output key -> its artifacts.
  """

  component: str
  seconds: float
  cached: bool
  outputs: dict[str, list[Artifact]]


class ComponentError(RuntimeError):
  """A component failed; the cause says why."""

  def __init__(self, component: str):
    super().__init__(f"{component} failed")
    self.component = component


class NarratingDagRunner(local_dag_runner.LocalDagRunner):
  """A LocalDagRunner that tells when each component begins and how it ended, and reports whatever happens."""

  def __init__(
    self,
    *,
    began: Callable[[str], None],
    ended: Callable[[Step], None],
    failed: Callable[["ComponentError"], None] = lambda error: None,
    report: str = "",
    unreported: Callable[[Exception], None] = lambda error: None,
  ):
    """Says what happens.

    Args:
      began: called with the id of each component before it runs.
      ended: called after each that succeeded or came from the cache.
      failed: called before the report, with what ends the run.
      report: id of the component that runs though another failed, and whose own
        failure fails no run; "" for none.
      unreported: called with why the report could not be written.
    """
    super().__init__()
    self._began, self._ended, self._failed = began, ended, failed
    self._report, self._unreported = report, unreported

  def run_with_ir(
    self, pipeline: pipeline_pb2.Pipeline, run_options: pipeline_pb2.RunOptions | None = None
  ) -> None:
    """Runs every node in order.

    Raises:
      ComponentError: from what a component raised.
      ValueError: if part of the pipeline is asked for.
    """
    if run_options is not None:
      raise ValueError("partial runs are not supported: the cache skips what is done")
    runtime_parameter_utils.substitute_runtime_parameter(
      pipeline, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: datetime.datetime.now().isoformat()}
    )
    deployment = runner_utils.extract_local_deployment_config(pipeline)
    connection = deployment.metadata_connection_config
    store = metadata.Metadata(getattr(connection, connection.WhichOneof("connection_config")))
    examples: list[str] = []

    def run(node: pipeline_pb2.PipelineNode) -> Step:
      name = node.node_info.id
      begin = time.monotonic()
      self._began(name)
      work = launcher.Launcher(
        pipeline_node=node,
        mlmd_connection=store,
        pipeline_info=pipeline.pipeline_info,
        pipeline_runtime_spec=pipeline.runtime_spec,
        executor_spec=runner_utils.extract_executor_spec(deployment, name),
        custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, name),
      )
      try:
        for folder in examples if name != self._report else ():
          _require_whole(folder)
        execution = work.launch()
      except Exception as error:
        raise ComponentError(name) from error
      cached, outputs = _result(store, execution.execution_id if execution else None)
      return Step(name, time.monotonic() - begin, cached, outputs)

    nodes = {wrapped.pipeline_node.node_info.id: wrapped.pipeline_node for wrapped in pipeline.nodes}
    report = nodes.pop(self._report, None)
    try:
      for node in nodes.values():
        step = run(node)
        examples += [each.uri for made in step.outputs.values() for each in made if _is_conversion(each)]
        self._ended(step)
    except ComponentError as error:
      self._failed(error)
      self._write_report(report, run)
      raise
    self._write_report(report, run)

  def _write_report(
    self, node: pipeline_pb2.PipelineNode | None, run: Callable[[pipeline_pb2.PipelineNode], Step]
  ) -> None:
    try:
      if node is not None:
        self._ended(run(node))
    except ComponentError as error:
      self._unreported(error)


def _is_conversion(artifact: Artifact) -> bool:
  """Whether it holds examples with a manifest, on this machine."""
  return os.path.isfile(os.path.join(artifact.uri, manifest.MANIFEST))


def _require_whole(folder: str) -> None:
  """Raises ValueError if a shard has lost or won bytes since the conversion.

  Before every component: those of TFX read a shard that was cut off between two
  records to its end, and judge or train on what is left.
  """
  manifest.require_sizes(folder, manifest.read_manifest(folder))


def _result(store: metadata.Metadata, execution_id: int | None) -> tuple[bool, dict[str, list[Artifact]]]:
  """Whether the execution came from the cache, and its outputs."""
  if execution_id is None:
    return False, {}
  with store as handle:
    (execution,) = handle.store.get_executions_by_id([execution_id])
    outputs = execution_lib.get_output_artifacts(handle, execution_id)
  cached = execution.last_known_state == metadata_store_pb2.Execution.CACHED
  return cached, {key: list(artifacts) for key, artifacts in outputs.items()}
