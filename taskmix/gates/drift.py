"""How far columns have moved: since the last blessed run, or from train to eval.

TFDV measures it: the Jensen-Shannon divergence of two columns' values, from 0,
the same distribution, to 1, none in common. A column of many values an example,
such as landmarks, is taken as one heap of values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from taskmix.gates.findings import Finding
from taskmix.gates.policy import Limit
from taskmix.schema import schema_of
from taskmix.spec import Net, split_name

DRIFT, SKEW = "DRIFT", "SKEW"


def drift_findings(
  net: Net, statistics: Mapping[str, Any], previous: Mapping[str, Any], limits: Sequence[Limit]
) -> list[Finding]:
  """Columns that moved since an earlier run by more than their limit, split by split.

  Args:
    net: whose columns they are.
    statistics: split -> TFDV's DatasetFeatureStatisticsList of this run.
    previous: the same of the earlier run; splits that it lacks are not compared.
    limits: a column each.
  """
  schema = _schema(net, limits, "drift_comparator")
  return [
    Finding(DRIFT, split, column, f"moved since the last blessed run: {description}")
    for split, ours in sorted(statistics.items())
    if _counted(ours) and split in previous and _counted(previous[split])
    for column, description in _far(ours, schema, previous_statistics=previous[split])
  ]


def skew_findings(net: Net, statistics: Mapping[str, Any], limits: Sequence[Limit]) -> list[Finding]:
  """Columns that differ between train and eval by more than their limit, kind by kind.

  Args: as `drift_findings`.
  """
  schema = _schema(net, limits, "skew_comparator")
  found = []
  for kind in net.mixture.names:
    ours, theirs = (statistics.get(split_name(phase, kind)) for phase in ("train", "eval"))
    if _counted(ours) and _counted(theirs):
      found += [
        Finding(SKEW, split_name("eval", kind), column, f"is not as in train: {description}")
        for column, description in _far(ours, schema, serving_statistics=theirs)
      ]
  return found


def _schema(net: Net, limits: Sequence[Limit], comparator: str) -> Any:
  schema = schema_of(net)
  by_column = {limit.column: limit.divergence for limit in limits}
  for feature in schema.feature:
    if feature.name in by_column:
      getattr(feature, comparator).jensen_shannon_divergence.threshold = by_column[feature.name]
  return schema


def _counted(statistics: Any) -> bool:
  return statistics is not None and bool(statistics.datasets) and statistics.datasets[0].num_examples > 0


def _far(statistics: Any, schema: Any, **others: Any) -> list[tuple[str, str]]:
  """(column, description) of each comparison that is above its limit."""
  import tensorflow_data_validation as tfdv
  from tensorflow_metadata.proto.v0 import anomalies_pb2

  # The rest of the schema is ExampleValidator's business.
  above = anomalies_pb2.AnomalyInfo.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH
  anomalies = tfdv.validate_statistics(statistics, schema, **others)
  return [
    (column, reason.description)
    for column, info in sorted(anomalies.anomaly_info.items())
    for reason in info.reason
    if reason.type == above
  ]
