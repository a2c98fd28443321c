"""`cifar10` without augmentation: what augmentation is measured against.

    taskmix run --config cifar10_plain --data cifar-10-batches-bin

Time and memory: as `cifar10`. Expect: about 70 % on the whole set, as is known of this
net; 52.3 % from 2,034 training images, which it learns by heart.
"""

import dataclasses

from pipeline.configs.cifar10 import TRAINING, config
from taskmix.nets.cifar10 import CNN

CONFIG = config("cifar10_plain", CNN, dataclasses.replace(TRAINING, augment=()))
