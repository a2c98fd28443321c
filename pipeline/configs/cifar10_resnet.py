"""CIFAR-10 by a small pre-activation ResNet; everything else as in `cifar10`.

taskmix run --config cifar10_resnet --data cifar-10-batches-bin
"""

import dataclasses

from pipeline.configs.cifar10 import TRAINING, config
from taskmix.nets.cifar10 import RESNET

CONFIG = config("cifar10_resnet", RESNET, dataclasses.replace(TRAINING, weight_decay=5e-4))
