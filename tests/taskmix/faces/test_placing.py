import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.faces import placing
from taskmix.nets.mtcnn import PNET
from taskmix.sources.annotated import AnnotatedImage

KINDS = ("neg", "pos", "part", "landmark")


def _photo(number, faces, *, width=320, height=240, mined=None):
  corners = np.arange(faces)[:, None] * [37.0, 11.0] + [5 + number, 7]
  boxes = np.concatenate([corners, corners + np.array([40, 48])], axis=1)
  points = corners[:, None] + np.array([[10, 15], [30, 15], [20, 25], [12, 38], [28, 38]])
  return placing.Photo(AnnotatedImage(f"{number}.jpg", "", boxes, points), width, height, mined)


def _assert_same(first: placing.Placed, second: placing.Placed):
  for field in dataclasses.fields(placing.Placed):
    np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))


@settings(max_examples=30, deadline=None)
@given(
  st.lists(st.integers(0, 4), min_size=1, max_size=4),
  st.lists(st.sampled_from([(320, 240), (64, 48), (20, 15)]), min_size=4, max_size=4),
  st.booleans(),
)
def test_photos_together_are_placed_as_each_alone(faces, sizes, mines):
  """A photo without faces, or too small for a negative, must not move its neighbours' crops."""
  mined = np.array([[200, 100, 230, 130], [1, 1, 14, 14], [2, 2, 14, 14]], np.float32) if mines else None
  photos = [
    _photo(number, count, width=width, height=height, mined=mined)
    for number, (count, (width, height)) in enumerate(zip(faces, sizes, strict=False))
  ]
  together = placing.place_crops(photos, net=PNET, kinds=KINDS, seed=3)
  alone = [placing.place_crops([photo], net=PNET, kinds=KINDS, seed=3) for photo in photos]
  np.testing.assert_array_equal(together.counts, np.concatenate([one.counts for one in alone]))
  _assert_same(together.crops, placing.Placed.join([one.crops for one in alone]))


def test_the_order_is_photo_then_kind():
  placement = placing.place_crops([_photo(0, 1), _photo(1, 2)], net=PNET, kinds=("pos", "neg"), seed=0)
  assert placement.kinds == ("pos", "neg")
  ends = np.cumsum(placement.counts).tolist()
  positive = placement.crops.iou > 0.65
  assert positive[: ends[0]].all()
  assert not positive[ends[0] : ends[1]].any()
  assert positive[ends[1] : ends[2]].all()
  assert set(placement.crops.face[ends[1] : ends[2]].tolist()) == {0, 1}


def test_mined_negatives_are_counted_photo_by_photo():
  far = np.array([[200, 150, 240, 190], [210, 150, 250, 190], [220, 150, 260, 190]], np.float32)
  recipe = dataclasses.replace(PNET.recipe, random_negatives=0, near_negatives=0, mined_negatives=2)
  net = dataclasses.replace(PNET, recipe=recipe)
  photos = [_photo(0, 1, mined=far), _photo(1, 1), _photo(2, 1, mined=far[:1])]
  placement = placing.place_crops(photos, net=net, kinds=("neg",), seed=0)
  assert placement.counts.tolist() == [[2], [0], [1]]
  np.testing.assert_array_equal(placement.crops.boxes, far[[0, 1, 0]])
