"""`cifar10` without augmentation: what augmentation is measured against.

taskmix run --config cifar10_plain --data cifar-10-batches-bin
"""

import dataclasses

from pipeline.configs.cifar10 import TRAINING, config
from taskmix.nets.cifar10 import CNN

CONFIG = config("cifar10_plain", CNN, dataclasses.replace(TRAINING, augment=()))
