"""Photos, lists, models and settings from strangers: refused in words, and nothing in them is run.

The fuzzed corpus is made here, a few hundred bytes a file. Readers have a
fuzzing of their own, in tests/taskmix/sources/test_hostile.py; the server in
tests/taskmix/serving/test_server.py.
"""

import dataclasses
import gzip
import io
import json
import os
import pathlib
import pickle
import re
import shutil
import struct
import tempfile
import zlib

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from PIL import Image

from taskmix import sources
from taskmix.examples import photos as training_photos
from taskmix.examples.photos import BadPhotoError
from taskmix.model import serving
from taskmix.nets.mtcnn import PNET
from taskmix.sources import AnnotatedImage, AnnotationError, cifar10, files, voc
from taskmix.spec import Conversion, Net, Source, Training, from_json

REPOSITORY = pathlib.Path(__file__).parents[2]
MOST = 4096  # pixels that the decoders may give here


def _encoded(format: str, size=(16, 12), **options) -> bytes:
  pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, format, **options)
  return file.getvalue()


CORPUS = {
  "jpeg": _encoded("JPEG", quality=30),
  "progressive": _encoded("JPEG", quality=30, progressive=True),
  "png": _encoded("PNG"),
  "gif": _encoded("GIF"),
  "bmp": _encoded("BMP"),
  "webp": _encoded("WEBP"),
}


def _png_of_zeros(width: int, height: int) -> bytes:
  """A whole, valid PNG whose pixels are all black: a thousandth of its pixels' bytes."""

  def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

  header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
  rows = zlib.compress(bytes((width + 1) * height), 9)
  return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _with_size(format: str, width: int, height: int) -> bytes:
  """A file of the corpus whose header promises another size."""
  data = bytearray(CORPUS[format])
  if format == "png":
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
  elif format == "gif":
    data[6:10] = struct.pack("<HH", width & 0xFFFF, height & 0xFFFF)
  elif format == "bmp":
    data[18:26] = struct.pack("<II", width, height)
  else:
    at = re.search(rb"\xff[\xc0\xc2]", bytes(data)).start()  # type: ignore[union-attr]
    data[at + 5 : at + 9] = struct.pack(">HH", height & 0xFFFF, width & 0xFFFF)
  return bytes(data)


def _train(data: bytes) -> np.ndarray | None:
  """As the conversion decodes; None where it says why not."""
  try:
    return training_photos.decode(data, max_pixels=MOST)
  except BadPhotoError:
    return None


_GRAPH = []


def _serve(data: bytes) -> np.ndarray | None:
  """As the detector's graph decodes; None where it refuses the request."""
  import tensorflow as tf

  from taskmix.faces import photos

  if not _GRAPH:
    spec = tf.TensorSpec([], tf.string)
    _GRAPH.append(tf.function(lambda data: photos.decode(data, max_pixels=MOST), input_signature=[spec]))
  try:
    return _GRAPH[0](tf.constant(data)).numpy()
  except tf.errors.InvalidArgumentError:
    return None


DECODERS = pytest.mark.parametrize("decode", [_train, _serve], ids=["training", "serving"])


@DECODERS
@pytest.mark.parametrize("format", CORPUS)
def test_the_corpus_is_sound(format, decode):
  picture = decode(CORPUS[format])
  if format == "webp" and decode is _serve:
    assert picture is None  # TensorFlow has no decoder for it.
  else:
    assert picture is not None and picture.shape == (12, 16, 3)


@settings(max_examples=300, deadline=None)
@given(
  format=st.sampled_from(sorted(CORPUS)),
  flips=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 255)), max_size=6),
  cut=st.integers(0, 2000) | st.none(),
  decode=st.sampled_from([_train, _serve]),
)
def test_damaged_pictures_are_decoded_within_bounds_or_refused(format, flips, cut, decode):
  data = bytearray(CORPUS[format])
  for at, flip in flips:
    data[at % len(data)] ^= flip
  picture = decode(bytes(data[:cut]))
  assert picture is None or (picture.dtype == np.uint8 and picture.ndim == 3 and picture.size <= 3 * MOST)


@settings(max_examples=200, deadline=None)
@given(
  data=st.binary(max_size=200),
  head=st.sampled_from([b"", b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"RIFF"]),
  decode=st.sampled_from([_train, _serve]),
)
def test_any_bytes_are_refused_or_decoded_within_bounds(data, head, decode):
  picture = decode(head + data)
  assert picture is None or picture.size <= 3 * MOST


@settings(max_examples=150, deadline=None)
@given(
  format=st.sampled_from(["jpeg", "progressive", "png", "gif", "bmp"]),
  width=st.integers(0, 2**31) | st.sampled_from([0, 1, 65, 65535]),
  height=st.integers(0, 2**31) | st.sampled_from([0, 1, 65, 65535]),
  decode=st.sampled_from([_train, _serve]),
)
def test_whatever_size_a_header_promises_is_kept_within_bounds(format, width, height, decode):
  picture = decode(_with_size(format, width, height))
  assert picture is None or picture.size <= 3 * MOST


@DECODERS
def test_a_decompression_bomb_is_refused_by_its_header(decode):
  assert decode(_png_of_zeros(64, 64)) is not None
  bomb = _png_of_zeros(8192, 8192)
  assert len(bomb) < 80_000
  assert decode(bomb) is None


def test_the_reason_names_the_size_and_the_setting():
  with pytest.raises(BadPhotoError, match=r"^8192 x 8192 pixels are more than max_pixels 100$"):
    training_photos.decode(_png_of_zeros(8192, 8192), max_pixels=100)


def test_no_more_of_a_photo_is_read_than_max_bytes(tmp_path):
  # A device that never ends, under the name of a photo.
  (tmp_path / "a.jpg").symlink_to("/dev/zero")
  endless = AnnotatedImage(image_id="a.jpg", path=str(tmp_path / "a.jpg"))
  with pytest.raises(BadPhotoError, match="more than max_bytes 1000000"):
    training_photos.load(endless, max_pixels=MOST, max_bytes=1_000_000)


def test_bounds_are_settings_of_the_conversion():
  assert (Conversion().max_pixels, Conversion().max_bytes) == (100_000_000, 1 << 28)
  with pytest.raises(ValueError, match="must be 1 or more"):
    Conversion(max_bytes=0)


def test_a_list_that_unpacks_or_goes_on_without_end_is_refused_by_a_bound_of_its_source(tmp_path):
  (tmp_path / "bbx_gt.txt.gz").write_bytes(gzip.compress(bytes(1 << 24), 9))
  (tmp_path / "endless.xml").symlink_to("/dev/zero")
  told = "more than the 1,048,576 bytes of max_annotation_bytes"
  for format, name in (("wider_face", "bbx_gt.txt.gz"), ("voc", "endless.xml")):
    source = Source("boxes", format, name, ".", ("neg",), max_annotation_bytes=1 << 20)
    with pytest.raises(AnnotationError, match=told):
      list(sources.read(source, str(tmp_path)))


def test_the_bound_of_one_source_is_not_another_s(tmp_path):
  (tmp_path / "list.txt").write_text("".join(f"{n}.jpg\n0\n0 0 0 0 0 0 0 0 0 0\n" for n in range(2)))
  whole = Source("whole", "wider_face", "list.txt", ".", ("neg",))
  small = dataclasses.replace(whole, name="small", max_annotation_bytes=10)
  images = sources.read(whole, str(tmp_path))
  assert next(images).image_id == "0.jpg"
  with pytest.raises(AnnotationError, match="more than the 10 bytes"):
    list(sources.read(small, str(tmp_path)))
  assert next(images).image_id == "1.jpg"
  with pytest.raises(ValueError, match="must be 1 or more"):
    dataclasses.replace(small, max_annotation_bytes=0)


def test_a_billion_laughs_are_refused_with_their_line(tmp_path):
  entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
  path = tmp_path / "1.xml"
  path.write_text(f'<?xml version="1.0"?>\n<!DOCTYPE z [<!ENTITY l0 "lol">{entities}]><z>&l9;</z>')
  with pytest.raises(AnnotationError, match=r"document type .* is refused"):
    list(voc.read(str(path), "root"))


@pytest.mark.parametrize(
  "name", ["../../etc/passwd", "/etc/passwd", "a/../../x.jpg", "C:\\x.jpg", "gs://b/x.jpg"]
)
def test_a_list_cannot_name_a_photo_outside_its_folder(name):
  with pytest.raises(AnnotationError, match="does not lie below the images folder"):
    files.image_name(name, path="list.txt", line=1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> pathlib.Path:
  from taskmix.model.build import build

  folder = tmp_path_factory.mktemp("exported") / "model"
  serving.export(str(folder), PNET, model=build(PNET))
  return folder


@pytest.mark.parametrize("function", ["os:system", "subprocess:run", "builtins:exec", "shutil:rmtree"])
def test_the_net_beside_a_model_cannot_choose_what_is_called(exported, tmp_path, function):
  shutil.copytree(exported, tmp_path / "model")
  path = tmp_path / "model" / "assets.extra" / "net.json"
  described = json.loads(path.read_text())
  described["net"]["backbone"] = function
  path.write_text(json.dumps(described))
  with pytest.raises(ValueError, match=f"{function}' belongs to Python itself"):
    serving.load(str(tmp_path / "model"))


def test_a_detector_that_would_write_a_file_is_not_loaded(tmp_path):
  import tensorflow as tf

  from taskmix.faces.detect import SavedDetector

  class Writing(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.uint8, "image")])
    def detect_image_with_options(self, image):
      with tf.control_dependencies([tf.io.write_file(str(tmp_path / "written"), "x")]):
        return {"size": tf.shape(image)}

  module = Writing()
  signatures = {"detect_image_with_options": module.detect_image_with_options}
  tf.saved_model.save(module, str(tmp_path / "m"), signatures=signatures)
  with pytest.raises(ValueError, match=r"is not loaded: its graph writes files \(WriteFile\)"):
    SavedDetector(tmp_path / "m")


class _Trap:
  """A pickle of this makes a folder when it is loaded."""

  def __init__(self, folder: pathlib.Path):
    self.folder = folder

  def __reduce__(self):
    return os.mkdir, (str(self.folder),)


def test_pickles_where_a_model_or_data_are_expected_are_not_run(exported, tmp_path):
  sprung = tmp_path / "sprung"
  trap = pickle.dumps(_Trap(sprung))
  # The trap works, so that what follows means something.
  pickle.loads(trap)
  sprung.rmdir()

  shutil.copytree(exported, tmp_path / "model")
  (tmp_path / "model" / "assets.extra" / "net.weights.h5").write_bytes(trap)
  with pytest.raises(ValueError, match="not weights of the net 'pnet'"):
    serving.load(str(tmp_path / "model"))
  (tmp_path / "weights.h5").write_bytes(trap)
  with pytest.raises(ValueError, match="not weights"):
    serving.load_weights(serving.load(str(exported)).model, str(tmp_path / "weights.h5"))
  (tmp_path / "batch").mkdir()
  (tmp_path / "batch" / "test_batch").write_bytes(trap)
  with pytest.raises(AnnotationError, match=r"asks for posix.mkdir"):
    list(cifar10.read(str(tmp_path / "batch"), "", subset="test"))
  assert _train(trap) is None
  assert not sprung.exists()


@pytest.mark.parametrize("cls", [Net, Training, Conversion])
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_settings_that_are_no_settings_are_a_value_error(cls, data):
  sound = PNET if cls is Net else Training(batch_size=7, steps=1) if cls is Training else Conversion()
  fields = dataclasses.asdict(sound)
  name = data.draw(st.sampled_from([*fields, "__class__", "py/object"]))
  junk = st.none() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
  fields[name] = data.draw(junk | st.dictionaries(st.text(max_size=3), st.none(), max_size=2))
  try:
    value = from_json(cls, json.dumps(fields))
  except ValueError:
    return
  assert isinstance(value, cls)


def test_a_manifest_cannot_name_a_file_outside_its_folder(tmp_path):
  from taskmix.examples.manifest import ShardReport

  for name in ("../../secret", "/etc/passwd", "a/b"):
    with pytest.raises(ValueError, match="is no name of a shard"):
      ShardReport(split="train-neg", name=name, examples=1, size=1, sha256="")


def test_no_code_here_unpacks_an_archive():
  """So no member of one can land outside its root; whoever adds one shall think of that."""
  unpackers = re.compile(r"\b(tarfile|zipfile|unpack_archive|py7zr|rarfile)\b")
  found = [
    str(path.relative_to(REPOSITORY))
    for package in ("taskmix", "components", "pipeline")
    for path in (REPOSITORY / package).rglob("*.py")
    if unpackers.search(path.read_text())
  ]
  assert found == []


def test_arrays_are_never_loaded_with_their_pickles():
  for package in ("taskmix", "components", "pipeline"):
    for path in (REPOSITORY / package).rglob("*.py"):
      assert "allow_pickle=True" not in path.read_text(), path


def test_nothing_is_left_in_the_temp_folder_by_a_refused_model(exported, tmp_path, monkeypatch):
  monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
  (tmp_path / "temp").mkdir()
  (tmp_path / "weights.h5").write_bytes(b"x")
  with pytest.raises(ValueError, match="not weights"):
    serving.load_weights(serving.load(str(exported)).model, str(tmp_path / "weights.h5"))
  assert list((tmp_path / "temp").iterdir()) == []
