"""Photos as people see them, from encoded bytes, in the graph.

TensorFlow's decoder leaves a JPEG as the sensor saw it and ignores the
orientation that cameras write into its EXIF header: a portrait then lies on its
side, and no face is found. Here the header is read and the picture turned, so
boxes are in the frame of the upright photo, as viewers show it.
"""

import tensorflow as tf

# EXIF lies before the picture, and a JPEG segment holds at most 64 KiB; several
# may come before it (JFIF, an ICC profile).
_HEADER_BYTES = 1 << 18
_ORIENTATION_TAG = 0x0112
_ENTRY_BYTES = 12

# A photo of 100 megapixels is 300 MB of colours, and a cascade needs several
# times that; a compressed bomb of a megabyte promises ten times more.
MAX_PIXELS = 100_000_000


def decode(encoded: tf.Tensor, *, max_pixels: int = MAX_PIXELS) -> tf.Tensor:
  """The upright photo of one file's bytes: uint8 [h, w, 3] RGB.

  Takes JPEG, PNG, BMP, and the first frame of a GIF. Grey becomes RGB; CMYK and
  YCCK JPEGs are converted by TensorFlow's decoder (inverted ones, as Adobe
  writes them, and plain ones; without the colour profile); alpha is dropped;
  16 bits become 8.

  Args:
    encoded: string scalar.
    max_pixels: a header that promises more is not decoded.

  Raises:
    InvalidArgumentError: if the bytes are none of these formats, broken, or too
      large a photo.
  """
  pixels = header_pixels(encoded)
  message = f"the photo's header promises more than {max_pixels} pixels"
  with tf.control_dependencies(
    [tf.debugging.assert_less_equal(pixels, tf.cast(max_pixels, tf.int64), message)]
  ):
    encoded = tf.identity(encoded)
  photo = tf.cond(
    _is_jpeg(encoded),
    # The accurate transform gives, bit for bit, what Pillow and OpenCV decode for
    # training; TensorFlow's default is off by up to 6 and no faster.
    lambda: tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE"),
    lambda: tf.io.decode_image(encoded, channels=3, expand_animations=False),
  )
  photo = tf.ensure_shape(photo, [None, None, 3])
  return upright(photo, orientation(encoded))


def header_pixels(encoded: tf.Tensor) -> tf.Tensor:
  """Width times height as the header of a file's bytes says: int64 scalar, 0 for no known format.

  (PNG: ISO/IEC 15948, 11.2.2, IHDR comes first; GIF89a, section 18, the logical
  screen; BMP: BITMAPINFOHEADER, whose height is negative in rows from the top.)

  Raises:
    InvalidArgumentError: for a JPEG whose header is broken.
  """
  head = tf.pad(tf.io.decode_raw(tf.strings.substr(encoded, 0, 32), tf.uint8), [[0, 32]])
  values = tf.cast(head, tf.int64)

  def number(at: int, size: int, *, big: bool) -> tf.Tensor:
    weights = [256**place for place in range(size)]
    return tf.reduce_sum(values[at : at + size] * tf.constant(weights[::-1] if big else weights, tf.int64))

  def jpeg() -> tf.Tensor:
    return tf.reduce_prod(tf.io.extract_jpeg_shape(encoded, tf.int64)[:2])

  def bmp() -> tf.Tensor:
    height = number(22, 4, big=False)
    return number(18, 4, big=False) * tf.minimum(height, 2**32 - height)

  others = [
    (
      tf.strings.substr(encoded, 0, 4) == b"\x89PNG",
      lambda: number(16, 4, big=True) * number(20, 4, big=True),
    ),
    (tf.strings.substr(encoded, 0, 3) == b"GIF", lambda: number(6, 2, big=False) * number(8, 2, big=False)),
    (tf.strings.substr(encoded, 0, 2) == b"BM", bmp),
  ]
  return tf.case(
    [(_is_jpeg(encoded), jpeg), *others], default=lambda: tf.constant(0, tf.int64), exclusive=False
  )


def orientation(encoded: tf.Tensor) -> tf.Tensor:
  """The EXIF orientation of a JPEG's bytes: int32 scalar, 1 to 8; 1 where none is told.

  (EXIF 2.32, section 4.6.4, tag 274; TIFF 6.0 for the layout.) A damaged header
  counts as none: it must never cost the photo.
  """
  # Zeros behind the end stand in for bounds checks: no marker, tag or offset
  # that matters is 0.
  head = tf.io.decode_raw(tf.strings.substr(encoded, 0, _HEADER_BYTES), tf.uint8)
  data = tf.cast(tf.pad(head, [[0, 64]]), tf.int32)
  return tf.cond(_is_jpeg(encoded), lambda: _exif_orientation(data), lambda: 1)


def _is_jpeg(encoded: tf.Tensor) -> tf.Tensor:
  return tf.strings.substr(encoded, 0, 2) == b"\xff\xd8"


def _exif_orientation(data: tf.Tensor) -> tf.Tensor:
  """Orientation from the APP1 segment of int32 [bytes] values, else 1."""
  limit = tf.size(data) - 64

  def is_exif(at: tf.Tensor) -> tf.Tensor:
    name = tf.constant([0x45, 0x78, 0x69, 0x66, 0, 0])
    return (data[at + 1] == 0xE1) & tf.reduce_all(data[at + 4 : at + 10] == name)

  def goes_on(at: tf.Tensor) -> tf.Tensor:
    # Behind the start-of-scan marker (DA) lies the picture itself.
    return (at < limit) & (data[at] == 0xFF) & (data[at + 1] != 0xDA) & tf.logical_not(is_exif(at))

  def following(at: tf.Tensor) -> tuple[tf.Tensor]:
    return (tf.minimum(at + 2 + tf.maximum(data[at + 2] * 256 + data[at + 3], 2), limit),)

  (at,) = tf.while_loop(goes_on, following, (tf.constant(2),))
  found = (at < limit) & (data[at] == 0xFF) & is_exif(at)
  return tf.cond(found, lambda: _tiff_orientation(data, at + 10, limit), lambda: 1)


def _tiff_orientation(data: tf.Tensor, start: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
  """Orientation from the first directory of the TIFF block at `start`, else 1."""
  little = data[start] == 0x49  # "II"; big-endian blocks begin "MM"

  def number(at: tf.Tensor, size: int) -> tf.Tensor:
    """Unsigned values of `size` bytes at offsets `at` of any shape."""
    steps = tf.range(size)
    places = tf.where(little, steps, size - 1 - steps)
    values = tf.gather(data, tf.clip_by_value(tf.expand_dims(at, -1) + steps, 0, limit + 63))
    return tf.reduce_sum(tf.bitwise.left_shift(values, 8 * places), axis=-1)

  # A wild offset (negative when its top bit is set) leads to padding, thus to 1.
  directory = start + number(start + 4, 4)
  directory = tf.where((directory > start) & (directory < limit), directory, limit)
  entries = tf.range(tf.minimum(number(directory, 2), (limit - directory) // _ENTRY_BYTES + 1))
  places = directory + 2 + entries * _ENTRY_BYTES
  hits = number(places, 2) == _ORIENTATION_TAG
  values = tf.boolean_mask(number(places + 8, 2), hits)
  value = tf.concat([values, [1]], axis=0)[0]
  return tf.where((value >= 1) & (value <= 8), value, 1)


def upright(photo: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
  """The photo turned and mirrored as its EXIF orientation asks.

  Args:
    photo: uint8 [h, w, 3], as stored.
    orientation: int32 scalar, 1 to 8: where the stored first row and column lie
      in the scene. 6, for one, is stored turned left, so it is turned right.
  """
  # Orientations 5 to 8 store columns as rows.
  photo = tf.cond(orientation >= 5, lambda: tf.transpose(photo, [1, 0, 2]), lambda: photo)

  def flipped(axis: int, orientations: tuple[int, ...]) -> tf.Tensor:
    wanted = tf.reduce_any(orientation == tf.constant(orientations))
    return tf.cond(wanted, lambda: tf.reverse(photo, [axis]), lambda: photo)

  photo = flipped(1, (2, 3, 6, 7))
  return flipped(0, (3, 4, 7, 8))
