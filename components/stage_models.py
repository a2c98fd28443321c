"""The models of a cascade's stages as inputs of a component: model_1, model_2, model_3."""

from collections.abc import Sequence
from typing import Any

from tfx.types import component_spec, standard_artifacts
from tfx.types.channel import BaseChannel

from components.serving_check.executor import served_model_uri

# A cascade has at most three nets.
MOST = 3


def parameters(most: int) -> dict[str, component_spec.ChannelParameter]:
  """For a component's INPUTS; all but the first are optional."""
  return {
    _key(place): component_spec.ChannelParameter(type=standard_artifacts.Model, optional=place > 0)
    for place in range(most)
  }


def channels(models: Sequence[BaseChannel], *, most: int) -> dict[str, BaseChannel]:
  """For a component's spec.

  Raises:
    ValueError: if there is no model, or more than `most`.
  """
  if not 1 <= len(models) <= most:
    raise ValueError(f"one to {most} models, not {len(models)}")
  return {_key(place): model for place, model in enumerate(models)}


def uris(input_dict: dict[str, list[Any]]) -> list[str]:
  """The folders of the SavedModels, in the order of the stages."""
  keys = [_key(place) for place in range(MOST)]
  return [served_model_uri(input_dict[key]) for key in keys if input_dict.get(key)]


def _key(place: int) -> str:
  return f"model_{place + 1}"
