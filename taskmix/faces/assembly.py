"""From the Trainers' SavedModels to a detector."""

from collections.abc import Sequence

import numpy as np

from taskmix.faces.cascade import Detector, Options
from taskmix.faces.stages import Stage
from taskmix.model import serving
from taskmix.model.build import build


def assemble(models: Sequence[str], *, options: Options | None = None) -> Detector:
  """The nets of a cascade as one detector.

  Args:
    models: folders of SavedModels that `taskmix.model.serving.export` wrote, in
      the order in which the nets see a photo.
    options: the detector's defaults.

  Raises:
    ValueError: if a folder is none of these, or its net has no face or box task.
  """
  return Detector([_stage(path, first=not place) for place, path in enumerate(models)], options=options)


def _stage(path: str, *, first: bool) -> Stage:
  trained = serving.load(path)
  model = trained.model
  if first:
    # Of the same weights in the same order, but open in height and width.
    model = build(trained.net, any_size=True)
    model.set_weights(trained.model.get_weights())
  learnt = {
    task: (np.array(affine.mean), np.array(affine.std)) for task, affine in trained.standardization.items()
  }
  return Stage(trained.net, model, standardization=learnt)
