"""How a net is judged: TFMA's EvalConfig derived from the Net, and its results read back.

    every eval example ──► model ──► one output a task
            │                              │
            └── transform_features ──► <task>_mask as the weight of that output
                                       <column>_slice, what the example is told apart by

A sample that does not label a task has weight 0 there. Bounds are checked on the
overall slice only: in a slice that a task does not label at all every metric is
0 or NaN, so such a slice neither blesses nor refuses.
"""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

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

CHECKS = {
  "bounds": "a metric keeps the `min` and `max` of its bound",
  "worsening": "a metric is not worse than the last blessed model's by more than `max_worsening`",
}
"""What an Evaluator refuses by, and what its policy may turn into a warning."""

OVERALL = ("", "")
"""The slice of all examples; others are (column, name): ("kind", "pos"), ("face_size", "20 to 40")."""

_COUNT = "example_count"

Metrics = dict[str, dict[str, float]]
"""task -> metric -> value, NaN where no sample labelled the task; also
"example_count", the samples that did."""


@dataclasses.dataclass(frozen=True)
class EvaluationPolicy:
  """Which checks of a model's metrics refuse it, and which only warn.

  Attributes:
    warn: of CHECKS: what does not hold is reported, and the model is blessed.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  warn: tuple[str, ...] = ()

  def __post_init__(self):
    unknown = sorted(set(self.warn) - set(CHECKS))
    if unknown:
      raise ValueError(f"no check of an evaluation {', '.join(unknown)}; there is {', '.join(CHECKS)}")


def eval_config(net: Net, policy: EvaluationPolicy = EvaluationPolicy()) -> Any:
  """What the Evaluator computes and demands.

  Args:
    net: its tasks give outputs, labels, weights, metrics and bounds, its columns
      the slices.
    policy: what it warns of, the config does not demand.

  Returns:
    A tfma.EvalConfig: overall, for every kind, and for every slice of a column.

  Raises:
    ValueError: if a task names an unknown metric.
  """
  import tensorflow_model_analysis as tfma

  sliced = [KIND, *(column.slice_column for column in net.columns if column.slices)]
  return tfma.EvalConfig(
    model_specs=[
      tfma.ModelSpec(
        signature_name=SIGNATURE,
        preprocessing_function_names=[PREPROCESSING],
        **_keys(net),
      )
    ],
    slicing_specs=[tfma.SlicingSpec(), *(tfma.SlicingSpec(feature_keys=[key]) for key in sliced)],
    metrics_specs=[spec for task in net.tasks for spec in _metrics_specs(net, task, policy)],
  )


def _keys(net: Net) -> dict[str, Any]:
  """Label and weight columns; TFMA takes a single output out of its dict, and then wants plain names."""
  if len(net.tasks) == 1:
    return {"label_key": net.tasks[0].target.name, "example_weight_key": net.tasks[0].mask}
  return {
    "label_keys": {task.name: task.target.name for task in net.tasks},
    "example_weight_keys": {task.name: task.mask for task in net.tasks},
  }


def _output(net: Net, task: Task) -> str:
  """What TFMA calls the task's output."""
  return task.name if len(net.tasks) > 1 else ""


def _metrics_specs(net: Net, task: Task, policy: EvaluationPolicy) -> list[Any]:
  import tensorflow_model_analysis as tfma

  unknown = [metric for metric in task.metrics if metric not in METRICS]
  if unknown:
    raise ValueError(f"task {task.name!r}: no metric {', '.join(unknown)}; there is {', '.join(METRICS)}")
  output = _output(net, task)
  named = {"output_names": [output], "output_weights": {output: 1.0}} if output else {}
  plain = [metric for metric in task.metrics if metric not in _PER_CLASS]
  specs = [
    tfma.MetricsSpec(
      example_weights=tfma.ExampleWeightOptions(weighted=True),
      **named,
      metrics=[*(_metric_config(task, metric, policy) for metric in plain), _count_config()],
    )
  ]
  by_class = [metric for metric in task.metrics if metric in _PER_CLASS]
  if by_class:
    # The last class stands for "yes" of two; of more, all are averaged.
    classes = list(range(len(task.target.classes)))
    options = {"binarize": tfma.BinarizationOptions(class_ids={"values": classes[-1:]})}
    if len(classes) > 2:
      options = {
        "aggregate": tfma.AggregationOptions(macro_average=True, class_weights=dict.fromkeys(classes, 1.0)),
      }
    specs.append(
      tfma.MetricsSpec(
        example_weights=tfma.ExampleWeightOptions(weighted=True),
        **named,
        metrics=[_metric_config(task, metric, policy) for metric in by_class],
        **options,
      )
    )
  return specs


def _count_config() -> Any:
  """The count, with a threshold that always holds: TFX blesses nothing where there is none at all."""
  import tensorflow_model_analysis as tfma

  config = tfma.MetricConfig(class_name="ExampleCount")
  _bound_overall(config, tfma.MetricThreshold(value_threshold={"lower_bound": {"value": 0.0}}))
  return config


def _metric_config(task: Task, metric: str, policy: EvaluationPolicy) -> Any:
  import tensorflow_model_analysis as tfma

  config = tfma.MetricConfig(class_name=METRICS[metric], config=json.dumps({"name": metric}))
  for bound in task.bounds:
    threshold = _threshold(bound, policy)
    if bound.metric == metric and threshold.ByteSize():
      _bound_overall(config, threshold)
  return config


def _bound_overall(config: Any, threshold: Any) -> None:
  import tensorflow_model_analysis as tfma

  # By slice: a plain `threshold` holds for every one, fully masked ones too.
  config.per_slice_thresholds.append(
    tfma.PerSliceMetricThreshold(slicing_specs=[tfma.SlicingSpec()], threshold=threshold)
  )


def _threshold(bound: Bound, policy: EvaluationPolicy) -> Any:
  """The bound as TFMA's, without what the policy only warns of."""
  import tensorflow_model_analysis as tfma

  threshold = tfma.MetricThreshold()
  if "bounds" not in policy.warn:
    if bound.min is not None:
      threshold.value_threshold.lower_bound.value = bound.min
    if bound.max is not None:
      threshold.value_threshold.upper_bound.value = bound.max
  if bound.max_worsening is not None and "worsening" not in policy.warn:
    rising = bound.higher_is_better
    threshold.change_threshold.direction = (
      tfma.MetricDirection.HIGHER_IS_BETTER if rising else tfma.MetricDirection.LOWER_IS_BETTER
    )
    threshold.change_threshold.absolute.value = -bound.max_worsening if rising else bound.max_worsening
  return threshold


def analyse(net: Net, model: str, *, examples: str, results: str) -> None:
  """Judges a SavedModel on raw examples by TFMA, as TFX's Evaluator does.

  Args:
    net: that the model was trained for.
    model: folder of its SavedModel, with `transform_features`.
    examples: pattern of TFRecord files.
    results: folder to make; `read_metrics` and its kin read it.
  """
  import tensorflow_model_analysis as tfma

  config = eval_config(net)
  tfma.run_model_analysis(
    eval_shared_model=tfma.default_eval_shared_model(model, eval_config=config),
    eval_config=config,
    data_location=examples,
    output_path=results,
  )


def read_metrics(net: Net, path: str, *, kind: str = "") -> Metrics:
  """The metrics of an evaluation.

  Args:
    net: that was evaluated.
    path: the folder of the ModelEvaluation artifact.
    kind: of one kind's slice; "" is overall.
  """
  return read_slices(net, path).get((KIND, kind) if kind else OVERALL, _none(net))


def read_slices(net: Net, path: str, *, baseline: bool = False) -> dict[tuple[str, str], Metrics]:
  """The metrics of an evaluation, slice by slice: OVERALL, then kinds, then those of columns.

  Args:
    net: that was evaluated.
    path: the folder of the ModelEvaluation artifact.
    baseline: those of the last blessed model; {} where it was compared with none.
  """
  return _read(net, path, baseline=baseline)


def read_baseline(net: Net, path: str) -> Metrics | None:
  """The last blessed model's metrics on the same samples; None where it was compared with none."""
  found = _read(net, path, baseline=True)
  return found[OVERALL] if found else None


def _read(net: Net, path: str, *, baseline: bool) -> dict[tuple[str, str], Metrics]:
  import tensorflow_model_analysis as tfma

  models = {spec.name: spec.is_baseline for spec in tfma.load_eval_result(path).config.model_specs}
  # One model has no name; of two, each has TFMA's.
  names = [name for name, is_baseline in models.items() if is_baseline == baseline]
  if not names:
    return {}
  found = {
    _slice_of(net, key): {task.name: _values(task, metrics.get(_output(net, task), {})) for task in net.tasks}
    for key, metrics in tfma.load_eval_result(path, model_name=names[0] or None).slicing_metrics
  }
  return {key: found[key] for key in slices(net) if key in found}


def slices(net: Net) -> list[tuple[str, str]]:
  """Every slice that an evaluation of the net may have."""
  columns = [(column.name, name) for column in net.columns for name in column.slice_names]
  return [OVERALL, *((KIND, kind) for kind in net.mixture.names), *columns]


def _slice_of(net: Net, key: Any) -> tuple[str, str]:
  """Of TFMA's slice key: () or ((feature, value),)."""
  if not key:
    return OVERALL
  ((feature, value),) = key
  names = {column.slice_column: column.name for column in net.columns if column.slices}
  return names.get(str(feature), str(feature)), str(value)


def _values(task: Task, by_class: Mapping[str, Any]) -> dict[str, float]:
  found = {}
  for metrics in by_class.values():
    for name, value in metrics.items():
      if "doubleValue" in value:
        # An average over classes goes by "macro_average: true\n_auc"; its classes come before it.
        found[name.rpartition("\n_")[2]] = float(value["doubleValue"])
  return {name: found.get(name, math.nan) for name in (*task.metrics, _COUNT)}


def _none(net: Net) -> Metrics:
  return {task.name: dict.fromkeys((*task.metrics, _COUNT), math.nan) for task in net.tasks}


def read_failures(net: Net, path: str) -> list[str]:
  """Why an evaluation did not bless, a line a number that broke its bound; none if it did.

  Args:
    net: whose bounds they are.
    path: the folder of the ModelEvaluation artifact.
  """
  import tensorflow_model_analysis as tfma

  result = tfma.load_validation_result(path)
  if result.validation_ok:
    return []
  lines = []
  for failed in result.metric_validations_per_slice:
    for failure in failed.failures:
      lines.append(_failure_line(net, path, failure))
  if not lines:
    missing = [str(slicing).strip() for slicing in result.missing_slices]
    lines.append(f"slices without a result: {', '.join(missing) or 'no metric was computed'}")
  return lines


def _failure_line(net: Net, path: str, failure: Any) -> str:
  key = failure.metric_key
  task = net.task(key.output_name or net.tasks[0].name)
  (bound,) = [bound for bound in task.bounds if bound.metric == key.name]
  value = read_metrics(net, path)[task.name][bound.metric]
  if not key.is_diff:
    return _beyond_bound(task, bound, value)
  baseline = (read_baseline(net, path) or _none(net))[task.name][bound.metric]
  return _worse(task, bound, value, baseline)


def read_warnings(net: Net, path: str, policy: EvaluationPolicy) -> list[str]:
  """What does not hold and was let pass by the policy, a line a number, as `read_failures`."""
  metrics, baseline = read_metrics(net, path), read_baseline(net, path)
  lines = []
  for task, bound in _bounds(net):
    value = metrics[task.name][bound.metric]
    if "bounds" in policy.warn and not bound.holds(value):
      lines.append(_beyond_bound(task, bound, value))
    if "worsening" in policy.warn and baseline and bound.max_worsening is not None:
      before = baseline[task.name][bound.metric]
      if not bound.worsening(value, before) <= bound.max_worsening:
        lines.append(_worse(task, bound, value, before))
  return lines


def _bounds(net: Net) -> Iterator[tuple[Task, Bound]]:
  return ((task, bound) for task in net.tasks for bound in task.bounds)


def _beyond_bound(task: Task, bound: Bound, value: float) -> str:
  return f"{task.name} {bound.metric} is {value:.4f}, must be {bound.limits}"


def _worse(task: Task, bound: Bound, value: float, baseline: float) -> str:
  return (
    f"{task.name} {bound.metric} is {value:.4f}, the last blessed model's {baseline:.4f}: worse by "
    f"{bound.worsening(value, baseline):.4f}, may be by {bound.max_worsening:g} at most"
  )
