import io

import numpy as np
import pytest
from PIL import Image

from taskmix.examples.codec import Sample
from taskmix.faces import contact_sheet
from taskmix.faces.contact_sheet import CROP, MARGIN, TILE, box_in_crop, contact_sheets, draw_sheet
from taskmix.nets.mtcnn import PNET

GREEN, RED, BLUE = (60, 230, 90), (255, 64, 64), (64, 148, 255)
# Where the first tile lies on a sheet.
LEFT, TOP = 6, 66


def _sample(kind, *, offsets=(0, 0, 0, 0), points=(0.5,) * 10, shade=0, image_id="a.jpg"):
  targets = {
    "face": 1,
    "box_offsets": np.float32(offsets),
    "landmarks": np.float32(points),
    "crop": np.zeros(4),
    "iou": 0.71,
    "face_size": 40.0,
  }
  return Sample(np.full((12, 12, 3), shade, np.uint8), kind, image_id, targets)


def _tile(sheet):
  return sheet[TOP : TOP + TILE, LEFT : LEFT + TILE]


def _places(picture, colour):
  """x and y of every pixel of that colour."""
  y, x = np.nonzero((picture == np.array(colour)).all(axis=-1))
  return x, y


def test_offsets_of_nought_are_the_crop_itself():
  np.testing.assert_array_equal(box_in_crop(np.zeros(4)), [0, 0, 1, 1])
  # The face begins a tenth outside on the left and ends a fifth inside at the bottom.
  np.testing.assert_allclose(box_in_crop(np.array([-0.1, 0, 0, -0.2])), [-0.1, 0, 1, 0.8])


def test_the_box_is_drawn_where_the_offsets_say():
  sheet = draw_sheet([_sample("pos", offsets=(0.25, -0.125, 0, -0.25))], net=PNET, kind="pos")
  x, y = _places(_tile(sheet), GREEN)
  # In a crop of 128 pixels after a margin of 32: 0.25 -> 64, 1 -> 160; -0.125 -> 16, 0.75 -> 128.
  assert (x.min(), x.max(), y.min(), y.max()) == (64, 160, 16, 128)


def test_points_are_drawn_where_the_landmarks_say_in_the_colours_of_the_legend():
  points = [0.25, 0.5, 0.75, 0.5, *[0.5, 0.9] * 3]
  tile = _tile(draw_sheet([_sample("landmark", points=points)], net=PNET, kind="landmark"))
  for colour, wanted in ((RED, (64, 96)), (BLUE, (128, 96))):
    x, y = _places(tile, colour)
    assert (x.mean(), y.mean()) == pytest.approx(wanted, abs=0.5)


def test_what_a_kind_does_not_label_is_not_drawn():
  neg = _tile(draw_sheet([_sample("neg")], net=PNET, kind="neg"))
  pos = _tile(draw_sheet([_sample("pos")], net=PNET, kind="pos"))
  landmark = _tile(draw_sheet([_sample("landmark")], net=PNET, kind="landmark"))
  assert [len(_places(tile, GREEN)[0]) > 0 for tile in (neg, pos, landmark)] == [False, True, False]
  # Nothing to show outside: the negative fills its tile.
  assert (neg == 0).all()


def test_the_crop_keeps_its_colours():
  image = np.zeros((12, 12, 3), np.uint8)
  image[:, :6], image[:, 6:] = (200, 10, 20), (20, 10, 200)
  sample = Sample(image, "landmark", "a", _sample("landmark").targets)
  tile = _tile(draw_sheet([sample], net=PNET, kind="landmark"))
  assert tuple(tile[MARGIN + 10, MARGIN + 10]) == (200, 10, 20)
  assert tuple(tile[MARGIN + 10, MARGIN + CROP - 10]) == (20, 10, 200)


def test_labels_far_outside_and_nan_stay_on_the_tile():
  samples = [
    _sample("pos", offsets=(-1e9, np.nan, 1e9, np.inf)),
    _sample("pos", offsets=(2, 2, -2, -2)),
  ]
  assert draw_sheet(samples, net=PNET, kind="pos").shape[1] > 2 * TILE


def test_each_kind_has_a_sheet_of_its_first_samples_in_the_order_of_the_mixture():
  samples = [_sample(kind, shade=index) for index in range(12) for kind in ("landmark", "neg")]
  sheets = contact_sheets(samples, net=PNET, per_kind=10)
  assert list(sheets) == ["neg", "landmark"]
  sheet = np.asarray(Image.open(io.BytesIO(sheets["neg"])))
  # Ten tiles of eight a row make two rows.
  assert sheet.shape[0] == TOP + 2 * (TILE + 22 + 6)
  ninth = sheet[TOP + TILE + 28 :, LEFT:][:TILE, :TILE]
  assert (ninth == 8).all()


def test_equal_samples_give_equal_bytes():
  samples = [_sample("pos", offsets=(0.1, 0.1, 0.1, 0.1), shade=shade) for shade in range(20)]
  first = contact_sheets(iter(samples), net=PNET, totals={"pos": 1234})
  assert first == contact_sheets(iter(samples), net=PNET, totals={"pos": 1234})
  assert first != contact_sheets(iter(samples), net=PNET, totals={"pos": 1235})


def test_captions_fit_their_tile():
  column = next(task.target for task in PNET.tasks if task.name == "face")
  assert contact_sheet._text(column, 0) == "background"
  sample = _sample("neg")
  sample.targets["face"] = 0
  sheet = draw_sheet([sample] * 8, net=PNET, kind="neg")
  # Between two captions there is paper.
  gap = sheet[TOP + TILE : TOP + TILE + 22, LEFT + TILE - 2 : LEFT + TILE + 6]
  assert (gap == 250).all()


def test_a_folder_is_written(tmp_path):
  paths = contact_sheet.write_contact_sheets([_sample("pos")], str(tmp_path / "sheets"), net=PNET)
  assert paths == [str(tmp_path / "sheets" / "pos.png")]
  assert Image.open(paths[0]).mode == "RGB"
