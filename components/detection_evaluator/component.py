"""DetectionEvaluator: TFX's Evaluator for a whole detector instead of a net."""

import hashlib

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components.detection_evaluator import executor
from taskmix.faces.detect import latest_version
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.sources.files import is_remote
from taskmix.spec import Net, to_json


class DetectionEvaluatorSpec(component_spec.ComponentSpec):
  """What the component reads, writes and is told."""

  PARAMETERS = {
    "net": component_spec.ExecutionParameter(type=str),
    "data_root": component_spec.ExecutionParameter(type=str),
    "policy": component_spec.ExecutionParameter(type=str),
    "reference": component_spec.ExecutionParameter(type=str),
    "fingerprint": component_spec.ExecutionParameter(type=str),
    "wider_lists": component_spec.ExecutionParameter(type=str),
  }
  INPUTS = {
    "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
    "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
    # There is none before the first blessed run.
    "baseline_model": component_spec.ChannelParameter(type=standard_artifacts.Model, optional=True),
  }
  OUTPUTS = {
    "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation),
    "blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
  }


class DetectionEvaluator(base_component.BaseComponent):
  """AP, recall, false alarms and landmark errors of a detector on the photos held out.

  The photos are those that `examples` put into phase eval; pixels and truth come
  from the net's sources. AP counts photos of sources with every face marked
  (those that give negatives); landmark errors come from all that have points.

  `evaluation` holds `metrics.json`, `detections.json` (what became of each
  detection), a PNG for each curve, and `worst.jpg`. The
  blessing is TFX's: its Pusher reads it.
  """

  SPEC_CLASS = DetectionEvaluatorSpec
  EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

  def __init__(
    self,
    model: BaseChannel,
    examples: BaseChannel,
    *,
    net: Net,
    data_root: str,
    policy: DetectionPolicy | None = None,
    baseline_model: BaseChannel | None = None,
    reference: str = "",
    wider_lists: str = "",
  ):
    """Wires the evaluation.

    Args:
      model: Model with a detector, as `taskmix.faces.cascade.Detector.save` writes it.
      examples: Examples of a net of the cascade, as a conversion left them.
      net: that net; its sources are read.
      data_root: folder that their paths start from.
      policy: bounds and thresholds.
      baseline_model: Model with the last blessed detector.
      reference: folder of a detector to compare with, such as the one that
        `taskmix import-weights` writes; "" for none.
      wider_lists: folder of WIDER FACE's validation lists (.mat), where its
        validation photos are among the eval photos; "" for none.

    Raises:
      ValueError: if `reference` is a local folder without a detector.
    """
    super().__init__(
      DetectionEvaluatorSpec(
        model=model,
        examples=examples,
        baseline_model=baseline_model,
        net=net.to_json(),
        data_root=data_root,
        policy=to_json(policy or DetectionPolicy()),
        reference=reference,
        fingerprint=_fingerprint(reference),
        wider_lists=wider_lists,
        evaluation=channel_utils.as_channel([standard_artifacts.ModelEvaluation()]),
        blessing=channel_utils.as_channel([standard_artifacts.ModelBlessing()]),
      )
    )


def _fingerprint(reference: str) -> str:
  """Of the reference's files, for the cache's key; "" for none, or a remote one."""
  if not reference or is_remote(reference):
    return ""
  folder = latest_version(reference)
  digest = hashlib.sha256()
  for path in sorted(path for path in folder.rglob("*") if path.is_file()):
    digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
  return digest.hexdigest()
