"""CIFAR-10 by three backbones: one kind and one task, the plainest mixture there is.

cifar10_cnn     two conv blocks, 32 and 64 wide, dense 256: 1,070,794 parameters
cifar10_resnet  three stages of pre-activation residual blocks, global pooling
cifar10_vit     4 px patches, class token, learned positions, pre-norm encoder
"""

from typing import Any

from taskmix.sources.cifar10 import CLASSES
from taskmix.spec import Bound, Column, Loss, Mixture, Net, SampleKind, Task

LABEL = Task(
  name="label",
  target=Column("label", "int64", classes=CLASSES),
  kinds=("image",),
  loss=Loss("softmax_cross_entropy"),
  metrics=("accuracy",),
  # Ten times chance would be certainty; twice chance is a net that learns.
  bounds=(Bound("accuracy", min=0.2),),
)


def _net(name: str) -> Net:
  return Net(
    name=f"cifar10_{name}",
    input_size=(32, 32, 3),
    backbone=f"{__name__}:{name}",
    tasks=(LABEL,),
    mixture=Mixture((SampleKind("image", 1),)),
  )


CNN, RESNET, VIT = _net("cnn"), _net("resnet"), _net("vit")
NETS = (CNN, RESNET, VIT)


def cnn(image: Any) -> Any:
  """[b, 32, 32, 3] to [b, 256]: 3x3 convolutions 32 and 64 wide, each halved by max pooling."""
  from keras import layers

  x = layers.Rescaling(1 / 255, name="scaled")(image)
  for width in (32, 64):
    x = layers.Conv2D(width, 3, padding="same", activation="relu", name=f"conv{width}")(x)
    x = layers.MaxPooling2D(name=f"pool{width}")(x)
  x = layers.Dense(256, activation="relu", name="dense")(layers.Flatten(name="flat")(x))
  return layers.Dropout(0.5, seed=0, name="dropout")(x)


def resnet(image: Any, *, widths: tuple[int, ...] = (16, 32, 64), blocks: int = 2) -> Any:
  """[b, 32, 32, 3] to [b, 64]: pre-activation residual blocks (He et al. 2016b)."""
  from keras import layers

  x = layers.Rescaling(1 / 127.5, offset=-1.0, name="scaled")(image)
  x = layers.Conv2D(widths[0], 3, padding="same", use_bias=False, name="stem")(x)
  for stage, width in enumerate(widths):
    for block in range(blocks):
      stride = 2 if stage and not block else 1
      x = _residual(x, width, stride, name=f"stage{stage + 1}_block{block + 1}")
  x = layers.ReLU()(layers.BatchNormalization(name="norm")(x))
  return layers.GlobalAveragePooling2D(name="pooled")(x)


def _residual(x: Any, width: int, stride: int, *, name: str) -> Any:
  from keras import layers

  active = layers.ReLU()(layers.BatchNormalization(name=f"{name}_norm1")(x))
  y = layers.Conv2D(width, 3, stride, padding="same", use_bias=False, name=f"{name}_conv1")(active)
  y = layers.ReLU()(layers.BatchNormalization(name=f"{name}_norm2")(y))
  y = layers.Conv2D(width, 3, padding="same", use_bias=False, name=f"{name}_conv2")(y)
  if stride != 1 or x.shape[-1] != width:
    x = layers.Conv2D(width, 1, stride, use_bias=False, name=f"{name}_skip")(active)
  return layers.Add()([x, y])


def vit(
  image: Any, *, patch: int = 4, width: int = 128, depth: int = 6, heads: int = 4, mlp: int = 256
) -> Any:
  """[b, 32, 32, 3] to [b, width]: the class token after a pre-norm encoder (Dosovitskiy et al. 2021)."""
  from keras import layers

  x = layers.Rescaling(1 / 127.5, offset=-1.0, name="scaled")(image)
  x = layers.Conv2D(width, patch, patch, name="patches")(x)
  x = layers.Reshape((-1, width))(x)
  x = _token_layers()(name="tokens")(x)
  for number in range(1, depth + 1):
    y = layers.LayerNormalization(epsilon=1e-6, name=f"block{number}_norm1")(x)
    y = layers.MultiHeadAttention(heads, width // heads, name=f"block{number}_attention")(y, y)
    x = layers.Add()([x, y])
    y = layers.LayerNormalization(epsilon=1e-6, name=f"block{number}_norm2")(x)
    y = layers.Dense(mlp, activation="gelu", name=f"block{number}_mlp1")(y)
    x = layers.Add()([x, layers.Dense(width, name=f"block{number}_mlp2")(y)])
  x = layers.LayerNormalization(epsilon=1e-6, name="norm")(x)
  return layers.Lambda(_first_token, output_shape=(width,), name="class_token")(x)


def _first_token(tokens: Any) -> Any:
  return tokens[:, 0]


def _token_layers() -> Any:
  """The layer that puts the class token before the patches and adds learned positions.

  Made in a function, since importing this module must not import Keras.
  """
  import keras

  class Tokens(keras.layers.Layer):
    """[b, n, width] to [b, n + 1, width]."""

    def build(self, shape):
      count, width = shape[1] + 1, shape[2]
      self.token = self.add_weight(shape=(1, 1, width), initializer="zeros", name="class_token")
      self.positions = self.add_weight(
        shape=(1, count, width),
        initializer=keras.initializers.TruncatedNormal(stddev=0.02, seed=0),
        name="positions",
      )

    def call(self, patches):
      batch = keras.ops.shape(patches)[0]
      token = keras.ops.broadcast_to(self.token, (batch, 1, patches.shape[2]))
      return keras.ops.concatenate([token, patches], axis=1) + self.positions

    def compute_output_shape(self, shape):
      return (shape[0], shape[1] + 1, shape[2])

  return Tokens
