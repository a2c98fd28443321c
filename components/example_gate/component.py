"""ExampleGate: ExampleValidator writes anomalies and goes on; this stops the run."""

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components.artifacts import GateReport
from components.example_gate import executor
from taskmix.gates import GatePolicy
from taskmix.spec import Net, to_json


class ExampleGateSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {
    "net": component_spec.ExecutionParameter(type=str),
    "policy": component_spec.ExecutionParameter(type=str),
    "reports": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = {
    "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
    "statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics),
    "anomalies": component_spec.ChannelParameter(type=standard_artifacts.ExampleAnomalies),
    # There is none before the first blessed run.
    "blessed_statistics": component_spec.ChannelParameter(
      type=standard_artifacts.ExampleStatistics, optional=True
    ),
  }
  OUTPUTS = {"report": component_spec.ChannelParameter(type=GateReport)}


class ExampleGate(base_component.BaseComponent):
  """Fails, and so ends the run, on findings that the policy does not let pass.

  They are TFDV's anomalies and what TFDV cannot see: one picture in two phases,
  shards that are not the manifest's, columns that contradict each other.

  Components that must not see bad data declare it upstream:
  `transform.add_upstream_node(gate)`.
  """

  SPEC_CLASS = ExampleGateSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(
    self,
    examples: BaseChannel,
    *,
    statistics: BaseChannel,
    anomalies: BaseChannel,
    net: Net,
    policy: GatePolicy,
    blessed_statistics: BaseChannel | None = None,
    reports: str = "",
  ):
    """Wires the gate.

    Args:
      examples: Examples, as a conversion left them, manifest and all.
      statistics: ExampleStatistics of every split.
      anomalies: ExampleAnomalies of every split.
      net: whose columns, kinds and splits the examples must keep to.
      policy: which findings stop the run.
      blessed_statistics: ExampleStatistics of the last blessed run, for the
        policy's `drift`; see `blessed.LastBlessedStatistics`.
      reports: folder for the reports of stopped runs, since TFX removes what a
        failed component wrote; "" keeps none beside the error itself.
    """
    super().__init__(
      ExampleGateSpec(
        examples=examples,
        statistics=statistics,
        anomalies=anomalies,
        blessed_statistics=blessed_statistics,
        net=net.to_json(),
        policy=to_json(policy),
        reports=reports,
        report=channel_utils.as_channel([GateReport()]),
      )
    )
