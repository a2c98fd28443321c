"""Which model a new one is compared with."""

import ml_metadata as mlmd
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import LatestBlessedModelStrategy
from tfx.types import Artifact

from components.lineage import written_by

CANDIDATE = "candidate"


class LastOtherBlessedModel(LatestBlessedModelStrategy):
  """The latest blessed model that is not the candidate itself.

      Resolver(
        strategy_class=LastOtherBlessedModel,
        config={"producer": "Trainer-pnet"},
        model=Channel(type=Model),
        model_blessing=Channel(type=ModelBlessing),
        candidate=trainer.outputs["model"],
      )

  TFX's own strategy gives, to a run that takes its model from the cache, that
  very model as the baseline: a comparison with itself, and a new input that
  makes the Evaluator run again. And it takes the latest of whatever net.
  """

  def __init__(self, producer: str):
    """Takes the id of the component whose models count."""
    self._producer = producer

  def resolve_artifacts(
    self, store: mlmd.MetadataStore, input_dict: dict[str, list[Artifact]]
  ) -> dict[str, list[Artifact]] | None:
    """Of the candidates under "model" and "model_blessing"; empty lists where none is blessed."""
    candidates = {artifact.id for artifact in input_dict[CANDIDATE]}
    others = {
      "model": [
        model
        for model in input_dict["model"]
        if model.id not in candidates and written_by(store, model.id, self._producer)
      ],
      "model_blessing": input_dict["model_blessing"],
    }
    found = super().resolve_artifacts(store, others) or {"model": [], "model_blessing": []}
    return {**found, CANDIDATE: input_dict[CANDIDATE]}
