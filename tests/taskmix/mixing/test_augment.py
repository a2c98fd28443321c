import cv2
import numpy as np
import pytest
import tensorflow as tf

from taskmix.mixing import augment, jpeg_noise
from taskmix.mixing.augment import NAMES, Augmentation
from taskmix.mixing.contact_sheet import contact_sheet

BOX = (0.1, 0.2, -0.3, -0.1)
# left eye, right eye, nose, left and right mouth corner
POINTS = (0.3, 0.35, 0.7, 0.4, 0.52, 0.5, 0.35, 0.7, 0.65, 0.75)


def _batch(count=64, side=24, seed=0):
  rng = np.random.default_rng(seed)
  return {
    "image": tf.constant(rng.integers(0, 256, (count, side, side, 3), dtype=np.uint8)),
    "box": tf.tile(tf.constant([BOX]), (count, 1)),
    "points": tf.tile(tf.constant([POINTS]), (count, 1)),
  }


def _apply(batch, *names, step=0, seed=1, batch_size=None, slots=slice(None), **options):
  change = Augmentation(names, seed=seed, boxes="box", points="points", **options)
  size = batch_size or len(batch["image"])
  return {
    name: value.numpy()
    for name, value in change(batch, tf.constant(step, tf.int64), batch_size=size, slots=slots).items()
  }


def test_flip_swaps_left_and_right():
  batch = _batch()
  changed = _apply(batch, "mirror")
  flipped = ~(changed["image"] == batch["image"].numpy()).all(axis=(1, 2, 3))
  assert 16 < flipped.sum() < 48
  np.testing.assert_array_equal(changed["image"][flipped], batch["image"].numpy()[flipped][:, :, ::-1])
  # The face reached from 0.1 to 0.7 of the side; mirrored from 0.3 to 0.9.
  np.testing.assert_allclose(
    changed["box"][flipped], np.tile((0.3, 0.2, -0.1, -0.1), (flipped.sum(), 1)), atol=1e-6
  )
  # The photo's left eye is what was its right one: 1 - 0.7, at that one's height.
  mirrored = (0.3, 0.4, 0.7, 0.35, 0.48, 0.5, 0.35, 0.75, 0.65, 0.7)
  np.testing.assert_allclose(changed["points"][flipped], np.tile(mirrored, (flipped.sum(), 1)), atol=1e-6)
  np.testing.assert_allclose(changed["box"][~flipped], np.tile(BOX, ((~flipped).sum(), 1)), atol=1e-6)
  np.testing.assert_allclose(changed["points"][~flipped], np.tile(POINTS, ((~flipped).sum(), 1)), atol=1e-6)


@pytest.mark.parametrize("name", ["mirror", "rotate", "shift"])
def test_points_stay_on_what_they_mark(name):
  """A bright spot drawn at a point is found where the moved point says."""
  side, count = 48, 32
  spot = np.array((0.375, 0.625))  # column 18, row 30
  image = np.zeros((count, side, side, 3), np.float32)
  rows, columns = np.mgrid[:side, :side] + 0.5
  distance = (columns - spot[0] * side) ** 2 + (rows - spot[1] * side) ** 2
  image[:] = (255 * np.exp(-distance / 8))[None, :, :, None]
  points = np.tile(np.tile(spot, 5), (count, 1)).astype(np.float32)
  batch = _batch(count, side) | {"image": tf.constant(image.astype(np.uint8)), "points": tf.constant(points)}
  changed = _apply(batch, name)
  weight = changed["image"][..., 0].astype(float)
  found = np.stack(
    [(weight * axis).sum((1, 2)) / weight.sum((1, 2)) / side for axis in (columns, rows)], axis=1
  )
  np.testing.assert_allclose(changed["points"][:, :2], found, atol=0.005)
  assert np.abs(found - spot).max() > 0.01  # something moved


@pytest.mark.parametrize("name", ["rotate", "shift"])
def test_box_moves_with_its_centre_and_keeps_its_size(name):
  changed = _apply(_batch(), name)
  np.testing.assert_allclose(changed["box"][:, 2] - changed["box"][:, 0], -0.4, atol=1e-6)
  np.testing.assert_allclose(changed["box"][:, 3] - changed["box"][:, 1], -0.3, atol=1e-6)
  moved = np.abs(changed["box"] - BOX).max()
  assert 0.005 < moved <= augment.MAX_SHIFT + 1e-6


def test_standardized_labels_move_as_raw_ones_do():
  mean, deviation = np.linspace(-0.2, 0.3, 4, dtype=np.float32), np.linspace(0.1, 0.4, 4, dtype=np.float32)
  batch = _batch()
  raw = _apply(batch, "mirror", "rotate", "shift")["box"]
  scaled = batch | {"box": (batch["box"] - mean) / deviation}
  changed = _apply(scaled, "mirror", "rotate", "shift", scaling={"box": (mean, deviation)})["box"]
  np.testing.assert_allclose(changed * deviation + mean, raw, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_and_step_give_the_same_and_others_do_not(name):
  batch = _batch()
  once, again = _apply(batch, name, step=5), _apply(batch, name, step=5)
  for column, values in once.items():
    np.testing.assert_array_equal(values, again[column])
  assert not np.array_equal(once["image"], batch["image"])
  assert not np.array_equal(once["image"], _apply(batch, name, step=6)["image"])
  assert not np.array_equal(once["image"], _apply(batch, name, step=5, seed=2)["image"])


@pytest.mark.parametrize("count", [2, 3, 7])
def test_workers_augment_their_slices_as_one_worker_would(count):
  batch = _batch(16)
  whole = _apply(batch, *NAMES, step=3)
  for index in range(count):
    slots = slice(16 * index // count, 16 * (index + 1) // count)
    part = {name: values[slots] for name, values in batch.items()}
    changed = _apply(part, *NAMES, step=3, batch_size=16, slots=slots)
    np.testing.assert_array_equal(changed["image"], whole["image"][slots])
    np.testing.assert_allclose(changed["points"], whole["points"][slots], atol=1e-6)


def test_eager_and_in_a_dataset_are_the_same():
  change = Augmentation(NAMES, seed=1, boxes="box", points="points")
  inside = tf.data.Dataset.from_tensors(_batch(8)).map(
    lambda batch: change(batch, tf.constant(0, tf.int64), batch_size=8, slots=slice(None))
  )
  eager = _apply(_batch(8), *NAMES)
  for name, values in next(inside.as_numpy_iterator()).items():
    np.testing.assert_allclose(values, eager[name], atol=1.01 if name == "image" else 1e-5)


def test_brightness_is_one_step_for_the_whole_picture():
  batch = _batch() | {"image": tf.fill((64, 24, 24, 3), tf.constant(100, tf.uint8))}
  changed = _apply(batch, "brightness")["image"]
  assert (changed == changed[:, :1, :1, :1]).all()
  assert 60 < changed.min() < 90
  assert 110 < changed.max() < 140


def test_hue_leaves_grey_alone():
  grey = tf.repeat(tf.cast(tf.random.stateless_uniform((8, 9, 9, 1), (1, 2)) * 255, tf.uint8), 3, axis=3)
  changed = _apply(_batch(8) | {"image": grey}, "hue")["image"]
  assert np.abs(changed.astype(int) - grey.numpy()).max() <= 1


def test_cutout_cuts_about_a_third_of_the_pictures():
  batch = _batch(1000)
  changed = _apply(batch, "cutout")["image"]
  assert 220 < (changed != batch["image"].numpy()).any(axis=(1, 2, 3)).sum() < 330


def test_no_names_change_nothing():
  batch = _batch(4)
  for name, values in _apply(batch).items():
    np.testing.assert_array_equal(values, batch[name])


def test_an_unknown_name_lists_the_known():
  with pytest.raises(ValueError, match=r"no augmentation flip; there is mirror, rotate"):
    Augmentation(("flip",), seed=1)


@pytest.mark.parametrize("quality", [30, 60, 90])
def test_jpeg_noise_is_what_a_jpeg_codec_leaves(quality):
  rng = np.random.default_rng(0)
  smooth = cv2.resize(
    rng.integers(0, 256, (6, 6, 3), dtype=np.uint8), (48, 48), interpolation=cv2.INTER_CUBIC
  )
  ours = jpeg_noise.recode(tf.cast(smooth[None], tf.float32), tf.constant([float(quality)])).numpy()[0]
  options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x111111]
  coded = cv2.imdecode(cv2.imencode(".jpg", smooth[..., ::-1], options)[1], cv2.IMREAD_COLOR)[..., ::-1]
  ours = np.clip(ours, 0, 255)
  # The codec works in integers, so that now and then a coefficient is rounded the other way.
  assert np.abs(ours - coded).mean() < 1.5
  loss = np.abs(coded.astype(float) - smooth).mean()
  np.testing.assert_allclose(np.abs(ours - smooth).mean(), loss, rtol=0.15)


def test_contact_sheet_has_a_row_an_augmentation():
  batch = {name: values.numpy() for name, values in _batch(3).items()}
  sheet = contact_sheet(batch, boxes="box", points="points")
  assert sheet.shape == ((len(NAMES) + 2) * 144, 110 + 3 * 144, 3)
