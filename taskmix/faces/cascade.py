"""The face detector: pyramid, nets, calibration and suppression as one graph.

    photo -> pyramid -> P-Net on every level -> boxes -> crops -> R-Net -> boxes
          -> crops -> O-Net -> boxes, scores, landmarks

(Zhang et al. 2016, section II-A.) A `Detector` is a `tf.Module`: call it in a
session of Python, or `save` it and serve it with nothing but TensorFlow. It
holds one to three nets, so hard examples are mined with the same graph that
detects: after P-Net alone for R-Net, after both for O-Net.

Coordinates are those of `taskmix.faces.geometry`. Boxes may reach out of the
photo where a face does; what lies outside is seen as mid-grey, 127.5.
"""

import dataclasses
import json
import math
import os
import pathlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from taskmix.faces import graph_crops, photos, pyramid, suppression
from taskmix.faces.stages import Stage
from taskmix.model.build import output_shape

# Most boxes that one level of the pyramid, and one photo, pass on. A photo of a
# crowd needs about 2,000; the limit bounds memory when thresholds are very low.
CANDIDATES_PER_LEVEL = 4096
CANDIDATES = 8192

# Crops that go through a net at once: their activations stay in the cache, and
# memory stays the same for any number of candidates.
_CROPS_AT_ONCE = 64

# Cells of a level that P-Net works out at once: its largest feature map then takes
# 20 MiB or less; smaller bands cost more calls than they save.
_CELLS_AT_ONCE = 1 << 16

# Zhang et al. 2016's release: suppression within a level, across levels, after
# R-Net (intersection over union), and after O-Net (over the smaller box).
LEVEL_OVERLAP, PHOTO_OVERLAP, REFINED_OVERLAP, FINAL_OVERLAP = 0.5, 0.7, 0.7, 0.7


@dataclasses.dataclass(frozen=True)
class Convention:
  """How numbers of a net become pixels: what the nets were trained on.

  Attributes:
    cell: where P-Net's cell (0, 0) begins and ends, in pixels of its level.
    side_plus: what is added to a box's side before offsets and points are
      multiplied by it; 1 where sides count pixels of inclusive boxes.
    point_shift: what is added to every point, in photo pixels.
    rounding: of a level's size: "nearest" or "down"; with "nearest" boxes go back
      to the photo by each axis' true ratio, with "down" by the nominal scale.
    crops: "area" averages the pixels that a crop's pixel covers, as training
      crops are made; "points" interpolates between the four pixels nearest to its
      place, however large the crop.
    suppression: a rule of `taskmix.faces.suppression`.
  """

  cell: tuple[float, float] = (0.0, 12.0)
  side_plus: float = 0.0
  point_shift: float = 0.0
  rounding: Literal["nearest", "down"] = "nearest"
  crops: Literal["area", "points"] = "area"
  suppression: Literal["greedy", "any"] = "greedy"


# Nets trained on this project's crops.
OURS = Convention()

# The release as the PyPI package mtcnn 1.0.0 runs it: see docs/detector.md.
MTCNN_1_0_0 = Convention(
  cell=(1.0, 12.0), side_plus=1.0, point_shift=-1.0, rounding="down", crops="points", suppression="any"
)

CONVENTIONS = {"ours": OURS, "mtcnn": MTCNN_1_0_0}


@dataclasses.dataclass(frozen=True)
class Options:
  """What to look for; the defaults are those of Zhang et al. 2016's release.

  Attributes:
    thresholds: lowest face probability that P-, R- and O-Net let through.
    min_face: side in photo pixels of the smallest face to look for.
    factor: from a level of the pyramid to the next, in (0, 1).
  """

  thresholds: tuple[float, float, float] = (0.6, 0.7, 0.7)
  min_face: float = 20.0
  factor: float = 0.709

  def __post_init__(self):
    if len(self.thresholds) != 3 or not all(0 <= t <= 1 for t in self.thresholds):
      raise ValueError(f"thresholds are three probabilities, not {self.thresholds}")
    if self.min_face <= 0:
      raise ValueError(f"min_face is a side in pixels above 0, not {self.min_face}")
    if not 0 < self.factor < 1:
      raise ValueError(f"factor must lie between 0 and 1, not {self.factor}")


class Detector(tf.Module):
  """One to three nets, and all that lies between them.

  Attributes:
    stages: the nets, in the order in which they see a photo.
    options: the defaults of what to look for.
    convention: what the nets' numbers mean.
  """

  def __init__(
    self, stages: Sequence[Stage], *, options: Options | None = None, convention: Convention = OURS
  ):
    """
    Args:
      stages: one to three; the first slides over images of any size.
      options: defaults; None takes the release's.
      convention: OURS for nets trained here.

    Raises:
      ValueError: if there is no stage, or more than three.
    """
    if not 1 <= len(stages) <= 3:
      raise ValueError(f"a cascade has one to three nets, not {len(stages)}")
    super().__init__(name="detector")
    self.stages = list(stages)
    self.options, self.convention = options or Options(), convention
    # One graph, which every signature calls: its weights are constants in it.
    self._one_photo = tf.function(
      self.detect, input_signature=[tf.TensorSpec([None, None, 3], tf.uint8), *_OPTION_SPECS.values()]
    )

  def __call__(self, photo: np.ndarray, options: Options | None = None) -> dict[str, np.ndarray]:
    """`detect` for NumPy: boxes, scores and landmarks of a uint8 [h, w, 3] RGB photo."""
    options = options or self.options
    values = (np.array(each, np.float32) for each in (options.thresholds, options.min_face, options.factor))
    return {name: value.numpy() for name, value in self._one_photo(photo, *values).items()}

  def detect(
    self, photo: tf.Tensor, thresholds: tf.Tensor, min_face: tf.Tensor, factor: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """The faces of one photo, best first.

    Args:
      photo: uint8 [h, w, 3] RGB.
      thresholds: float32 [3]; those of nets that are not there are ignored.
      min_face, factor: float32 scalars; see `Options`.

    Returns:
      boxes: float32 [n, 4].
      scores: float32 [n], the last net's face probability, falling.
      landmarks: float32 [n, p, 2], by the last net; p is 0 if it has no such task.
    """
    boxes, scores, landmarks = self._propose(photo, thresholds[0], min_face, factor)
    for place, stage in enumerate(self.stages[1:], start=1):
      last = place == 2
      boxes, scores, landmarks = self._refine(photo, square(boxes), stage, thresholds[place], last=last)
    return {"boxes": boxes, "scores": scores, "landmarks": landmarks}

  def _propose(
    self, photo: tf.Tensor, threshold: tf.Tensor, min_face: tf.Tensor, factor: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Boxes, scores and landmarks of the first net on every level, suppressed."""
    height, width = tf.shape(photo)[0], tf.shape(photo)[1]
    scales = pyramid.scales(height, width, min_face=min_face, factor=factor)
    count = tf.size(scales)
    # Converted once: every level reads the whole photo.
    values = tf.cast(photo, tf.float32)
    points = self._points(self.stages[0]) if len(self.stages) == 1 else 0
    found = [
      tf.TensorArray(tf.float32, count, element_shape=[None, columns], infer_shape=False)
      for columns in (4, 1, 2 * points)
    ]

    def one_level(index, *found):
      parts = self._level(values, scales[index], threshold, points)
      return (index + 1, *(array.write(index, part) for array, part in zip(found, parts, strict=True)))

    # Levels run side by side: while one is resized, another is convolved.
    _, *found = tf.while_loop(
      lambda index, *_: index < count, one_level, (tf.constant(0), *found), parallel_iterations=4
    )
    boxes, scores, landmarks = (array.concat() for array in found)
    scores = scores[:, 0]
    best = tf.math.top_k(scores, tf.minimum(tf.size(scores), CANDIDATES)).indices
    boxes, scores, landmarks = (tf.gather(part, best) for part in (boxes, scores, landmarks))
    kept = self._kept(boxes, scores, PHOTO_OVERLAP)
    landmarks = tf.reshape(landmarks, [-1, points, 2])
    return tf.gather(boxes, kept), tf.gather(scores, kept), tf.gather(landmarks, kept)

  def _level(
    self, photo: tf.Tensor, scale: tf.Tensor, threshold: tf.Tensor, points: int
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Boxes [n, 4], scores [n, 1] and landmarks [n, 2 * points] of one level, in photo pixels."""
    stage, convention = self.stages[0], self.convention
    height, width = tf.shape(photo)[0], tf.shape(photo)[1]
    size = pyramid.level_size(height, width, scale=scale, rounding=convention.rounding)
    tasks = ["face", "box", "landmark"] if points else ["face", "box"]
    maps = _slide(stage, pyramid.level(photo, size), tasks)
    # The probability of two logits is the sigmoid of their difference.
    probability = tf.sigmoid(maps["face"][0, :, :, 1] - maps["face"][0, :, :, 0])
    places = tf.where(probability > threshold)
    scores, best = tf.math.top_k(
      tf.gather_nd(probability, places), tf.minimum(tf.shape(places)[0], CANDIDATES_PER_LEVEL)
    )
    places = tf.gather(places, best)
    low, high = convention.cell
    corner = tf.cast(tf.reverse(places, [1]), tf.float32) * pyramid.STRIDE
    cells = tf.concat([corner + low, corner + high], axis=1)
    boxes = cells + tf.gather_nd(maps["box"][0], places) * (high - low)
    if points:
      landmarks = tf.gather_nd(maps["landmark"][0], places) * (high - low) + tf.tile(
        cells[:, :2], [1, points]
      )
    else:
      landmarks = tf.zeros([tf.size(scores), 0])
    if convention.rounding == "nearest":
      ratio = tf.cast(size, tf.float32) / tf.cast(tf.stack([height, width]), tf.float32)
    else:
      ratio = tf.stack([scale, scale])
    ratio = tf.reverse(ratio, [0])
    boxes, landmarks = boxes / tf.tile(ratio, [2]), landmarks / tf.tile(ratio, [points])
    kept = self._kept(boxes, scores, LEVEL_OVERLAP)
    return tf.gather(boxes, kept), tf.gather(scores, kept)[:, None], tf.gather(landmarks, kept)

  def _refine(
    self, photo: tf.Tensor, squares: tf.Tensor, stage: Stage, threshold: tf.Tensor, *, last: bool
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Boxes, scores and landmarks of those crops that the net takes for faces, suppressed."""
    convention, points = self.convention, self._points(stage)
    tasks = ["face", "box", "landmark"] if points else ["face", "box"]
    cut = graph_crops.WAYS[convention.crops]
    crops = cut(photo, squares, stage.side)
    widths = [math.prod(output_shape(stage.net.task(task))) for task in tasks]
    outputs = _in_portions(crops, widths, lambda part: [stage(part, tasks)[task] for task in tasks])
    scores = tf.sigmoid(outputs[0][:, 1] - outputs[0][:, 0])
    passed = tf.where(scores > threshold)[:, 0]
    squares, scores = tf.gather(squares, passed), tf.gather(scores, passed)
    sides = (squares[:, 2:] - squares[:, :2]) + convention.side_plus
    boxes = squares + tf.gather(outputs[1], passed) * tf.tile(sides, [1, 2])
    if points:
      in_crop = tf.reshape(tf.gather(outputs[2], passed), [-1, points, 2])
      landmarks = squares[:, None, :2] + in_crop * sides[:, None] + convention.point_shift
    else:
      landmarks = tf.zeros([tf.size(scores), 0, 2])
    overlap, over = (FINAL_OVERLAP, "min") if last else (REFINED_OVERLAP, "union")
    kept = self._kept(boxes, scores, overlap, over=over)
    return tf.gather(boxes, kept), tf.gather(scores, kept), tf.gather(landmarks, kept)

  def _kept(self, boxes: tf.Tensor, scores: tf.Tensor, overlap: float, *, over: str = "union") -> tf.Tensor:
    rule = self.convention.suppression
    return suppression.keep_best(boxes, scores, threshold=overlap, over=over, rule=rule)

  @staticmethod
  def _points(stage: Stage) -> int:
    """Landmarks that a net gives: its task's values are x, y pairs."""
    return stage.net.task("landmark").target.size // 2 if "landmark" in stage.tasks else 0

  def detect_batch(
    self, images: tf.Tensor, thresholds: tf.Tensor, min_face: tf.Tensor, factor: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """The faces of encoded photos, of any sizes, as dense tensors.

    Args:
      images: string [b], as `taskmix.faces.photos.decode` takes them.
      thresholds, min_face, factor: see `Options`.

    Returns:
      boxes [b, n, 4], scores [b, n], landmarks [b, n, p, 2], float32, and count
      [b], int32. n is the largest count of the batch; behind a photo's count
      there are zeros. Boxes are in the frame of the upright photo.
    """
    count = tf.size(images)
    points = self._points(self.stages[-1])
    # Boxes, score and landmarks of a face, side by side.
    found = tf.TensorArray(tf.float32, count, element_shape=[None, 5 + 2 * points], infer_shape=False)
    counts = tf.TensorArray(tf.int32, count, element_shape=[])

    def one_photo(index, found, counts):
      faces = self._one_photo(photos.decode(images[index]), thresholds, min_face, factor)
      points_flat = tf.reshape(faces["landmarks"], [-1, 2 * points])
      row = tf.concat([faces["boxes"], faces["scores"][:, None], points_flat], axis=1)
      return index + 1, found.write(index, row), counts.write(index, tf.shape(row)[0])

    _, found, counts = tf.while_loop(
      lambda index, *_: index < count, one_photo, (tf.constant(0), found, counts), parallel_iterations=4
    )
    lengths = tf.ensure_shape(counts.stack(), [None])
    faces = tf.RaggedTensor.from_row_lengths(found.concat(), lengths).to_tensor()
    faces = tf.ensure_shape(faces, [None, None, 5 + 2 * points])
    shape = tf.shape(faces)
    landmarks = tf.reshape(faces[..., 5:], [shape[0], shape[1], points, 2])
    return {"boxes": faces[..., :4], "scores": faces[..., 4], "landmarks": landmarks, "count": lengths}

  def save(self, folder: str | pathlib.Path) -> None:
    """Writes the SavedModel; see docs/detector.md for its signatures.

    Its defaults lie in `assets/detector_options.tsv`, a text file that
    `write_options` changes without TensorFlow; what the nets are is told in
    `assets.extra/detector.json`.
    """
    folder = pathlib.Path(folder)
    with tempfile.TemporaryDirectory() as scratch:
      asset = pathlib.Path(scratch) / OPTIONS_FILE
      asset.write_text(_options_text(self.options))
      served = _Served(self, asset)
      tf.saved_model.save(served, str(folder), signatures=served.signatures())
    about = {
      "convention": dataclasses.asdict(self.convention),
      "nets": [json.loads(stage.net.to_json()) for stage in self.stages],
    }
    extra = folder / "assets.extra"
    extra.mkdir(exist_ok=True)
    (extra / "detector.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")


class _Served(tf.Module):
  """A detector's signatures, with its defaults in an asset."""

  def __init__(self, detector: Detector, options: pathlib.Path):
    super().__init__(name="detector")
    self.detector = detector
    # Read once, when the model is loaded.
    lines = tf.lookup.TextFileInitializer(
      str(options), tf.string, 0, tf.float32, 1, delimiter="\t", vocab_size=len(OPTION_NAMES)
    )
    self.defaults = tf.lookup.StaticHashTable(lines, float("nan"))
    self._photo = detector._one_photo
    self._photos = tf.function(
      detector.detect_batch, input_signature=[tf.TensorSpec([None], tf.string), *_OPTION_SPECS.values()]
    )

  def signatures(self) -> dict[str, Any]:
    images = tf.TensorSpec([None], tf.string, name="images")
    image = tf.TensorSpec([None, None, 3], tf.uint8, name="image")
    named = {name: tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in _OPTION_SPECS.items()}
    signatures = {
      "serving_default": tf.function(lambda images: self._photos(images, *self._stored()), [images]),
      "detect_with_options": tf.function(
        lambda images, thresholds, min_face, factor: self._photos(images, thresholds, min_face, factor),
        [images, *named.values()],
      ),
      "detect_image": tf.function(lambda image: self._photo(image, *self._stored()), [image]),
      "detect_image_with_options": tf.function(
        lambda image, thresholds, min_face, factor: self._photo(image, thresholds, min_face, factor),
        [image, *named.values()],
      ),
      "options": tf.function(lambda: dict(zip(_OPTION_SPECS, self._stored(), strict=True)), []),
    }
    for stage in self.detector.stages:
      signatures[stage.net.name] = _net_signature(stage)
    return signatures

  def _stored(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    values = self.defaults.lookup(tf.constant(OPTION_NAMES))
    return values[:3], values[3], values[4]


def _net_signature(stage: Stage) -> Any:
  """One net's own signature: crops of its input size, all its heads."""
  height, width, channels = stage.net.input_size

  def run(image):
    outputs = stage(tf.cast(image, tf.float32), stage.tasks)
    values = {}
    for task in stage.net.tasks:
      flat = tf.reshape(outputs[task.name], [tf.shape(image)[0], -1])
      values[task.name] = (
        tf.nn.softmax(flat) if task.target.classes else tf.reshape(flat, [-1, *task.target.shape])
      )
    return values

  return tf.function(run, [tf.TensorSpec([None, height, width, channels], tf.uint8, name="image")])


OPTIONS_FILE = "detector_options.tsv"
OPTION_NAMES = ("threshold_1", "threshold_2", "threshold_3", "min_face", "factor")
_OPTION_SPECS = {
  "thresholds": tf.TensorSpec([3], tf.float32),
  "min_face": tf.TensorSpec([], tf.float32),
  "factor": tf.TensorSpec([], tf.float32),
}


def read_options(folder: str | pathlib.Path) -> Options:
  """The defaults stored in a saved detector.

  Raises:
    ValueError: if the folder holds no detector, or its options make no sense.
  """
  file = pathlib.Path(folder) / "assets" / OPTIONS_FILE
  if not file.is_file():
    raise ValueError(f"{folder} is no detector: it has no assets/{OPTIONS_FILE}")
  values = dict(line.split("\t") for line in file.read_text().splitlines())
  if set(values) != set(OPTION_NAMES):
    raise ValueError(f"{file}: expected {', '.join(OPTION_NAMES)}, found {', '.join(values)}")
  first, second, third, min_face, factor = (float(values[name]) for name in OPTION_NAMES)
  return Options((first, second, third), min_face, factor)


def write_options(folder: str | pathlib.Path, options: Options) -> None:
  """Changes the defaults of a saved detector; they hold when it is next loaded."""
  read_options(folder)
  file = pathlib.Path(folder) / "assets" / OPTIONS_FILE
  # A reader sees the old file or the new one.
  with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as scratch:
    scratch.write(_options_text(options))
  os.chmod(scratch.name, 0o644)
  os.replace(scratch.name, file)


def _options_text(options: Options) -> str:
  values = (*options.thresholds, options.min_face, options.factor)
  return "".join(f"{name}\t{value:.9g}\n" for name, value in zip(OPTION_NAMES, values, strict=True))


def square(boxes: tf.Tensor) -> tf.Tensor:
  """Squares with each box's centre and longer side: float32 [n, 4]."""
  centres = (boxes[:, :2] + boxes[:, 2:]) / 2
  half = tf.reduce_max(boxes[:, 2:] - boxes[:, :2], axis=1, keepdims=True) / 2
  return tf.concat([centres - half, centres + half], axis=1)


def _slide(stage: Stage, level: tf.Tensor, tasks: Sequence[str]) -> dict[str, tf.Tensor]:
  """`stage(level, tasks)` of a large level, a band of rows at a time: bounded memory.

  Args:
    stage: of 12-pixel cells, 2 pixels apart.
    level: float32 [1, h, w, 3].
    tasks: names of heads.

  Returns:
    task -> float32 [1, h', w', values].
  """
  height, width = tf.shape(level)[1], tf.shape(level)[2]
  rows = tf.maximum(height - pyramid.CELL, 0) // pyramid.STRIDE + 1
  at_once = tf.maximum(_CELLS_AT_ONCE // (width // pyramid.STRIDE), 1)
  bands = (rows + at_once - 1) // at_once
  sizes = [math.prod(output_shape(stage.net.task(task))) for task in tasks]
  found = [
    tf.TensorArray(tf.float32, bands, element_shape=[None, None, size], infer_shape=False) for size in sizes
  ]

  def one_band(index, *found):
    first = index * at_once * pyramid.STRIDE
    # The last cell of a band reaches into the next one. The last band takes all
    # that is left, for nets that make a cell of an odd last row too.
    end = tf.where(index == bands - 1, height, first + (at_once - 1) * pyramid.STRIDE + pyramid.CELL)
    maps = stage(level[:, first:end], tasks)
    return (index + 1, *(array.write(index, maps[task][0]) for array, task in zip(found, tasks, strict=True)))

  _, *found = tf.while_loop(
    lambda index, *_: index < bands, one_band, (tf.constant(0), *found), parallel_iterations=1
  )
  return {task: array.concat()[None] for task, array in zip(tasks, found, strict=True)}


def _in_portions(
  crops: tf.Tensor, widths: Sequence[int], net: Callable[[tf.Tensor], list[tf.Tensor]]
) -> list[tf.Tensor]:
  """`net` of a few crops at a time, side by side on the processor's cores.

  Args:
    crops: float32 [n, side, side, 3].
    widths: of each tensor that `net` gives.
    net: from crops to tensors [n, width].

  Returns:
    What net(crops) would return, in bounded memory.
  """
  count = tf.shape(crops)[0]
  portions = (count + _CROPS_AT_ONCE - 1) // _CROPS_AT_ONCE
  found = [tf.TensorArray(tf.float32, portions, element_shape=[None, n], infer_shape=False) for n in widths]

  def one_portion(index, *found):
    start = index * _CROPS_AT_ONCE
    parts = net(crops[start : start + _CROPS_AT_ONCE])
    return (index + 1, *(array.write(index, part) for array, part in zip(found, parts, strict=True)))

  _, *found = tf.while_loop(
    lambda index, *_: index < portions, one_portion, (tf.constant(0), *found), parallel_iterations=4
  )
  return [array.concat() for array in found]
