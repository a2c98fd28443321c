"""The work of HardExampleGen."""

from typing import Any

from components import stage_models
from components.crop_example_gen import executor
from taskmix.faces.mining import Miner, Mining
from taskmix.spec import from_json


class Executor(executor.Executor):
  """Converts the net's sources, asking the nets before it about every photo.

  Do's input_dict holds "model_1" and, where there is one, "model_2": Model;
  exec_properties also "mining": Mining as JSON.
  """

  def _mine(self, input_dict: dict[str, list[Any]], exec_properties: dict[str, Any]) -> Miner:
    models = tuple(stage_models.uris(input_dict))
    return Miner(models, from_json(Mining, exec_properties["mining"]))
