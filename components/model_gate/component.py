"""ModelGate: an Evaluator writes that it does not bless, and goes on; this stops the run."""

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components.artifacts import GateReport
from components.model_gate import executor
from taskmix.spec import Net


class ModelGateSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {"net": component_spec.ExecutionParameter(type=str)}
  INPUTS = {
    "blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
    "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation),
  }
  OUTPUTS = {"report": component_spec.ChannelParameter(type=GateReport)}


class ModelGate(base_component.BaseComponent):
  """Fails, and so ends the run, if the net was not blessed.

  For a net on which others are built; one that is pushed has the ModelPusher's
  own gate. Components that build on the net declare it upstream:
  `mining.add_upstream_node(gate)`.
  """

  SPEC_CLASS = ModelGateSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(self, blessing: BaseChannel, evaluation: BaseChannel, *, net: Net):
    """Wires the gate.

    Args:
      blessing, evaluation: of the Evaluator.
      net: whose bounds it checked.
    """
    super().__init__(
      ModelGateSpec(
        blessing=blessing,
        evaluation=evaluation,
        net=net.to_json(),
        report=channel_utils.as_channel([GateReport()]),
      )
    )
