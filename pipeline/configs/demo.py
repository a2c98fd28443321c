"""The embedded photos: a real run of every component in minutes.

    taskmix run --config demo        (or: make run)

54 photos with 75 faces and 21 without. Eight photos with faces evaluate: some
by the hash of the picture, as for any data, and some by name, so that the
astronaut and Grace Hopper are among the pictures that no net has learnt from.

Time: 15 minutes of processor time, so 8 to 10 minutes on two idle cores. Memory: 2.9 GiB
at the most. Expect: face accuracies of some 0.86, 0.92 and 0.91 on the held-out crops, a
pushed detector with an average precision of 0.69, and a picture of what it found on the
eight held-out photos.
"""

import dataclasses

from pipeline.config import Config, Stage
from pipeline.configs.faces import SOURCES
from taskmix.nets.mtcnn import ONET, PNET, RNET
from taskmix.report.card import CardNotes
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import Conversion, CropRecipe, Net, Phases, Training

# The hash sends five face photos to eval; these make eight.
HELD_OUT = (
  "photos/faceapi_sample6.jpg",
  "photos/mpl_grace_hopper.jpg",
  "photos/skimage_astronaut.jpg",
)

# Few photos, so more crops of each.
RECIPE = CropRecipe(tries_per_face=60, landmark_shifts=30)

# Without augmentation a net learns 46 faces by heart: P-Net's face loss on the
# held-out photos ends at 0.75 instead of 0.38.
AUGMENT = ("mirror", "brightness", "contrast", "hue")


def _stage(net: Net, *, batch_size: int, steps: int) -> Stage:
  net = dataclasses.replace(
    net, sources=SOURCES, phases=Phases(eval_share=0.1, eval_images=HELD_OUT), recipe=RECIPE
  )
  return Stage(net, Training(batch_size=batch_size, steps=steps, checkpoint_every=250, augment=AUGMENT))


CONFIG = Config(
  name="demo",
  stages=(
    _stage(PNET, batch_size=448, steps=1500),
    _stage(RNET, batch_size=224, steps=800),
    _stage(ONET, batch_size=112, steps=600),
  ),
  conversion=Conversion(shards=2),
  card=CardNotes(
    intended_use="To show what taskmix does, on a laptop, in minutes. Fit for no other use.",
    out_of_scope="Anything that people depend on. It finds faces and identifies nobody.",
    data_licence=(
      "MIT, CC0, CC-BY-4.0, CC-BY-2.0 and public domain, photo by photo in demo/LICENSES.tsv; boxes and "
      "points were made by a released detector and corrected by eye"
    ),
    limits=(
      "46 photos with faces are far too few for a detector: skins, ages, poses and lights that are rare "
      "among them are missed more often.",
    ),
  ),
  # Of whole photos, so fewer and slower than of crops.
  serving=ServingPolicy(large_batch=8, answer_seconds=5.0),
)
