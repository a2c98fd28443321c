"""Random changes of a batch after the draw, keyed by (seed, step, slot).

Labels follow: where a picture is mirrored, turned or moved, so are the box and the
points that its columns hold. All samples of a batch are changed at once, each by
its own numbers; a worker's slice gets the numbers of its slots, so that any number
of workers sees the same batch.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from taskmix.keys import stable_hash
from taskmix.mixing import jpeg_noise

# How far each may go; a "share" is the part of the samples that it touches.
MIRROR_SHARE = 0.5
MAX_TURN = math.radians(5)
MAX_SHIFT = 0.05  # of the side
MAX_BRIGHTNESS = 32.0  # of 255
CONTRAST = (0.8, 1.25)
MAX_HUE = 2 * math.pi * 0.05
BLUR_SHARE = 0.3
JPEG_SHARE = 0.3
JPEG_QUALITY = (25.0, 90.0)
CUTOUT_SHARE = 0.3
CUTOUT_SIDE = (0.1, 0.35)  # of the side

# Left and right eye, left and right mouth corner of five points.
FIVE_POINT_SWAPS = ((0, 1), (3, 4))

_DRAWS = 4
_GREY = 127.5  # what a net sees as zero
_TO_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))

Batch = dict[str, tf.Tensor]
Pixels = Any  # float32 [n, h, w, c], 0..255
Draws = Any  # float32 [n, 4], uniform in [0, 1)


@dataclasses.dataclass(frozen=True)
class Augmentation:
  """Which changes to make, and which columns they must carry along.

  >>> augment = Augmentation(("mirror", "rotate", "blur"), seed=1, boxes="box_offsets", points="landmarks")
  >>> mixing.dataset(..., augment=augment)

  Attributes:
    names: of `NAMES`, applied in that module's order.
    seed: of every number.
    image: the uint8 column [h, w, c].
    boxes: a float32 column [4], x1 y1 x2 y2 as (face - crop) / side, or "".
    points: a float32 column [2p], x y of each point as (point - corner) / side, or "".
    swaps: pairs of points that change places in a mirror.
    scaling: column -> (means, deviations) a value, where the column arrives
      standardized: it is undone before the labels move and redone after.
  """

  names: tuple[str, ...]
  seed: int
  image: str = "image"
  boxes: str = ""
  points: str = ""
  swaps: tuple[tuple[int, int], ...] = FIVE_POINT_SWAPS
  scaling: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    unknown = [name for name in self.names if name not in NAMES]
    if unknown:
      raise ValueError(f"no augmentation {', '.join(unknown)}; there is {', '.join(NAMES)}")

  def __call__(self, batch: Batch, step: tf.Tensor, *, batch_size: int, slots: slice) -> Batch:
    """The batch, changed.

    Args:
      batch: name -> [n, ...], the `slots` of a batch of `batch_size`.
      step: int64 scalar.
    """

    def draws(name: str) -> tf.Tensor:
      seed = tf.stack([tf.constant(stable_hash(self.seed, "augment", name) >> 1, tf.int64), step])
      return tf.random.stateless_uniform((batch_size, _DRAWS), seed, alg="philox")[slots]

    batch = dict(batch)
    for name in GEOMETRIC:
      if name in self.names:
        self._move(batch, *GEOMETRIC[name](batch[self.image], draws(name)))
    chosen = [name for name in PHOTOMETRIC if name in self.names]
    if chosen:
      pixels = tf.cast(batch[self.image], tf.float32)
      for name in chosen:
        pixels = PHOTOMETRIC[name](pixels, draws(name))
      batch[self.image] = _to_uint8(pixels)
    return batch

  def _move(self, batch: Batch, image: tf.Tensor, mirrored: tf.Tensor, matrix: tf.Tensor) -> None:
    """Puts the moved image in place and lets the labels follow.

    Args:
      mirrored: bool [n].
      matrix: float32 [n, 2, 3], where a point in units of the side goes.
    """
    batch[self.image] = image
    if self.boxes:
      batch[self.boxes] = self._rescaled(batch, self.boxes, lambda box: move_boxes(box, matrix))
    if self.points:
      follow = lambda points: move_points(points, matrix, mirrored, self.swaps)  # noqa: E731
      batch[self.points] = self._rescaled(batch, self.points, follow)

  def _rescaled(self, batch: Batch, column: str, change: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    mean, deviation = (tf.constant(value, tf.float32) for value in self.scaling.get(column, (0.0, 1.0)))
    return (change(batch[column] * deviation + mean) - mean) / deviation


def move_boxes(offsets: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
  """Box offsets after the picture moved.

  The box's centre goes where the picture's point goes; its width and height stay,
  which for turns of a few degrees is what an annotator would draw.

  Args:
    offsets: float32 [n, 4], (face - crop) / side of x1 y1 x2 y2.
    matrix: float32 [n, 2, 3].
  """
  corners = offsets + tf.constant([0.0, 0.0, 1.0, 1.0])
  low, high = corners[:, :2], corners[:, 2:]
  centre = _moved((low + high)[:, None] / 2, matrix)[:, 0]
  half = (high - low) / 2
  return tf.concat([centre - half, centre + half - 1.0], axis=1)


def move_points(points: Any, matrix: tf.Tensor, mirrored: tf.Tensor, swaps: Any) -> tf.Tensor:
  """Points after the picture moved; in mirrored ones left and right change places.

  Args:
    points: float32 [n, 2p], x y in units of the side from the top-left corner.
    matrix: float32 [n, 2, 3].
    mirrored: bool [n].
    swaps: pairs of point numbers.
  """
  count = points.shape[1] // 2
  moved = _moved(tf.reshape(points, (-1, count, 2)), matrix)
  order = list(range(count))
  for first, second in swaps:
    order[first], order[second] = second, first
  moved = tf.where(mirrored[:, None, None], tf.gather(moved, order, axis=1), moved)
  return tf.reshape(moved, (-1, 2 * count))


def _moved(points: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
  """[n, p, 2] through [n, 2, 3]."""
  return tf.einsum("npj,nij->npi", points, matrix[:, :, :2]) + matrix[:, None, :, 2]


def mirror(image: tf.Tensor, draws: Draws) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Left to right: (image, mirrored, where points go)."""
  mirrored = draws[:, 0] < MIRROR_SHARE
  flipped = tf.where(mirrored[:, None, None, None], tf.reverse(image, [2]), image)
  flag = tf.cast(mirrored, tf.float32)
  zero, one = tf.zeros_like(flag), tf.ones_like(flag)
  matrix = tf.stack([1 - 2 * flag, zero, flag, zero, one, zero], axis=1)
  return flipped, mirrored, tf.reshape(matrix, (-1, 2, 3))


def rotate(image: tf.Tensor, draws: Draws) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Turned about the centre by up to 5 degrees either way."""
  angle = (2 * draws[:, 0] - 1) * MAX_TURN
  return _warp(image, angle, tf.zeros_like(draws[:, :2]))


def shift(image: tf.Tensor, draws: Draws) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Moved by up to a twentieth of the side in x and in y."""
  return _warp(image, tf.zeros_like(draws[:, 0]), (2 * draws[:, :2] - 1) * MAX_SHIFT)


def _warp(image: tf.Tensor, angle: tf.Tensor, by: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Turned by `angle` (y down: clockwise) and moved by `by`, in sides; borders are reflected."""
  cosine, sine = tf.cos(angle), tf.sin(angle)
  turn = tf.reshape(tf.stack([cosine, -sine, sine, cosine], axis=1), (-1, 2, 2))
  centre = tf.constant([0.5, 0.5])
  offset = centre + by - tf.einsum("nij,j->ni", turn, centre)
  matrix = tf.concat([turn, offset[:, :, None]], axis=2)
  return _resample(image, turn, offset), tf.zeros_like(angle, tf.bool), matrix


def _resample(image: Any, turn: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
  """Bilinear: every pixel of the result from where it came from.

  Continuous coordinates have pixel i's centre at i + 0.5, the op has it at i.
  """
  sides = tf.constant([image.shape[2], image.shape[1]], tf.float32)
  back = tf.transpose(turn, (0, 2, 1)) * sides[None, :, None] / sides[None, None, :]
  start = (
    -tf.einsum("nij,nj->ni", back, offset * sides)
    + tf.einsum("nij,j->ni", back, tf.constant([0.5, 0.5]))
    - 0.5
  )
  zero = tf.zeros_like(start[:, :1])
  rows = tf.concat([back[:, 0], start[:, :1], back[:, 1], start[:, 1:], zero, zero], axis=1)
  return tf.raw_ops.ImageProjectiveTransformV3(
    images=image,
    transforms=rows,
    output_shape=tf.shape(image)[1:3],
    fill_value=0.0,
    interpolation="BILINEAR",
    fill_mode="REFLECT",
  )


def brightness(pixels: Pixels, draws: Draws) -> Pixels:
  """Up to 32 of 255 lighter or darker."""
  return pixels + _per_image((2 * draws[:, 0] - 1) * MAX_BRIGHTNESS)


def contrast(pixels: Pixels, draws: Draws) -> Pixels:
  """0.8 to 1.25 times the distance from the picture's own mean, evenly in the logarithm."""
  low, high = (math.log(limit) for limit in CONTRAST)
  mean = tf.reduce_mean(pixels, axis=(1, 2), keepdims=True)
  return mean + (pixels - mean) * _per_image(tf.exp(low + draws[:, 0] * (high - low)))


def hue(pixels: Pixels, draws: Draws) -> Pixels:
  """Colours turned by up to a twentieth of the circle, about the grey axis of YIQ."""
  angle = (2 * draws[:, 0] - 1) * MAX_HUE
  cosine, sine, zero = tf.cos(angle), tf.sin(angle), tf.zeros_like(angle)
  one = tf.ones_like(angle)
  turn = tf.reshape(tf.stack([one, zero, zero, zero, cosine, -sine, zero, sine, cosine], axis=1), (-1, 3, 3))
  to_yiq = tf.constant(_TO_YIQ)
  return tf.einsum("nhwc,nic->nhwi", pixels, tf.linalg.inv(to_yiq) @ turn @ to_yiq)


def blur(pixels: Pixels, draws: Draws) -> Pixels:
  """Up to twice a 3x3 binomial filter, in three tenths of the pictures."""
  amount = _per_image(tf.where(draws[:, 0] < BLUR_SHARE, draws[:, 1], 0.0))
  for _ in range(2):
    pixels = pixels + amount * (_binomial(pixels) - pixels)
  return pixels


def _binomial(pixels: Pixels) -> Pixels:
  """1 2 1 along each axis, edges repeated."""
  padded = tf.pad(pixels, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
  rows = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
  return (rows[:, :, :-2] + 2 * rows[:, :, 1:-1] + rows[:, :, 2:]) / 4


def jpeg(pixels: Pixels, draws: Draws) -> Pixels:
  """What quality 25 to 90 leaves, in three tenths of the pictures."""
  low, high = JPEG_QUALITY
  coded = jpeg_noise.recode(pixels, low + draws[:, 1] * (high - low))
  return tf.where(_per_image(draws[:, 0]) < JPEG_SHARE, coded, pixels)


def cutout(pixels: Pixels, draws: Draws) -> Pixels:
  """A grey square somewhere, of a tenth to a third of the side, in three tenths of the pictures."""
  low, high = CUTOUT_SIDE
  half = tf.where(draws[:, 0] < CUTOUT_SHARE, low + draws[:, 1] * (high - low), 0.0) / 2
  inside = []
  for axis, centre in ((1, draws[:, 3]), (2, draws[:, 2])):
    side = pixels.shape[axis]
    places = (tf.range(side, dtype=tf.float32) + 0.5) / side
    inside.append(tf.abs(places[None] - centre[:, None]) < half[:, None])
  hole = inside[0][:, :, None, None] & inside[1][:, None, :, None]
  return tf.where(hole, _GREY, pixels)


def _per_image(values: tf.Tensor) -> tf.Tensor:
  return values[:, None, None, None]


def _to_uint8(pixels: Pixels) -> tf.Tensor:
  return tf.cast(tf.clip_by_value(tf.round(pixels), 0.0, 255.0), tf.uint8)


GEOMETRIC: dict[str, Callable] = {"mirror": mirror, "rotate": rotate, "shift": shift}
PHOTOMETRIC: dict[str, Callable] = {
  "brightness": brightness,
  "contrast": contrast,
  "hue": hue,
  "blur": blur,
  "jpeg": jpeg,
  "cutout": cutout,
}
NAMES = (*GEOMETRIC, *PHOTOMETRIC)
