"""Photos in files to JSON lines and drawings."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from taskmix.faces.cascade import Detector, Options
from taskmix.faces.detect import detect, draw
from taskmix.faces.stages import Stage
from taskmix.model.build import build
from taskmix.nets.mtcnn import PNET


@pytest.fixture(scope="module")
def detector() -> Detector:
  # Untrained, a face's probability is about a half.
  return Detector([Stage(PNET, build(PNET, any_size=True))], options=Options((0.45, 0.5, 0.5), 40.0))


@pytest.fixture(scope="module")
def model(detector, tmp_path_factory):
  folder = tmp_path_factory.mktemp("detector") / "1"
  detector.save(folder)
  return folder


@pytest.fixture
def photos(tmp_path):
  pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
  paths = [tmp_path / "noise.png", tmp_path / "tiny.png"]
  Image.fromarray(pixels).save(paths[0])
  Image.fromarray(pixels[:5, :5]).save(paths[1])
  return paths


def test_a_line_a_photo_and_a_drawing_each(detector, model, photos, tmp_path):
  stream = io.StringIO()
  detect(model, photos, stream=stream, out=tmp_path / "drawn")
  first, second = (json.loads(line) for line in stream.getvalue().splitlines())
  expected = detector(np.asarray(Image.open(photos[0])))
  assert first["photo"] == str(photos[0])
  assert len(first["faces"]) == len(expected["boxes"]) > 0
  np.testing.assert_allclose([face["box"] for face in first["faces"]], expected["boxes"], atol=0.02)
  np.testing.assert_allclose([face["score"] for face in first["faces"]], expected["scores"], atol=1e-3)
  assert np.shape(first["faces"][0]["landmarks"]) == (5, 2)
  assert second == {"photo": str(photos[1]), "faces": []}
  assert sorted(each.name for each in (tmp_path / "drawn").iterdir()) == ["noise.png.png", "tiny.png.png"]


def test_box_and_points_are_drawn_where_they_are(tmp_path):
  Image.new("RGB", (40, 40)).save(tmp_path / "black.png")
  points = [[10, 10], [20, 10], [15, 15], [10, 20], [20, 20]]
  face = {"box": [4, 5, 30, 35], "score": 1.0, "landmarks": points}
  draw(tmp_path / "black.png", [face], tmp_path / "drawn.png")
  drawn = np.asarray(Image.open(tmp_path / "drawn.png"))
  assert drawn[5, 4].tolist() == drawn[35, 30].tolist() == [0, 255, 0]
  assert drawn[10, 10].tolist() == [255, 0, 0]
  assert drawn[10, 20].tolist() == [0, 0, 255]


def test_no_detector_no_photo_and_two_of_a_name_are_refused(model, photos, tmp_path):
  with pytest.raises(ValueError, match="is no detector"):
    detect(tmp_path, photos, stream=io.StringIO())
  (tmp_path / "text.jpg").write_text("no photo")
  with pytest.raises(ValueError, match=r"text\.jpg is no JPEG"):
    detect(model, [tmp_path / "text.jpg"], stream=io.StringIO())
  with pytest.raises(ValueError, match=r"two photos are named noise\.png"):
    detect(model, [photos[0], tmp_path / "other" / "noise.png"], stream=io.StringIO(), out=tmp_path / "drawn")
