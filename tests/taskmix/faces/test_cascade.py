"""A saved detector answers for any photo, and its parts agree."""

import io
import json

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

from taskmix.faces import cascade, suppression
from taskmix.faces.cascade import Detector, Options, read_options, write_options
from taskmix.faces.stages import Stage
from taskmix.model.build import build
from taskmix.nets.mtcnn import MTCNN, PNET

SHAPES = {"boxes": (4,), "scores": (), "landmarks": (5, 2)}


def random_stage(net, *, bias: float) -> Stage:
  """A net whose random weights call about as many crops faces as `bias` says."""
  model, rng = build(net, any_size=net is PNET), np.random.default_rng(3)
  weights = [
    rng.normal(0, 1.2 * np.prod(array.shape[:-1]) ** -0.5, array.shape)
    if array.ndim > 1
    else rng.normal(0, 0.05, array.shape)
    for array in model.get_weights()
  ]
  model.set_weights(weights)
  head = model.get_layer("face")
  kernel, _ = head.get_weights()
  head.set_weights([kernel, np.array([0.0, bias], np.float32)])
  return Stage(net, model)


def encoded(photo: np.ndarray | Image.Image, format: str = "PNG", **options) -> bytes:
  buffer = io.BytesIO()
  image = photo if isinstance(photo, Image.Image) else Image.fromarray(photo)
  image.save(buffer, format, **options)
  return buffer.getvalue()


@pytest.fixture(scope="module")
def detector() -> Detector:
  return Detector([random_stage(net, bias=0.0) for net in MTCNN.nets], options=Options((0.5, 0.5, 0.4)))


@pytest.fixture(scope="module")
def saved(detector, tmp_path_factory):
  folder = tmp_path_factory.mktemp("detector") / "1"
  detector.save(folder)
  return folder


@pytest.fixture(scope="module")
def signatures(saved):
  return tf.saved_model.load(str(saved)).signatures


@pytest.fixture(scope="module")
def photo(demo) -> np.ndarray:
  image = Image.open(demo / "photos" / "skimage_astronaut.jpg").convert("RGB")
  image.thumbnail((100, 100))
  return np.asarray(image)


def test_the_random_detector_finds_some_faces(detector, photo):
  found = detector(photo)
  count = len(found["scores"])
  assert count > 1  # or the tests below say nothing
  for name, shape in SHAPES.items():
    assert found[name].shape == (count, *shape)
    assert found[name].dtype == np.float32
  assert (np.diff(found["scores"]) <= 0).all()
  assert found["scores"].min() > 0.4
  matrix = suppression.overlaps(*[tf.constant(found["boxes"])] * 2, over="min").numpy()
  assert (matrix - np.eye(count)).max() <= cascade.FINAL_OVERLAP + 1e-5


def test_a_batch_of_mixed_photos_answers_each_as_alone(detector, signatures, photo):
  exif = Image.Exif()
  exif[0x0112] = 6
  files = [
    encoded(photo),
    encoded(photo, "JPEG", quality=90),
    encoded(Image.fromarray(photo).convert("L")),
    encoded(Image.fromarray(photo).convert("CMYK"), "JPEG"),
    encoded(photo[:5, :5]),
    encoded(photo[:90, :30]),
    encoded(Image.fromarray(photo), "JPEG", exif=exif),
    encoded(photo[:1, :1]),
  ]
  found = {name: each.numpy() for name, each in signatures["serving_default"](tf.constant(files)).items()}
  assert set(found) == {"boxes", "scores", "landmarks", "count"}
  assert found["count"].dtype == np.int32
  assert found["count"][4] == 0
  assert found["count"][7] == 0
  longest = found["count"].max()
  for place, file in enumerate(files):
    count = found["count"][place]
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    assert image is not None
    alone = signatures["serving_default"](tf.constant([file]))
    assert int(alone["count"][0]) == count
    for name, shape in SHAPES.items():
      assert found[name].shape == (len(files), longest, *shape)
      assert not found[name][place, count:].any()
      np.testing.assert_allclose(alone[name][0], found[name][place, :count], atol=1e-3)
    if image.mode != "CMYK":  # whose colours Pillow converts otherwise
      direct = detector(np.asarray(image.convert("RGB")))
      np.testing.assert_allclose(direct["boxes"], found["boxes"][place, :count], atol=1e-3)


def test_a_plain_photo_and_an_empty_batch_give_no_faces(saved):
  strict = tf.saved_model.load(str(saved)).signatures["detect_with_options"]
  options = {"min_face": tf.constant(20.0), "factor": tf.constant(0.709)}
  grey = encoded(np.full((90, 70, 3), 128, np.uint8))
  found = strict(images=tf.constant([grey]), thresholds=tf.constant([1.0, 1.0, 1.0]), **options)
  assert found["count"].numpy().tolist() == [0]
  assert found["boxes"].shape == (1, 0, 4)
  assert found["landmarks"].shape == (1, 0, 5, 2)
  none = strict(images=tf.constant([], tf.string), thresholds=tf.constant([0.5, 0.5, 0.5]), **options)
  assert none["count"].shape == (0,)


def test_detect_image_is_serving_default_of_the_pixels(signatures, photo):
  found = signatures["detect_image"](image=tf.constant(photo))
  batch = signatures["serving_default"](images=tf.constant([encoded(photo)]))
  for name in SHAPES:
    np.testing.assert_allclose(found[name], batch[name][0], atol=1e-4)


def test_options_given_override_those_stored(detector, signatures, photo):
  given = Options((0.5, 0.5, 0.45), 40.0, 0.5)
  found = signatures["detect_image_with_options"](
    image=tf.constant(photo),
    thresholds=tf.constant(given.thresholds),
    min_face=tf.constant(given.min_face),
    factor=tf.constant(given.factor),
  )
  np.testing.assert_allclose(found["boxes"], detector(photo, given)["boxes"], atol=1e-3)
  assert len(found["boxes"]) != len(detector(photo)["boxes"])


def test_options_written_hold_from_the_next_load_on(detector, tmp_path):
  detector.save(tmp_path / "m")
  assert read_options(tmp_path / "m") == detector.options
  write_options(tmp_path / "m", Options((0.9, 0.8, 0.75), 33.0, 0.6))
  assert read_options(tmp_path / "m") == Options((0.9, 0.8, 0.75), 33.0, 0.6)
  stored = tf.saved_model.load(str(tmp_path / "m")).signatures["options"]()
  np.testing.assert_allclose(stored["thresholds"], [0.9, 0.8, 0.75])
  assert (float(stored["min_face"]), round(float(stored["factor"]), 6)) == (33.0, 0.6)


def test_each_net_has_its_own_signature(detector, signatures):
  for stage in detector.stages:
    crops = np.random.default_rng(0).integers(0, 256, (3, *stage.net.input_size), dtype=np.uint8)
    found = signatures[stage.net.name](image=tf.constant(crops))
    assert {name: each.shape for name, each in found.items()} == {
      "face": (3, 2),
      "box": (3, 4),
      "landmark": (3, 10),
    }
    np.testing.assert_allclose(np.sum(found["face"], axis=1), 1, atol=1e-6)


def test_what_the_nets_are_lies_beside_the_graph(saved):
  about = json.loads((saved / "assets.extra" / "detector.json").read_text())
  assert [net["name"] for net in about["nets"]] == ["pnet", "rnet", "onet"]
  assert about["convention"]["suppression"] == "greedy"


@pytest.mark.parametrize("count", [1, 2])
def test_a_cascade_so_far_detects_too(detector, photo, count):
  found = Detector(detector.stages[:count])(photo, Options((0.5, 0.5, 0.5)))
  assert len(found["boxes"]) > 0
  assert found["landmarks"].shape == (len(found["boxes"]), 5, 2)


def test_a_level_cut_into_bands_gives_the_same_faces(detector, photo, monkeypatch):
  whole = Detector(detector.stages[:1])(photo)
  monkeypatch.setattr(cascade, "_CELLS_AT_ONCE", 200)
  banded = Detector(detector.stages[:1])(photo)
  np.testing.assert_allclose(banded["boxes"], whole["boxes"], atol=1e-3)
  np.testing.assert_allclose(banded["scores"], whole["scores"], atol=1e-5)


def test_bytes_that_are_no_photo_are_refused(signatures):
  with pytest.raises(tf.errors.InvalidArgumentError):
    signatures["serving_default"](tf.constant([b"no photo"]))


@pytest.mark.parametrize(
  ("values", "message"),
  [
    ({"thresholds": (0.5, 0.5, 1.5)}, "three probabilities"),
    ({"min_face": 0.0}, "above 0"),
    ({"factor": 1.0}, "between 0 and 1"),
  ],
)
def test_options_that_make_no_sense_are_refused(values, message):
  with pytest.raises(ValueError, match=message):
    Options(**values)


def test_a_folder_that_is_no_detector_and_a_cascade_of_none_are_refused(tmp_path):
  with pytest.raises(ValueError, match="is no detector"):
    read_options(tmp_path)
  with pytest.raises(ValueError, match="one to three nets"):
    Detector([])
