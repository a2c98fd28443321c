"""The imported release answers as the PyPI package mtcnn 1.0.0 does."""

import importlib.util
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from taskmix.faces import geometry, import_weights
from taskmix.nets.mtcnn import MTCNN, ONET, PNET

CACHE = pathlib.Path.home() / ".cache" / "taskmix" / "peers" / "mtcnn-1.0.0"
PHOTOS = ("skimage_astronaut", "faceapi_sample4", "argon_team-1", "mkit_camp")


@pytest.fixture(scope="module")
def package():
  """Makes the package importable: where it is installed, or from the folder for peers."""
  if importlib.util.find_spec("mtcnn") and importlib.util.find_spec("lz4"):
    yield None
    return
  if not all((CACHE / name).is_dir() for name in ("mtcnn", "lz4")):
    pytest.skip(f"needs the released weights: pip install --no-deps --target {CACHE} mtcnn==1.0.0 lz4")
  sys.path.append(str(CACHE))
  yield CACHE
  sys.path.remove(str(CACHE))


@pytest.fixture(scope="module")
def peer(package):
  import joblib.compressor
  import lz4.frame  # pyright: ignore[reportMissingImports]
  from mtcnn import MTCNN as Peer  # pyright: ignore[reportMissingImports]

  # joblib was imported, by TensorFlow's company, before lz4 could be found.
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(joblib.compressor, "lz4", lz4)
    patch.setattr(joblib.compressor, "LZ4FrameFile", lz4.frame.LZ4FrameFile, raising=False)
    joblib.register_compressor("lz4", joblib.compressor.LZ4CompressorWrapper(), force=True)
    yield Peer()


@pytest.fixture(scope="module")
def detector(package):
  return import_weights.released_detector(package=package)


def load(demo: pathlib.Path, name: str) -> np.ndarray:
  return np.asarray(Image.open(demo / "photos" / f"{name}.jpg").convert("RGB"))


@pytest.mark.parametrize("place", range(3), ids=[net.name for net in MTCNN.nets])
def test_each_net_gives_the_peers_outputs_on_the_same_crops(detector, peer, demo, place):
  net, photo = MTCNN.nets[place], tf.constant(load(demo, "faceapi_sample4"), tf.float32)
  corners = np.random.default_rng(0).uniform(0, 0.7, (64, 2))
  crops = tf.image.crop_and_resize(
    photo[None], np.concatenate([corners, corners + 0.25], axis=1), np.zeros(64, int), net.input_size[:2]
  )
  *regressions, face = peer.get_stage(stage_id=place + 1).model((crops - 127.5) / 128)
  found = detector.stages[place](crops, detector.stages[place].tasks)
  probability = tf.nn.softmax(tf.reshape(found["face"], [64, 2]))
  np.testing.assert_allclose(probability, np.reshape(face, [64, 2]), atol=1e-4)
  np.testing.assert_allclose(
    np.reshape(found["box"], [64, 4]), np.reshape(regressions[0], [64, 4]), atol=1e-4
  )
  if net is ONET:
    points = np.reshape(regressions[1], [64, 2, 5]).transpose(0, 2, 1).reshape(64, 10)
    np.testing.assert_allclose(found["landmark"], points, atol=1e-4)


@pytest.mark.parametrize("name", PHOTOS)
def test_the_cascade_gives_the_peers_detections(detector, peer, demo, name):
  photo = load(demo, name)
  expected = peer.detect_faces(
    photo,
    fit_to_image=False,
    box_format="xyxy",
    output_type="numpy",
    threshold_onet=0.7,
  )
  # Columns: photo, x1, y1, x2, y2, score, five x, five y.
  expected = np.asarray(expected)
  found = detector(photo)
  assert len(expected) == len(found["scores"]) > 0
  iou = geometry.iou_matrix(expected[:, 1:5].astype(np.float32), found["boxes"])
  assert (iou.max(axis=1) >= 0.95).all()
  pairs = iou.argmax(axis=1)
  np.testing.assert_allclose(found["scores"][pairs], expected[:, 5], atol=0.01)
  points = np.stack([expected[:, 6:11], expected[:, 11:16]], axis=2)
  assert np.median(np.linalg.norm(found["landmarks"][pairs] - points, axis=2)) <= 1


def test_written_weights_load_into_the_nets(package, detector, tmp_path):
  from taskmix.model.build import build

  written = import_weights.import_weights(tmp_path, package=package)
  assert sorted(written) == ["detector", "onet", "pnet", "rnet"]
  for net, stage in zip(MTCNN.nets, detector.stages, strict=True):
    model = build(net)
    model.load_weights(written[net.name])
    crops = np.random.default_rng(0).integers(0, 256, (3, *net.input_size)).astype(np.float32)
    np.testing.assert_allclose(
      np.reshape(model(crops)["box"], [3, 4]),
      np.reshape(stage(tf.constant(crops), ["box"])["box"], [3, 4]),
      atol=1e-4,
    )
  assert "detect_image" in tf.saved_model.load(str(written["detector"])).signatures


def test_dense_rows_are_reordered_from_columns_first_to_rows_first():
  kernel = np.arange(3 * 3 * 128, dtype=np.float32)[:, None].repeat(2, axis=1)
  names = import_weights.LAYERS["onet"]
  arrays = []
  for name in names:
    arrays += [kernel if name == "fc" else np.arange(10.0)[None], np.arange(10.0)]
    arrays += [] if name in import_weights.HEADS else [np.zeros(1)]
  weights = import_weights.layer_weights("onet", arrays)
  # Feature (row 1, column 0, channel 0): the release has it fourth of its first column, x = 0, y = 1.
  ours = weights["fc"][0][:, 0].reshape(3, 3, 128)
  assert ours[1, 0, 0] == 1 * 128
  assert ours[0, 1, 0] == 3 * 128
  assert weights["landmark"][1].tolist() == [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]


def test_other_peers_files_and_counts_are_refused(tmp_path):
  with pytest.raises(ValueError, match="there are those of mtcnn"):
    import_weights.released_arrays("pnet", peer="dlib")
  with pytest.raises(ValueError, match="is missing"):
    import_weights.released_arrays("pnet", package=tmp_path)
  weights = tmp_path / "mtcnn" / "assets" / "weights"
  weights.mkdir(parents=True)
  (weights / "pnet.lz4").write_bytes(b"another")
  with pytest.raises(ValueError, match="is not the release's"):
    import_weights.released_model(PNET, package=tmp_path)
  with pytest.raises(ValueError, match="has 13 arrays, these are 2"):
    import_weights.layer_weights("pnet", [np.zeros(1)] * 2)
