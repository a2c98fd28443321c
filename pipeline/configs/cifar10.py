"""CIFAR-10 by the CNN of 1,070,794 parameters, with augmentation.

    taskmix run --config cifar10 --data cifar-10-batches-bin

DIR is the unpacked archive, of the binary or of the Python version. data_batch_1 to 5
train, test_batch evaluates. Ten epochs of the 50,000 images; fewer images are seen
more often.

Time: 13 to 32 minutes on two cores, nearly all of it the training (5 steps/s idle, 2 beside
other work). Memory: some 3 GiB.
Expect: 71 % to 74 % on the whole set, as is known of this net; 60.5 % from 2,034 training
images (docs/benchmarks/cifar10.md). Below 20 % nothing is pushed.

`cifar10_plain` is the same without augmentation; `cifar10_resnet` and `cifar10_vit`
have the other backbones.
"""

import dataclasses

from pipeline.config import Config, Stage
from taskmix.nets.cifar10 import CNN
from taskmix.spec import Net, Source, Training

SOURCES = (
  Source("train", "cifar10", ".", ".", ("image",), options=(("subset", "train"),), phase="train"),
  Source("test", "cifar10", ".", ".", ("image",), options=(("subset", "test"),), phase="eval"),
)
AUGMENT = ("mirror", "shift", "brightness", "contrast")

# Ten epochs of 50,000.
TRAINING = Training(batch_size=128, steps=3900, augment=AUGMENT)


def config(name: str, net: Net, training: Training) -> Config:
  """A run of one of the CIFAR-10 nets."""
  stage = Stage(dataclasses.replace(net, sources=SOURCES), training)
  return Config(name, stages=(stage,), data=".")


CONFIG = config("cifar10", CNN, TRAINING)
