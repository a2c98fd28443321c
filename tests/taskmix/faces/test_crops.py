import dataclasses

import numpy as np
import pytest

from taskmix.faces import crops, geometry, placing
from taskmix.nets.mtcnn import PNET
from taskmix.sources.annotated import AnnotatedImage
from taskmix.spec import Column, CropRecipe, Loss, Mixture, Net, SampleKind, Task

KINDS = ("neg", "pos", "part", "landmark")

# left eye, right eye, nose, left and right mouth corner of a face at [100, 80, 180, 180]
POINTS = [[120, 115], [160, 115], [140, 135], [125, 155], [155, 155]]


def photo(height=240, width=320):
  """A smooth ramp: red is x, green is y, so a pixel tells its place."""
  y, x = np.mgrid[:height, :width]
  return np.stack([x * 255 / width, y * 255 / height, np.zeros_like(x)], axis=-1).astype(np.uint8)


def annotated(boxes=((100, 80, 180, 180),), points=(POINTS,), **more):
  return AnnotatedImage("a.jpg", "/a.jpg", np.array(boxes, np.float32), np.array(points, np.float32), **more)


def cut_all(image, *, net=PNET, kinds=KINDS, seed=1, picture=None):
  levels = crops.halved(photo() if picture is None else picture, 12)
  return crops.cut_crops(levels, image, net=net, kinds=kinds, seed=seed)


def place(image, width, height, *, net=PNET, kinds=("neg", "pos", "part"), mined=None):
  return placing.place_crops(
    [placing.Photo(image, width, height, mined)], net=net, kinds=kinds, seed=0
  ).by_kind()


def with_recipe(**settings):
  return dataclasses.replace(PNET, recipe=dataclasses.replace(CropRecipe(), **settings))


@pytest.mark.parametrize(
  ("iou", "kind"),
  [
    (0.0, "neg"),
    (0.2999, "neg"),
    (0.3, None),
    (0.35, None),
    (0.4, "part"),
    (0.65, "part"),
    (0.6501, "pos"),
    (1.0, "pos"),
  ],
)
def test_iou_decides_the_kind_to_the_boundary(iou, kind):
  iou = np.array([iou], np.float32)
  kinds = [k.name for k in PNET.mixture.kinds if k.min_iou is not None and placing.in_range(iou, k)[0]]
  assert kinds == ([kind] if kind else [])


def test_each_kind_keeps_its_iou_with_the_nearest_of_all_faces():
  boxes = np.array([[100, 80, 180, 180], [150, 90, 210, 160], [20, 20, 28, 28]], np.float32)
  image = annotated(boxes, np.full((3, 5, 2), np.nan))
  batches = cut_all(image, kinds=("neg", "pos", "part"))
  for kind, low, high in (("neg", 0, 0.3), ("part", 0.4, 0.65), ("pos", 0.65, 1)):
    # Worked out pair by pair, not by the matrix under test.
    for crop, told in zip(batches[kind]["crop"], batches[kind]["iou"], strict=True):
      best = max(plain_iou(crop, box) for box in boxes)
      assert low - 1e-6 <= best <= high + 1e-6
      assert told == pytest.approx(best, abs=1e-5)
    assert len(batches[kind]["crop"])


def plain_iou(a, b):
  width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
  height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
  area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
  return width * height / (area - width * height)


def test_box_offsets_lead_from_the_crop_to_the_face():
  batch = cut_all(annotated(), kinds=("pos", "part"))
  for kind in ("pos", "part"):
    faces = geometry.apply_offsets(batch[kind]["crop"], batch[kind]["box_offsets"])
    np.testing.assert_allclose(faces, np.tile([100, 80, 180, 180], (len(faces), 1)), atol=1e-3)


def test_a_photo_without_faces_gives_only_negatives():
  batches = cut_all(annotated(np.zeros((0, 4)), np.zeros((0, 5, 2))))
  assert len(batches["neg"]["image"]) == PNET.recipe.random_negatives
  assert [len(batches[kind]["image"]) for kind in ("pos", "part", "landmark")] == [0, 0, 0]
  assert (batches["neg"]["iou"] == 0).all()
  assert (batches["neg"]["face_size"] == 0).all()


def test_faces_under_20_pixels_give_no_crop_but_keep_negatives_away():
  image = annotated([[100, 80, 119.9, 180]], [np.full((5, 2), np.nan)])
  batches = cut_all(image, net=with_recipe(random_negatives=2000))
  assert len(batches["pos"]["image"]) == len(batches["part"]["image"]) == 0
  assert batches["neg"]["iou"].max() > 0


@pytest.mark.parametrize("ignore", [True, False])
def test_ignored_faces_give_no_crop_but_keep_negatives_away(ignore):
  batches = cut_all(annotated(ignore=[ignore]), net=with_recipe(random_negatives=2000))
  assert bool(len(batches["pos"]["image"])) is not ignore
  assert bool(len(batches["landmark"]["image"])) is not ignore
  assert 0 < batches["neg"]["iou"].max() < 0.3


def test_boxes_that_are_not_finite_are_ignored():
  batches = cut_all(annotated([[np.nan, 0, 50, 50], [100, 80, np.inf, 180]], np.full((2, 5, 2), np.nan)))
  assert len(batches["neg"]["image"]) == 50
  assert len(batches["pos"]["image"]) == 0


def test_every_crop_lies_in_the_photo():
  image = annotated([[0, 0, 60, 70], [270, 180, 320, 240]], np.full((2, 5, 2), np.nan))
  for batch in cut_all(image, kinds=("neg", "pos", "part")).values():
    assert geometry.inside(batch["crop"], 320, 240).all()


def test_a_photo_too_small_for_a_negative_gives_none():
  batches = cut_all(annotated(np.zeros((0, 4)), np.zeros((0, 5, 2))), picture=photo(20, 23), kinds=("neg",))
  assert len(batches["neg"]["image"]) == 0


def test_the_same_seed_cuts_the_same_and_another_does_not():
  first, again, other = (cut_all(annotated(), seed=seed) for seed in (1, 1, 2))
  for kind in KINDS:
    for name in first[kind]:
      np.testing.assert_array_equal(first[kind][name], again[kind][name])
    assert not np.array_equal(first[kind]["crop"], other[kind]["crop"])


def test_a_kind_is_cut_the_same_whatever_else_is_wanted():
  alone = cut_all(annotated(), kinds=("part",))["part"]
  np.testing.assert_array_equal(alone["crop"], cut_all(annotated())["part"]["crop"])


def test_pixels_come_from_where_the_crop_says():
  batches = cut_all(annotated(), kinds=("neg", "pos"))
  for batch in batches.values():
    centres = (batch["crop"][:, :2] + batch["crop"][:, 2:]) / 2
    means = batch["image"].reshape(len(centres), -1, 3).mean(axis=1)
    np.testing.assert_allclose(means[:, 0], centres[:, 0] * 255 / 320, atol=1.5)
    np.testing.assert_allclose(means[:, 1], centres[:, 1] * 255 / 240, atol=1.5)


def test_a_large_crop_is_an_average_and_not_a_sieve():
  noise = np.random.default_rng(0).integers(0, 256, (480, 480, 3), np.uint8)
  whole = placing.Placed(
    np.array([[0, 0, 480, 480]], np.float32),
    np.zeros(1, int),
    np.zeros(1),
    np.zeros(1, np.float32),
    np.zeros(1, bool),
  )
  pixels = crops.cut(crops.halved(noise, 12), whole, (12, 12))
  # 1,600 photo pixels to one; a bilinear step of 40 would keep a deviation of 40 and more.
  assert pixels.std() < 6


def test_a_crop_of_the_nets_own_size_is_the_photo_itself():
  exact = placing.Placed(
    np.array([[30, 40, 42, 52]], np.float32),
    np.zeros(1, int),
    np.zeros(1),
    np.zeros(1, np.float32),
    np.zeros(1, bool),
  )
  picture = photo()
  np.testing.assert_array_equal(
    crops.cut(crops.halved(picture, 12), exact, (12, 12))[0], picture[40:52, 30:42]
  )


def dotted(points):
  """Black, with a white 5 x 5 dot at each point but the nose, which is red."""
  picture = np.zeros((240, 320, 3), np.uint8)
  for index, (x, y) in enumerate(points):
    picture[y - 2 : y + 3, x - 2 : x + 3] = [255, 0, 0] if index == 2 else 255
  return picture


def test_landmarks_lie_on_their_pixels_mirrored_and_turned_too():
  net = dataclasses.replace(with_recipe(max_rotation=30.0), input_size=(96, 96, 3))
  batch = cut_all(annotated(), net=net, kinds=("landmark",), picture=dotted(POINTS))["landmark"]
  assert len(batch["image"]) > 10
  for picture, points in zip(batch["image"], batch["landmarks"].reshape(-1, 5, 2), strict=True):
    y, x = np.nonzero((picture[..., 0] > 128) & (picture[..., 1] < 100))
    np.testing.assert_allclose([x.mean() + 0.5, y.mean() + 0.5], points[2] * 96, atol=1.5)
    for eye in points[[0, 1, 3, 4]]:
      column, row = np.clip((eye * 96).astype(int), 0, 95)
      assert picture[row, column].min() > 100
    left_eye, right_eye, left_mouth, right_mouth = points[[0, 1, 3, 4]]
    assert left_eye[0] < right_eye[0]
    assert left_mouth[0] < right_mouth[0]


def test_every_landmark_crop_is_also_mirrored():
  batch = cut_all(annotated(), net=with_recipe(max_rotation=0.0), kinds=("landmark",))["landmark"]
  half = len(batch["image"]) // 2
  np.testing.assert_array_equal(batch["image"][half:], batch["image"][:half, :, ::-1])
  points = batch["landmarks"].reshape(-1, 5, 2)
  np.testing.assert_array_equal(points[half:], geometry.mirror_landmarks(points[:half]))


def test_a_face_without_points_gives_no_landmark_crop():
  image = annotated([[100, 80, 180, 180], [200, 80, 260, 150]], [POINTS, np.full((5, 2), np.nan)])
  placed = place(image, 320, 240, kinds=("landmark",))
  assert set(placed["landmark"].face.tolist()) == {0}


def test_targets_are_zero_where_a_kind_does_not_label_the_task():
  batches = cut_all(annotated())
  assert (batches["neg"]["box_offsets"] == 0).all()
  assert (batches["pos"]["landmarks"] == 0).all()
  assert (batches["pos"]["face"] == 1).all()
  assert (batches["neg"]["face"] == 0).all()


def test_an_attribute_of_the_face_can_be_a_target():
  blur = Task("blur", Column("blur", "int64", classes=("clear", "normal", "heavy")), ("pos",), Loss("x"))
  net = dataclasses.replace(PNET, tasks=(*PNET.tasks, blur))
  image = annotated(
    [[100, 80, 180, 180], [10, 10, 60, 70]],
    np.full((2, 5, 2), np.nan),
    attributes={"blur": np.array([2, 1])},
  )
  batch = cut_all(image, net=net, kinds=("pos",))["pos"]
  near_first = batch["crop"][:, 0] > 70
  assert set(batch["blur"][near_first]) == {2}
  assert set(batch["blur"][~near_first]) == {1}


def test_a_column_that_nothing_gives_is_named_with_what_there_is():
  net = dataclasses.replace(PNET, context=(Column("age", "float32"),))
  with pytest.raises(ValueError, match=r"'age'.*face_size.*no attributes"):
    cut_all(annotated(), net=net, kinds=("neg",))


def test_two_thousand_faces_stay_within_memory():
  rng = np.random.default_rng(0)
  corners = rng.uniform(0, 900, (2000, 2))
  boxes = np.concatenate([corners, corners + 24], axis=1)
  image = AnnotatedImage("crowd.jpg", "/crowd.jpg", boxes)
  placed = place(image, 1000, 1000)
  assert len(placed["pos"].boxes) > 1000


CIFAR = Net(
  "toy",
  (32, 32, 3),
  "m:f",
  (Task("label", Column("label", "int64", classes=("a", "b")), ("image",), Loss("x")),),
  Mixture((SampleKind("image", 1),)),
)


def test_a_whole_image_of_the_right_size_keeps_its_pixels():
  picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
  image = AnnotatedImage("i", "/i", kind="image", targets={"label": 1})
  batch = crops.whole_image(picture, image, net=CIFAR)
  np.testing.assert_array_equal(batch["image"][0], picture)
  assert batch["label"].tolist() == [1]


def test_a_whole_image_is_resized_to_the_net():
  image = AnnotatedImage("i", "/i", kind="image", targets={"label": 0})
  assert crops.whole_image(photo(), image, net=CIFAR)["image"].shape == (1, 32, 32, 3)


def test_a_whole_image_without_its_target_is_refused():
  with pytest.raises(ValueError, match=r"'label'.*gives class"):
    crops.whole_image(photo(), AnnotatedImage("i", "/i", kind="image", targets={"class": 1}), net=CIFAR)


def test_what_the_nets_before_took_for_a_face_is_sorted_by_its_iou():
  image = annotated([[100, 100, 200, 200]], np.full((1, 5, 2), np.nan))
  mined = np.float32(
    [
      [102, 102, 202, 202],  # on the face
      [140, 100, 240, 200],  # 60 of 140 columns: 0.43
      [500, 500, 600, 600],  # nothing there
      [505, 505, 605, 605],
      [-50, 0, 50, 100],  # leaves the photo
    ]
  )
  net = with_recipe(random_negatives=0, near_negatives=0, tries_per_face=0, mined_negatives=1)
  placed = place(image, 800, 800, net=net, mined=mined)
  assert {kind: found.boxes.tolist() for kind, found in placed.items()} == {
    "neg": [[500, 500, 600, 600]],  # the surest only
    "pos": [[102, 102, 202, 202]],
    "part": [[140, 100, 240, 200]],
  }
