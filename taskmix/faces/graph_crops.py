"""Square crops of a photo in the graph, resized to a net's input.

What lies outside the photo is mid-grey, 127.5: 0 after the nets' scaling.
"""

import tensorflow as tf

GREY = 127.5


def by_area(photo: tf.Tensor, squares: tf.Tensor, side: int) -> tf.Tensor:
  """Crops as training crops are cut (`taskmix.faces.crops.cut`), but not rounded.

  From the photo halved as often as leaves one to two of its pixels a step,
  between the four nearest pixels.

  Args:
    photo: uint8 [h, w, 3].
    squares: float32 [n, 4], photo pixels.
    side: of the net's input.

  Returns:
    float32 [n, side, side, 3], 0 to 255.
  """
  steps = (squares[:, 2] - squares[:, 0]) / side
  wanted = tf.cast(tf.math.log(tf.maximum(steps, 1.0)) / tf.math.log(2.0), tf.int32)
  deepest = tf.minimum(tf.reduce_max(tf.concat([wanted, [0]], axis=0)), _halvings(photo, side))
  depth = tf.minimum(wanted, deepest)
  crops = tf.TensorArray(tf.float32, deepest + 1, element_shape=[None, side, side, 3], infer_shape=False)
  owners = tf.TensorArray(tf.int32, deepest + 1, element_shape=[None], infer_shape=False)

  def one_depth(at, level, crops, owners):
    chosen = tf.cast(tf.where(depth == at)[:, 0], tf.int32)
    cut = _of_level(level, tf.gather(squares, chosen) / tf.cast(2**at, tf.float32), side)
    # The level behind the last one is never read.
    following = tf.cond(at < deepest, lambda: _half(level), lambda: level)
    return at + 1, following, crops.write(at, cut), owners.write(at, chosen)

  level = tf.ensure_shape(tf.cast(photo, tf.float32)[None], [1, None, None, 3])
  _, _, crops, owners = tf.while_loop(
    lambda at, *_: at <= deepest, one_depth, (tf.constant(0), level, crops, owners)
  )
  # Back into the order of the squares.
  return tf.gather(crops.concat(), tf.math.invert_permutation(owners.concat()))


def by_points(photo: tf.Tensor, squares: tf.Tensor, side: int) -> tf.Tensor:
  """Crops as mtcnn 1.0.0 cuts them; arguments and result as of `by_area`.

  Each pixel lies between the four nearest of the photo, however many it covers;
  the first and last lie on the square's edges, in a frame that is
  (pixels - 1) / pixels of the photo.
  """
  size = tf.cast(tf.shape(photo)[:2], tf.float32)
  scaled = squares / tf.tile(tf.reverse(size, [0]), [2])
  return _crop_and_resize(photo[None], scaled[:, :2], scaled[:, 2:], side)


WAYS = {"area": by_area, "points": by_points}


def _halvings(photo: tf.Tensor, side: int) -> tf.Tensor:
  """How often the photo can be halved and its shorter side still hold `side` pixels."""
  shorter = tf.cast(tf.minimum(tf.shape(photo)[0], tf.shape(photo)[1]), tf.float32)
  return tf.cast(tf.maximum(tf.math.log(shorter / side) / tf.math.log(2.0) + 1e-6, 0.0), tf.int32)


def _half(level: tf.Tensor) -> tf.Tensor:
  """Half the height and width; an odd last row or column is dropped."""
  return tf.nn.avg_pool2d(level, 2, 2, "VALID")


def _of_level(level: tf.Tensor, squares: tf.Tensor, side: int) -> tf.Tensor:
  """Crops [n, side, side, 3] of a level [1, h, w, 3], squares in its pixels.

  A crop's pixel i has its centre (i + 0.5) / side along the square; a photo's
  pixel i has it at i + 0.5.
  """
  # One more pixel all round, the edge repeated: a crop's outermost centre may lie
  # half a pixel outside the outermost centres of the photo.
  padded = tf.pad(level, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
  inset = (squares[:, 2:] - squares[:, :2]) / (2 * side)
  first, last = squares[:, :2] + inset + 0.5, squares[:, 2:] - inset + 0.5
  # crop_and_resize counts from the first centre to the last as 0 to 1.
  span = tf.cast(tf.shape(padded)[1:3], tf.float32) - 1
  span = tf.reverse(span, [0])
  return _crop_and_resize(padded, first / span, last / span, side)


def _crop_and_resize(photos: tf.Tensor, first: tf.Tensor, last: tf.Tensor, side: int) -> tf.Tensor:
  """Crops from `first` to `last`, float32 [n, 2] both, x and y as shares of the photo."""
  # Not [:, ::-1]: with oneDNN's kernels on, TensorFlow's optimizer logs an error over it.
  boxes = tf.concat([tf.reverse(first, [1]), tf.reverse(last, [1])], axis=1)
  owners = tf.zeros([tf.shape(boxes)[0]], tf.int32)
  return tf.image.crop_and_resize(photos, boxes, owners, [side, side], extrapolation_value=GREY)
