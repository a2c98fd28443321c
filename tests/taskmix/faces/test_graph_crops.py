"""Crops in the graph: as training cuts them, and as the released detector does."""

import numpy as np
import pytest

from taskmix.faces import crops, graph_crops, placing


@pytest.fixture(scope="module")
def photo():
  rng = np.random.default_rng(0)
  coarse = rng.integers(0, 256, (31, 42, 3)).astype(np.float32)
  import cv2

  return cv2.resize(coarse, (301, 223)).astype(np.uint8)


def squares_inside(rng, count, width, height):
  sides = rng.uniform(13, 200, count)
  corners = rng.uniform(size=(count, 2)) * (np.array([width, height]) - sides[:, None])
  return np.concatenate([corners, corners + sides[:, None]], axis=1).astype(np.float32)


@pytest.mark.parametrize("side", [12, 24, 48])
def test_by_area_agrees_with_what_training_cuts(photo, side):
  squares = squares_inside(np.random.default_rng(1), 60, 301, 223)
  placed = placing.Placed(
    squares, np.zeros(60, int), np.zeros(60), np.zeros(60, np.float32), np.zeros(60, bool)
  )
  expected = crops.cut(crops.halved(photo, side), placed, (side, side))
  found = graph_crops.by_area(photo, squares, side).numpy()
  difference = np.abs(found - expected)
  # Training's crops and levels are rounded to whole numbers, OpenCV's weights to 1/32.
  assert difference.mean() < 1
  assert np.quantile(difference, 0.999) < 8


def test_by_area_of_the_whole_photo_is_its_mean_in_blocks():
  photo = np.random.default_rng(2).integers(0, 256, (48, 48, 3), np.uint8)
  found = graph_crops.by_area(photo, np.float32([[0, 0, 48, 48]]), 12).numpy()[0]
  expected = photo.reshape(12, 4, 12, 4, 3).mean(axis=(1, 3))
  np.testing.assert_allclose(found, expected, atol=1e-2)


@pytest.mark.parametrize("way", sorted(graph_crops.WAYS))
def test_outside_the_photo_is_mid_grey(way, photo):
  far = np.float32([[-200, -200, -100, -100]])
  np.testing.assert_array_equal(graph_crops.WAYS[way](photo, far, 24).numpy(), np.full((1, 24, 24, 3), 127.5))
  half = graph_crops.WAYS[way](photo, np.float32([[-24, 0, 24, 48]]), 24).numpy()[0]
  assert (half[:, :11] == 127.5).all()
  assert (half[:, 13:] != 127.5).any()


def test_by_points_samples_like_the_released_detector(photo):
  """crop_and_resize over coordinates divided by the size, not the size less one."""
  square = np.float32([[30, 20, 130, 120]])
  found = graph_crops.by_points(photo, square, 24).numpy()[0]
  height, width = photo.shape[:2]
  ys = np.linspace(20, 120, 24) * (height - 1) / height
  xs = np.linspace(30, 130, 24) * (width - 1) / width
  y0, x0 = np.floor(ys).astype(int), np.floor(xs).astype(int)
  fy, fx = (ys - y0)[:, None, None], (xs - x0)[None, :, None]
  values = photo.astype(np.float64)

  def rows(y):
    return values[y][:, x0] * (1 - fx) + values[y][:, x0 + 1] * fx

  np.testing.assert_allclose(found, rows(y0) * (1 - fy) + rows(y0 + 1) * fy, atol=0.02)


@pytest.mark.parametrize("way", sorted(graph_crops.WAYS))
def test_no_squares_give_no_crops(way, photo):
  assert graph_crops.WAYS[way](photo, np.zeros((0, 4), np.float32), 24).shape == (0, 24, 24, 3)
