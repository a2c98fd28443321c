"""The CIFAR-10 nets have the layers and sizes that their papers say."""

import numpy as np
import pytest

from taskmix.model.build import build
from taskmix.nets import cifar10


def test_the_cnn_has_the_classical_number_of_parameters():
  assert build(cifar10.CNN).count_params() == 1_070_794


@pytest.mark.parametrize("net", cifar10.NETS, ids=lambda net: net.name)
def test_every_net_gives_a_logit_a_class(net):
  images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
  assert build(net)(images)["label"].shape == (2, 10)


def test_the_vit_sees_sixty_four_patches_and_a_class_token():
  model = build(cifar10.VIT)
  assert model.get_layer("tokens").positions.shape == (1, 65, 128)


def test_a_patch_moved_elsewhere_changes_the_vit_s_answer():
  model = build(cifar10.VIT)
  image = np.zeros((1, 32, 32, 3), np.uint8)
  image[:, :4, :4] = 255
  moved = np.roll(image, 4, axis=2)
  assert not np.allclose(model(image)["label"], model(moved)["label"], atol=1e-7)
