import dataclasses

import keras
import numpy as np
import pytest

from taskmix.model.build import build, dtype_policy, output_shape
from taskmix.nets.mtcnn import MTCNN, PNET, RNET
from taskmix.spec import Column


@pytest.mark.parametrize("net", MTCNN.nets, ids=lambda net: net.name)
def test_every_task_has_an_output_of_its_shape(net):
  images = np.zeros((3, *net.input_size), np.uint8)
  outputs = build(net)(images)
  assert {name: tuple(value.shape) for name, value in outputs.items()} == {
    "face": (3, 2),
    "box": (3, 4),
    "landmark": (3, 10),
  }


def test_scalar_and_matrix_targets_have_outputs_of_their_shape():
  task = dataclasses.replace(PNET.tasks[2], target=Column("points", "float32", (5, 2)))
  scalar = dataclasses.replace(PNET.tasks[1], target=Column("angle", "float32"))
  for net in (PNET, RNET):
    outputs = build(dataclasses.replace(net, tasks=(task, scalar)))(np.zeros((2, *net.input_size)))
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {
      "landmark": (2, 5, 2),
      "box": (2,),
    }
  assert output_shape(task) == (5, 2)


def test_uint8_and_float_images_give_the_same():
  model = build(PNET)
  image = np.random.default_rng(0).integers(0, 256, (2, 12, 12, 3)).astype(np.uint8)
  np.testing.assert_array_equal(model(image)["face"], model(image.astype(np.float32))["face"])


def test_the_sliding_net_gives_each_cells_own_crop():
  model, sliding = build(PNET), build(PNET, any_size=True)
  sliding.set_weights(model.get_weights())
  image = np.random.default_rng(1).integers(0, 256, (1, 20, 33, 3)).astype(np.uint8)
  outputs = sliding(image)
  assert outputs["face"].shape == (1, 5, 12, 2)
  # Cell (2, 3) sees the 12-px crop at twice its place: the stride is 2.
  crop = image[:, 4:16, 6:18]
  for name, value in model(crop).items():
    np.testing.assert_allclose(outputs[name][:, 2, 3], value, atol=1e-5)


def test_a_net_with_dense_features_does_not_slide():
  with pytest.raises(ValueError, match="known image size"):
    build(RNET, any_size=True)


def test_half_precision_keeps_float32_weights_and_outputs():
  model = build(PNET, precision="mixed_bfloat16")
  assert {w.dtype for w in model.weights} == {"float32"}
  assert model(np.zeros((1, 12, 12, 3)))["face"].dtype == "float32"
  assert model.get_layer("conv1").compute_dtype == "bfloat16"
  assert keras.config.dtype_policy().name == "float32"


def test_the_policy_comes_back_after_an_error():
  with pytest.raises(KeyError), dtype_policy("mixed_float16"):
    raise KeyError
  assert keras.config.dtype_policy().name == "float32"


@pytest.mark.parametrize("path", ["taskmix.model.backbones:qnet", "taskmix.nowhere:pnet"])
def test_an_unknown_backbone_is_named(path):
  with pytest.raises(ValueError, match=f"backbone of net 'pnet': cannot import '{path}'"):
    build(dataclasses.replace(PNET, backbone=path))


def test_features_that_fit_no_head_are_told():
  with pytest.raises(ValueError, match="features are 3x3 at the net's input size"):
    build(dataclasses.replace(PNET, input_size=(16, 16, 3)))
