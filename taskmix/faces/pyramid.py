"""A photo at every size at which a face could fill P-Net's 12 pixels.

Level i is the photo times `12 / min_face * factor**i`, for as long as its
shorter side holds one cell (Zhang et al. 2016, section II-A).
"""

import tensorflow as tf

# P-Net's input side and, after its one pooling, the step between two cells.
CELL = 12
STRIDE = 2


def scales(height: tf.Tensor, width: tf.Tensor, *, min_face: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
  """The scale of each level, largest first.

  Args:
    height, width: int32 scalars, of the photo.
    min_face: float32 scalar, the side in photo pixels of the smallest face to
      look for; it fills a cell on the first level.
    factor: float32 scalar in (0, 1), from a level to the next.

  Returns:
    float32 [levels]; empty where the photo is smaller than `min_face`. A photo
    of 640 x 480 with min_face 20 and factor 0.709 gives 10: 0.6, 0.4254, ...
  """
  first = CELL / min_face
  shorter = tf.cast(tf.minimum(height, width), tf.float32)
  # The small term keeps a photo of exactly min_face pixels, against rounding.
  levels = tf.floor(tf.math.log(shorter * first / CELL) / -tf.math.log(factor) + 1e-4) + 1
  return first * factor ** tf.range(tf.maximum(levels, 0))


def level_size(height: tf.Tensor, width: tf.Tensor, *, scale: tf.Tensor, rounding: str) -> tf.Tensor:
  """Height and width of a level: int32 [2], each at least one cell.

  Args:
    height, width: int32 scalars, of the photo.
    scale: float32 scalar.
    rounding: "nearest", or "down" as mtcnn 1.0.0 has it.
  """
  exact = tf.cast(tf.stack([height, width]), tf.float32) * scale
  whole = tf.round(exact) if rounding == "nearest" else tf.floor(exact)
  return tf.maximum(tf.cast(whole, tf.int32), CELL)


def level(photo: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
  """The photo at `size`, each pixel the mean of the area that it covers.

  Args:
    photo: uint8 or float32 [h, w, 3].
    size: int32 [2], height and width.

  Returns:
    float32 [1, height, width, 3], in the photo's range of values.
  """
  return tf.raw_ops.ResizeArea(images=photo[None], size=size)
