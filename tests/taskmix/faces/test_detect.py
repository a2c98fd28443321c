"""`taskmix detect`: lines, drawings, and what it refuses."""

import io
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from taskmix.faces import cascade, detect, drawing


class OneFace(tf.Module):
  """Answers any photo with one face, its box the photo's middle, its score min_face / 100."""

  @tf.function(
    input_signature=[
      tf.TensorSpec([None, None, 3], tf.uint8, name="image"),
      tf.TensorSpec([3], tf.float32, name="thresholds"),
      tf.TensorSpec([], tf.float32, name="min_face"),
      tf.TensorSpec([], tf.float32, name="factor"),
    ]
  )
  def detect(self, image, thresholds, min_face, factor):
    size = tf.cast(tf.shape(image)[1::-1], tf.float32)
    box = tf.concat([size / 4, size * 3 / 4], axis=0)[None]
    points = tf.tile((size / 2)[None, None], [1, 5, 1])
    return {"boxes": box, "scores": min_face[None] / 100, "landmarks": points}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  folder = tmp_path_factory.mktemp("model") / "3"
  module = OneFace()
  tf.saved_model.save(module, str(folder), signatures={"detect_image_with_options": module.detect})
  (folder / "assets").mkdir(exist_ok=True)
  (folder / "assets" / cascade.OPTIONS_FILE).write_text(cascade._options_text(cascade.Options(min_face=40.0)))
  return folder.parent


def photo(path, size=(64, 48), **options):
  Image.new("RGB", size, (90, 120, 90)).save(path, **options)
  return path


def test_a_line_a_photo_with_stored_options_and_the_latest_version(model, tmp_path):
  first, second = photo(tmp_path / "a.jpg"), photo(tmp_path / "b.png", (40, 80))
  lines = io.StringIO()
  assert detect.write_lines(detect.detect_photos(model, [first, second]), lines) == 0
  answers = [json.loads(line) for line in lines.getvalue().splitlines()]
  assert answers[0] == {
    "photo": str(first),
    "width": 64,
    "height": 48,
    "faces": [{"box": [16, 12, 48, 36], "score": 0.4, "landmarks": [[32, 24]] * 5}],
  }
  assert (answers[1]["width"], answers[1]["height"]) == (40, 80)


def test_options_given_override_the_stored_ones(model, tmp_path):
  (answer,) = detect.detect_photos(model, [photo(tmp_path / "a.jpg")], min_face=25.0)
  assert answer["faces"][0]["score"] == 0.25
  with pytest.raises(ValueError, match="three numbers"):
    detect.detect_photos(model, [tmp_path / "a.jpg"], thresholds=[0.5])


def test_faces_are_drawn_on_the_upright_photo(model, tmp_path):
  exif = Image.Exif()
  exif[0x0112] = 6
  source = photo(tmp_path / "a.jpg", exif=exif)
  (answer,) = detect.detect_photos(model, [source], out=tmp_path / "out")
  assert (answer["width"], answer["height"]) == (48, 64)
  drawn = np.asarray(Image.open(tmp_path / "out" / "a.jpg"))
  assert drawn.shape == (64, 48, 3)
  assert np.abs(drawn[40, 12].astype(int) - drawing.BOX).max() < 60
  assert np.abs(drawn[32, 24].astype(int) - drawing.POINT).max() < 60


def test_a_file_that_is_no_photo_is_an_error_of_its_own(model, tmp_path):
  broken = tmp_path / "broken.jpg"
  broken.write_bytes(b"\xff\xd8no photo")
  good = photo(tmp_path / "good.jpg")
  bad, fine = detect.detect_photos(model, [broken, good])
  assert bad["photo"] == str(broken)
  assert bad["error"]
  assert len(fine["faces"]) == 1


def test_folders_give_their_photos_by_name(tmp_path):
  (tmp_path / "in" / "deep").mkdir(parents=True)
  second, first = photo(tmp_path / "in" / "z.png"), photo(tmp_path / "in" / "deep" / "a.JPG", format="JPEG")
  (tmp_path / "in" / "notes.txt").write_text("no photo")
  assert list(detect.find_photos([tmp_path / "in"])) == [first, second]
  with pytest.raises(ValueError, match="no such photo"):
    list(detect.find_photos([tmp_path / "none.jpg"]))
  (tmp_path / "empty").mkdir()
  with pytest.raises(ValueError, match="no photo in this folder"):
    list(detect.find_photos([tmp_path / "empty"]))


def test_nothing_is_written_over(model, tmp_path):
  source = photo(tmp_path / "a.jpg")
  with pytest.raises(ValueError, match="written over"):
    detect.detect_photos(model, [source], out=tmp_path)
  with pytest.raises(ValueError, match="written over"):
    detect.detect_photos(model, [source, photo(tmp_path / "a.png")], out=tmp_path / "out")


def test_the_latest_version_is_taken_and_other_folders_are_refused(model, tmp_path):
  assert detect.latest_version(model).name == "3"
  assert detect.latest_version(model / "3").name == "3"
  for folder in (tmp_path, tmp_path / "none"):
    with pytest.raises(ValueError, match=r"saved_model\.pb"):
      detect.latest_version(folder)


def test_a_drawn_photo_is_a_copy_and_boxes_are_exclusive():
  blank = np.zeros((20, 20, 3), np.uint8)
  drawn = drawing.draw_faces(blank, np.float32([[2, 3, 12, 14]]))
  assert not blank.any()
  rows, columns = np.nonzero(drawn.any(axis=2))
  assert (rows.min(), rows.max(), columns.min(), columns.max()) == (3, 13, 2, 11)
