"""The pyramid's scales and sizes by hand."""

import numpy as np
import pytest
import tensorflow as tf

from taskmix.faces import pyramid


def scales(height: int, width: int, *, min_face: float = 20.0, factor: float = 0.709) -> list[float]:
  found = pyramid.scales(
    tf.constant(height), tf.constant(width), min_face=tf.constant(min_face), factor=tf.constant(factor)
  )
  return found.numpy().tolist()


def test_a_vga_photo_has_ten_levels():
  # 480 * 0.6 = 288; 288 * 0.709**9 = 13.03 still holds a cell, times 0.709 is 9.24.
  found = scales(480, 640)
  assert len(found) == 10
  np.testing.assert_allclose(found[:3], [0.6, 0.4254, 0.3016086], rtol=1e-5)
  assert scales(640, 480) == found


def test_halving_by_hand():
  # min_face 12: 96, 48, 24, 12, which is one cell exactly.
  assert scales(96, 200, min_face=12.0, factor=0.5) == [1.0, 0.5, 0.25, 0.125]
  assert scales(95, 200, min_face=12.0, factor=0.5) == [1.0, 0.5, 0.25]


def test_faces_below_a_cell_enlarge_the_photo():
  assert scales(12, 12, min_face=6.0, factor=0.5) == [2.0, 1.0]


@pytest.mark.parametrize("min_face", [20, 33, 47])
def test_a_photo_of_min_face_pixels_has_one_level_and_a_smaller_one_none(min_face):
  assert scales(min_face, 300, min_face=float(min_face)) == pytest.approx([12 / min_face])
  assert scales(min_face - 1, 300, min_face=float(min_face)) == []
  assert scales(1, 1, min_face=float(min_face)) == []


@pytest.mark.parametrize(("rounding", "size"), [("nearest", [62, 100]), ("down", [61, 99])])
def test_a_levels_size_is_rounded(rounding, size):
  # 103 * 0.6 = 61.8, 166 * 0.6 = 99.6.
  found = pyramid.level_size(tf.constant(103), tf.constant(166), scale=tf.constant(0.6), rounding=rounding)
  assert found.numpy().tolist() == size


def test_a_level_is_never_smaller_than_a_cell():
  found = pyramid.level_size(tf.constant(20), tf.constant(21), scale=tf.constant(0.57), rounding="down")
  assert found.numpy().tolist() == [12, 12]


def test_a_levels_pixel_is_the_mean_of_what_it_covers():
  photo = np.random.default_rng(0).integers(0, 256, (24, 36, 3), dtype=np.uint8)
  found = pyramid.level(tf.constant(photo), tf.constant([12, 12])).numpy()
  means = photo.reshape(12, 2, 12, 3, 3).mean(axis=(1, 3))
  np.testing.assert_allclose(found[0], means, rtol=1e-5)
