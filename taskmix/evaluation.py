"""How a net is judged: TFMA's EvalConfig derived from the Net, and its results read back.

    every eval example ──► model ──► one output a task
            │                              │
            └── transform_features ──► <task>_mask as the weight of that output

A sample that does not label a task has weight 0 there. Bounds are checked on the
overall slice only: in a slice that a task does not label at all every metric is
0 or NaN, so such a slice neither blesses nor refuses.
"""

import json
import math
from typing import Any

from taskmix.spec import KIND, Bound, Net, Task

# What a task may name in `metrics`: TFMA's or Keras' class. Regressions are
# averaged over the target's values, in the target's own unit.
METRICS = {
  "accuracy": "SparseCategoricalAccuracy",
  "auc": "AUC",
  "mean_absolute_error": "MeanAbsoluteError",
  "mean_squared_error": "MeanSquaredError",
}

# For these the class is not an index but the probability of one class.
_PER_CLASS = ("auc",)

SIGNATURE = "serve_examples"
PREPROCESSING = "transform_features"


def eval_config(net: Net, *, max_worsening: float | None = None) -> Any:
  """What the Evaluator computes and demands.

  Args:
    net: its tasks give outputs, labels, weights, metrics and bounds.
    max_worsening: by how much a bounded metric may be worse than the last
      blessed model's; None compares with no other model.

  Returns:
    A tfma.EvalConfig: overall and for every kind.

  Raises:
    ValueError: if a task names an unknown metric.
  """
  import tensorflow_model_analysis as tfma

  return tfma.EvalConfig(
    model_specs=[
      tfma.ModelSpec(
        signature_name=SIGNATURE,
        label_keys={task.name: task.target.name for task in net.tasks},
        example_weight_keys={task.name: task.mask for task in net.tasks},
        preprocessing_function_names=[PREPROCESSING],
      )
    ],
    slicing_specs=[tfma.SlicingSpec(), tfma.SlicingSpec(feature_keys=[KIND])],
    metrics_specs=[spec for task in net.tasks for spec in _metrics_specs(task, max_worsening)],
  )


def _metrics_specs(task: Task, max_worsening: float | None) -> list[Any]:
  import tensorflow_model_analysis as tfma

  unknown = [metric for metric in task.metrics if metric not in METRICS]
  if unknown:
    raise ValueError(f"task {task.name!r}: no metric {', '.join(unknown)}; there is {', '.join(METRICS)}")
  plain = [metric for metric in task.metrics if metric not in _PER_CLASS]
  specs = [
    tfma.MetricsSpec(
      output_names=[task.name],
      output_weights={task.name: 1.0},
      example_weights=tfma.ExampleWeightOptions(weighted=True),
      metrics=[
        *(_metric_config(task, metric, max_worsening) for metric in plain),
        tfma.MetricConfig(class_name="ExampleCount"),
      ],
    )
  ]
  by_class = [metric for metric in task.metrics if metric in _PER_CLASS]
  if by_class:
    # The last class stands for "yes" of two; of more, all are averaged.
    classes = list(range(len(task.target.classes)))
    options = {"binarize": tfma.BinarizationOptions(class_ids={"values": classes[-1:]})}
    if len(classes) > 2:
      options = {
        "binarize": tfma.BinarizationOptions(class_ids={"values": classes}),
        "aggregate": tfma.AggregationOptions(macro_average=True),
      }
    specs.append(
      tfma.MetricsSpec(
        output_names=[task.name],
        output_weights={task.name: 1.0},
        example_weights=tfma.ExampleWeightOptions(weighted=True),
        metrics=[_metric_config(task, metric, max_worsening) for metric in by_class],
        **options,
      )
    )
  return specs


def _metric_config(task: Task, metric: str, max_worsening: float | None) -> Any:
  import tensorflow_model_analysis as tfma

  config = tfma.MetricConfig(class_name=METRICS[metric], config=json.dumps({"name": metric}))
  for bound in task.bounds:
    if bound.metric == metric:
      config.per_slice_thresholds.append(
        tfma.PerSliceMetricThreshold(
          slicing_specs=[tfma.SlicingSpec()], threshold=_threshold(bound, max_worsening)
        )
      )
  return config


def _threshold(bound: Bound, max_worsening: float | None) -> Any:
  import tensorflow_model_analysis as tfma

  value = tfma.GenericValueThreshold()
  if bound.min is not None:
    value.lower_bound.value = bound.min
  if bound.max is not None:
    value.upper_bound.value = bound.max
  threshold = tfma.MetricThreshold(value_threshold=value)
  if max_worsening is not None:
    rising = bound.max is None
    direction = tfma.MetricDirection.HIGHER_IS_BETTER if rising else tfma.MetricDirection.LOWER_IS_BETTER
    threshold.change_threshold.CopyFrom(
      tfma.GenericChangeThreshold(
        direction=direction, absolute={"value": -max_worsening if rising else max_worsening}
      )
    )
  return threshold


def read_metrics(net: Net, path: str, *, kind: str = "") -> dict[str, dict[str, float]]:
  """The metrics of an evaluation.

  Args:
    net: that was evaluated.
    path: the folder of the ModelEvaluation artifact.
    kind: of one kind's slice; "" is overall.

  Returns:
    task -> metric -> value, NaN where no sample labelled the task; also
    "example_count", the samples that did.
  """
  import tensorflow_model_analysis as tfma

  wanted = ((KIND, kind),) if kind else ()
  by_output: dict[str, Any] = {}
  for key, metrics in tfma.load_eval_result(path).slicing_metrics:
    if tuple(key) == wanted:
      by_output = metrics
  return {task.name: _values(task, by_output.get(task.name, {})) for task in net.tasks}


def _values(task: Task, by_class: dict[str, Any]) -> dict[str, float]:
  found = {
    name: float(value["doubleValue"])
    for metrics in by_class.values()
    for name, value in metrics.items()
    if "doubleValue" in value
  }
  return {name: found.get(name, math.nan) for name in (*task.metrics, "example_count")}


def read_failures(net: Net, path: str) -> list[str]:
  """Why an evaluation did not bless, a line a bound that did not hold.

  Args:
    net: whose bounds they are.
    path: the folder of the ModelEvaluation artifact.
  """
  import tensorflow_model_analysis as tfma

  result = tfma.load_validation_result(path)
  lines = []
  for failed in result.metric_validations_per_slice:
    for failure in failed.failures:
      lines.append(_failure_line(net, failure))
  if not result.validation_ok and not lines:
    missing = [str(slicing).strip() for slicing in result.missing_slices]
    lines.append(f"slices without a result: {', '.join(missing) or 'no metric was computed'}")
  return lines


def _failure_line(net: Net, failure: Any) -> str:
  key = failure.metric_key
  (bound,) = [bound for bound in net.task(key.output_name).bounds if bound.metric == key.name]
  value = failure.metric_value.double_value.value
  if key.is_diff:
    return f"{key.output_name} {key.name}: {value:+.4f} against the last blessed model"
  return f"{key.output_name} {key.name} is {value:.4f}, must be {bound.limits}"
