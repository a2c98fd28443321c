"""CIFAR-10 by a small Vision Transformer; everything else as in `cifar10`.

    taskmix run --config cifar10_vit --data cifar-10-batches-bin

Attention has no notion of neighbours, so it needs more data or more epochs than the
convolutional nets to reach the same accuracy.

Time: longer than `cifar10`'s; memory: some 3 GiB. Expect: a pushed model, with more than the
20 % that its bound demands; the whole set has not been run here.
"""

import dataclasses

from pipeline.configs.cifar10 import TRAINING, config
from taskmix.nets.cifar10 import VIT

CONFIG = config(
  "cifar10_vit", VIT, dataclasses.replace(TRAINING, learning_rate=5e-4, warmup_steps=400, weight_decay=0.05)
)
