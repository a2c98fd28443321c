"""Transfer learning on a folder of photos: MobileNetV2, frozen at first, then fine-tuned.

    taskmix run --config cats_dogs --data DIR

DIR holds train/ and test/, with photos named cat.*.jpg and dog.*.jpg (Kaggle Dogs vs
Cats); for a folder a class, take `by=folder`. The weights are read from
weights/mobilenet_v2_96.weights.h5 below the folder in which the command is started;
where the file is missing, the run ends at once with the way to get it.
docs/benchmarks/cats_dogs.md has what it comes to.

Time: 7 minutes for 140 photos on two busy cores, 4 of them the training. Memory:
some 3 GiB.
Expect: 92.5 % of 40 test photos, after training on 100, from a backbone that had seen
dogs (docs/benchmarks/cats_dogs.md); below 70 % nothing is pushed.

One folder without a test set: give a single source no phase, and the net
`phases=Phases(eval_share=0.2, stratified=True)`.
"""

import dataclasses
from typing import Literal

from pipeline.config import Config, Stage
from taskmix.nets.cats_dogs import CATS_DOGS, CLASSES
from taskmix.spec import Source, Training


def _source(folder: str, phase: Literal["train", "eval"]) -> Source:
  options = (("classes", ",".join(CLASSES)), ("by", "prefix"))
  return Source(folder, "image_folder", "", folder, CLASSES, options=options, phase=phase)


SOURCES = (_source("train", "train"), _source("test", "eval"))

CONFIG = Config(
  "cats_dogs",
  stages=(
    Stage(
      dataclasses.replace(CATS_DOGS, sources=SOURCES),
      Training(
        batch_size=32,
        steps=300,
        # The heads alone, until they no longer send noise into what is pretrained.
        frozen_steps=150,
        pretrained="weights/mobilenet_v2_96.weights.h5",
        augment=("mirror", "rotate", "shift", "brightness"),
      ),
    ),
  ),
  data=".",
)
