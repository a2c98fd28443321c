"""The embedded photos: a real run of every component in minutes.

    taskmix run --config demo        (or: make run)

54 photos with 75 faces and 21 without. Eight photos with faces evaluate: some
by the hash of the picture, as for any data, and some by name, so that the
astronaut and Grace Hopper are among the pictures that no net has learnt from.
"""

import dataclasses

from pipeline.config import Config
from pipeline.configs.faces import SOURCES
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Conversion, CropRecipe, Phases, Training

# The hash sends five face photos to eval; these make eight.
HELD_OUT = (
  "photos/faceapi_sample6.jpg",
  "photos/mpl_grace_hopper.jpg",
  "photos/skimage_astronaut.jpg",
)

CONFIG = Config(
  name="demo",
  net=dataclasses.replace(
    PNET,
    sources=SOURCES,
    phases=Phases(eval_share=0.1, eval_images=HELD_OUT),
    # Few photos, so more crops of each.
    recipe=CropRecipe(tries_per_face=60, landmark_shifts=30),
  ),
  # Without augmentation the net learns 46 faces by heart: the face loss on the
  # held-out photos ends at 0.75 instead of 0.38.
  training=Training(
    batch_size=448,
    steps=1500,
    checkpoint_every=250,
    augment=("mirror", "brightness", "contrast", "hue"),
  ),
  conversion=Conversion(shards=2),
)
