"""A model is compared with the last blessed one before it, never with itself."""

import pytest
from tfx.types import standard_artifacts

from components.baseline import CANDIDATE, LastOtherBlessedModel


def _model(number: int):
  model = standard_artifacts.Model()
  model.id = number
  return model


def _blessing(model: int, *, blessed: bool):
  blessing = standard_artifacts.ModelBlessing()
  blessing.set_int_custom_property("current_model_id", model)
  blessing.set_int_custom_property("blessed", int(blessed))
  return blessing


@pytest.mark.parametrize(
  ("models", "blessed", "candidate", "baseline"),
  [
    ([1], {}, 1, None),  # the first run
    ([1], {1: True}, 1, None),  # the first run again, from the cache
    ([1, 2], {1: True}, 2, 1),
    ([1, 2], {1: True, 2: True}, 2, 1),  # the second run again
    ([1, 2, 3], {1: True, 2: False}, 3, 1),  # the second was refused
  ],
)
def test_the_baseline_is_the_last_other_blessed_model(models, blessed, candidate, baseline):
  found = LastOtherBlessedModel().resolve_artifacts(
    None,  # type: ignore[arg-type]
    {
      "model": [_model(number) for number in models],
      "model_blessing": [_blessing(number, blessed=verdict) for number, verdict in blessed.items()],
      CANDIDATE: [_model(candidate)],
    },
  )
  assert [model.id for model in found["model"]] == ([] if baseline is None else [baseline])
