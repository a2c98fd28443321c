"""Which statistics to compare with: those of the data that the last blessed model was judged on."""

import ml_metadata as mlmd
from tfx.dsl.components.common import resolver
from tfx.types import Artifact

from components.lineage import read_by_writer


class LastBlessedStatistics(resolver.ResolverStrategy):
  """Follows the lineage of the newest blessing back to its examples, and on to their statistics.

      ModelBlessing <- Evaluator <- Examples -> StatisticsGen -> ExampleStatistics

  By lineage and not by run: a run that took its examples from the cache shares
  them with the run that made them.

      Resolver(
        strategy_class=LastBlessedStatistics,
        config={"statistics_gen": "StatisticsGen", "evaluator": "Evaluator"},
        statistics=Channel(type=ExampleStatistics),
        blessing=Channel(type=ModelBlessing),
      )

  The channels name no producer: that would make the run's own Evaluator come
  before its gate. Gives empty lists where no model has been blessed. For a local
  runner: Kubeflow's compiler knows TFX's own strategies alone.
  """

  def __init__(self, statistics_gen: str, evaluator: str):
    """Takes the ids of the components whose outputs count."""
    self._statistics_gen, self._evaluator = statistics_gen, evaluator

  def resolve_artifacts(
    self, store: mlmd.MetadataStore, input_dict: dict[str, list[Artifact]]
  ) -> dict[str, list[Artifact]]:
    """Of the candidates under "statistics" and "blessing", the newest that belong together."""
    examples = {artifact.id for artifact in store.get_artifacts_by_type("Examples")}
    for blessing in _newest_first(input_dict["blessing"]):
      if blessing.get_int_custom_property("blessed") != 1:
        continue
      judged_on = read_by_writer(store, blessing.id, self._evaluator) & examples
      for statistics in _newest_first(input_dict["statistics"]):
        # StatisticsGen and Evaluator may both have read a schema too.
        if judged_on & read_by_writer(store, statistics.id, self._statistics_gen):
          return {"statistics": [statistics], "blessing": [blessing]}
    return {"statistics": [], "blessing": []}


def _newest_first(artifacts: list[Artifact]) -> list[Artifact]:
  return sorted(artifacts, key=lambda artifact: artifact.id, reverse=True)
