"""What JPEG does to a picture, for a whole batch at once and a quality each.

The loss of JPEG is the rounding of each 8x8 block's cosine coefficients
(ITU-T T.81, A.3.3 and annex K), so that is all that is done here: no entropy
code, no subsampling of the colours, no loop over the pictures.
"""

import math
from typing import Any

import numpy as np
import tensorflow as tf

_BLOCK = 8

# T.81, tables K.1 and K.2.
_LUMINANCE = (
  (16, 11, 10, 16, 24, 40, 51, 61),
  (12, 12, 14, 19, 26, 58, 60, 55),
  (14, 13, 16, 24, 40, 57, 69, 56),
  (14, 17, 22, 29, 51, 87, 80, 62),
  (18, 22, 37, 56, 68, 109, 103, 77),
  (24, 35, 55, 64, 81, 104, 113, 92),
  (49, 64, 78, 87, 103, 121, 120, 101),
  (72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMINANCE = (
  (17, 18, 24, 47, 99, 99, 99, 99),
  (18, 21, 26, 66, 99, 99, 99, 99),
  (24, 26, 56, 99, 99, 99, 99, 99),
  (47, 66, 99, 99, 99, 99, 99, 99),
  *((99,) * 8,) * 4,
)

# JFIF 1.02: Y, Cb, Cr of R, G, B.
_TO_YCC = np.array(
  [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32
)


def _cosines() -> np.ndarray:
  """The orthonormal DCT-II of 8 values."""
  row, column = np.mgrid[:_BLOCK, :_BLOCK]
  basis = np.cos((2 * column + 1) * row * math.pi / (2 * _BLOCK)) * math.sqrt(2 / _BLOCK)
  basis[0] /= math.sqrt(2)
  return basis.astype(np.float32)


_DCT = _cosines()
_TABLES = np.stack([_LUMINANCE, _CHROMINANCE, _CHROMINANCE], axis=-1).astype(np.float32)


def recode(pixels: Any, quality: Any) -> Any:
  """The pictures as JPEG of this quality would give them back.

  Args:
    pixels: float32 [n, h, w, 3], RGB 0..255.
    quality: float32 [n], 1..100 as libjpeg counts it.

  Returns:
    float32 [n, h, w, 3], not clipped.
  """
  height, width = pixels.shape[1], pixels.shape[2]
  down, right = -height % _BLOCK, -width % _BLOCK
  padded = tf.pad(pixels, [[0, 0], [0, down], [0, right], [0, 0]], "SYMMETRIC")
  luminance = tf.einsum("nhwc,ic->nhwi", padded, tf.constant(_TO_YCC)) - tf.constant([128.0, 0.0, 0.0])
  shape = (-1, (height + down) // _BLOCK, _BLOCK, (width + right) // _BLOCK, _BLOCK, 3)
  blocks, dct = tf.reshape(luminance, shape), tf.constant(_DCT)
  coefficients = tf.einsum("ui,nyixjc,vj->nyuxvc", dct, blocks, dct)
  steps = _steps(quality)[:, None, :, None, :, :]
  rounded = tf.round(coefficients / steps) * steps
  blocks = tf.einsum("ui,nyuxvc,vj->nyixjc", dct, rounded, dct)
  back = tf.reshape(blocks, (-1, height + down, width + right, 3)) + tf.constant([128.0, 0.0, 0.0])
  return tf.einsum("nhwi,ci->nhwc", back, tf.constant(np.linalg.inv(_TO_YCC)))[:, :height, :width]


def _steps(quality: Any) -> Any:
  """Quantisation steps [n, 8, 8, 3], as libjpeg scales its tables."""
  scale = tf.where(quality < 50.0, 5000.0 / quality, 200.0 - 2.0 * quality)
  return tf.clip_by_value(tf.floor((_TABLES * scale[:, None, None, None] + 50.0) / 100.0), 1.0, 255.0)
