"""CIFAR-10's class, turn and tone, each on images of its own, 2:1:1.

    taskmix run --config cifar10_tasks --data cifar-10-batches-bin

The multi-task example without faces: see taskmix/nets/cifar10_tasks.py. Mirroring
would make a quarter turn of three quarters, and brightness leaves grey grey.

Time: 6 to 9 minutes on two cores; memory: some 3 GiB. Expect: with 400 of the 1,500 steps, from
2,034 images, class 46.2 %, turn (of four) 46.5 %, tone 93.4 %; its bounds are 20, 30 and
75 %.
"""

import dataclasses

from pipeline.config import Config, Stage
from taskmix.nets.cifar10_tasks import CIFAR10_TASKS, SOURCES
from taskmix.spec import Training

CONFIG = Config(
  "cifar10_tasks",
  stages=(
    Stage(
      dataclasses.replace(CIFAR10_TASKS, sources=SOURCES),
      Training(batch_size=128, steps=1500, augment=("shift", "brightness")),
    ),
  ),
  data=".",
)
