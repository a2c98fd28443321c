"""CIFAR-10 by a small pre-activation ResNet; everything else as in `cifar10`.

    taskmix run --config cifar10_resnet --data cifar-10-batches-bin

Time: about an hour on two busy cores (1.2 steps/s); memory: some 3 GiB. Expect: 57.4 %
of 1,017 test images after 900 of the 3,900 steps, from 2,034 training images; the whole set
has not been run here.
"""

import dataclasses

from pipeline.configs.cifar10 import TRAINING, config
from taskmix.nets.cifar10 import RESNET

CONFIG = config("cifar10_resnet", RESNET, dataclasses.replace(TRAINING, weight_decay=5e-4))
