"""Records are written by TensorFlow itself, so that nothing of ours reads its own writing."""

import io

import numpy as np
import pytest
import tensorflow as tf

from taskmix.sources import AnnotationError, info17, read
from taskmix.sources.files import read_bytes
from taskmix.spec import Source

BOX = [-0.1, 0.2, 0.3, -0.4]
POINTS = [0.1, 0.2, 0.9, 0.2, 0.5, 0.5, 0.2, 0.8, 0.8, 0.8, 0.5, 0.95]


def _jpeg(shade: int) -> bytes:
  return tf.io.encode_jpeg(np.full((12, 12, 3), shade, np.uint8)).numpy()


def _example(label: float, image: bytes, values=(*BOX, *POINTS)) -> bytes:
  feature = {
    "height": tf.train.Feature(int64_list=tf.train.Int64List(value=[12])),
    "width": tf.train.Feature(int64_list=tf.train.Int64List(value=[12])),
    "depth": tf.train.Feature(int64_list=tf.train.Int64List(value=[3])),
    "info": tf.train.Feature(float_list=tf.train.FloatList(value=[label, *values])),
    "image_raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
  }
  return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


@pytest.fixture
def records(tmp_path):
  path = str(tmp_path / "crops.tfrecord")

  def write(*examples: bytes, options=None) -> str:
    with tf.io.TFRecordWriter(path, options) as writer:
      for example in examples:
        writer.write(example)
    return path

  return write


def test_label_codes_become_kinds_and_only_their_targets(records):
  path = records(*(_example(label, _jpeg(100)) for label in (1, 0, -1, -2)))
  images = list(info17.read(path, ""))
  assert [image.kind for image in images] == ["pos", "neg", "part", "landmark"]
  pos, neg, part, landmark = (image.targets for image in images)
  assert (pos["face"], neg["face"]) == (1, 0)
  assert [set(targets) for targets in (pos, neg, part, landmark)] == [
    {"face", "box_offsets"},
    {"face"},
    {"box_offsets"},
    {"landmarks"},
  ]
  np.testing.assert_array_equal(pos["box_offsets"], np.float32(BOX))
  np.testing.assert_array_equal(part["box_offsets"], np.float32(BOX))
  np.testing.assert_array_equal(landmark["landmarks"], np.float32(POINTS[:10]))


@pytest.mark.parametrize("points", [1, 5, 6])
def test_the_number_of_points_is_a_setting(records, points):
  (image,) = info17.read(records(_example(-2, _jpeg(0))), "", points=points)
  np.testing.assert_array_equal(image.targets["landmarks"], np.float32(POINTS[: 2 * points]))


def test_seven_points_are_refused(records):
  with pytest.raises(ValueError, match="take 1 to 6, not 7"):
    next(info17.read(records(_example(-2, _jpeg(0))), "", points=7))


def test_the_span_is_the_encoded_crop(records):
  pictures = [_jpeg(shade) for shade in (0, 100, 200)]
  path = records(*(_example(0, picture) for picture in pictures))
  for image, picture in zip(info17.read(path, ""), pictures, strict=True):
    assert read_bytes(image.path, image.span) == picture


def test_a_folder_gives_every_file_and_ids_that_differ(tmp_path, records):
  records(_example(0, _jpeg(0)), _example(1, _jpeg(0)))
  (tmp_path / "more").mkdir()
  (tmp_path / "crops.tfrecord").rename(tmp_path / "more/a.tfrecord")
  records(_example(0, _jpeg(0)))
  source = Source("old_crops", "info17", ".", "", kinds=("neg", "pos"))
  images = list(read(source, str(tmp_path)))
  assert [image.image_id for image in images] == [
    "crops.tfrecord/0000000",
    "more/a.tfrecord/0000000",
    "more/a.tfrecord/0000001",
  ]


@pytest.mark.parametrize(
  ("example", "problem"),
  [
    (b"no example", "no tf.train.Example"),
    (_example(2, _jpeg(0)), "info must be 17 finite floats, the first of them 1, 0, -1 or -2"),
    (_example(1, _jpeg(0), BOX), "info must be 17 finite floats"),
    (_example(1, _jpeg(0), [float("nan")] * 16), "info must be 17 finite floats"),
    (_example(1, bytes(12 * 12 * 3)), "image_raw must be one JPEG or PNG"),
    (tf.train.Example().SerializeToString(), "info must be 17 finite floats"),
  ],
  ids=["garbage", "label", "short", "nan", "raw pixels", "empty"],
)
def test_a_wrong_record_is_named(records, example, problem):
  path = records(_example(0, _jpeg(0)), example)
  with pytest.raises(AnnotationError, match=rf"crops\.tfrecord: record 1: {problem}"):
    list(info17.read(path, ""))


def test_every_cut_is_noticed(records):
  path = records(_example(0, _jpeg(0)), _example(1, _jpeg(50)))
  data = read_bytes(path)
  first = next(info17.read(path, ""))
  whole = 16 + int.from_bytes(data[:8], "little")
  for size in [*range(40), *range(whole - 20, whole + 40), len(data) - 1]:
    with open(path, "wb") as file:
      file.write(data[:size])
    if size == whole:
      (image,) = info17.read(path, "")
      assert image.span == first.span
    else:
      with pytest.raises(
        AnnotationError, match=r"crops\.tfrecord: (cut off in record [01]|the file is empty)"
      ):
        list(info17.read(path, ""))


def test_every_flipped_byte_is_noticed(records):
  path = records(_example(0, _jpeg(0)))
  data = bytearray(read_bytes(path))
  for at in range(0, len(data), 7):
    broken = bytearray(data)
    broken[at] ^= 0x41
    with open(path, "wb") as file:
      file.write(broken)
    with pytest.raises(AnnotationError, match=r"record 0 (has a broken length|is damaged)"):
      list(info17.read(path, ""))


def test_compressed_files_say_what_to_do(records):
  path = records(_example(0, _jpeg(0)), options="GZIP")
  with pytest.raises(AnnotationError, match="gunzip the file"):
    list(info17.read(path, ""))


def test_png_crops_are_taken(records):
  picture = tf.io.encode_png(np.zeros((12, 12, 3), np.uint8)).numpy()
  (image,) = info17.read(records(_example(0, picture)), "")
  assert io.BytesIO(read_bytes(image.path, image.span)).read(4) == b"\x89PNG"


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(AnnotationError, match=r"none\.tfrecord: no such file"):
    list(info17.read(str(tmp_path / "none.tfrecord"), ""))
