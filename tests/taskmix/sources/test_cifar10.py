"""CIFAR-10's two formats give the same images, and nothing in them is executed."""

import pickle

import numpy as np
import pytest

from taskmix.sources import cifar10, files
from taskmix.sources.annotated import AnnotationError

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 3072), np.uint8)
LABELS = [3, 9, 0]


@pytest.fixture
def binary(tmp_path):
  records = b"".join(bytes([label]) + row.tobytes() for label, row in zip(LABELS, PIXELS, strict=True))
  (tmp_path / "data_batch_1.bin").write_bytes(records)
  return tmp_path


def _pixels(image):
  return np.frombuffer(files.read_bytes(image.path, image.span), np.uint8)


def test_a_binary_batch_gives_each_image_by_its_place(binary):
  images = list(cifar10.read(str(binary), ""))
  assert [image.targets["label"] for image in images] == LABELS
  assert images[1].raw_shape == (3, 32, 32)
  np.testing.assert_array_equal(_pixels(images[2]), PIXELS[2])


def _python2_pickle() -> bytes:
  """The opcodes that Python 2's cPickle writes for the official batches (protocol 2)."""
  array = (
    b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    + b"(K\x01K\x03M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
    + b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    + b"T"
    + len(PIXELS.tobytes()).to_bytes(4, "little")
    + PIXELS.tobytes()
    + b"tb"
  )
  labels = b"](" + b"".join(b"K" + bytes([label]) for label in LABELS) + b"e"
  return b"\x80\x02}(U\x04data" + array + b"U\x06labels" + labels + b"u."


def _python3_pickle(protocol: int) -> bytes:
  batch = {b"data": PIXELS, b"labels": LABELS, b"filenames": [b"a.png"] * 3}
  return pickle.dumps(batch, protocol=protocol)


@pytest.mark.parametrize("content", [_python2_pickle(), *map(_python3_pickle, (3, 4, 5))], ids="2345")
def test_a_pickled_batch_gives_the_same_images(tmp_path, content):
  (tmp_path / "data_batch_1").write_bytes(content)
  images = list(cifar10.read(str(tmp_path), ""))
  assert [image.targets["label"] for image in images] == LABELS
  np.testing.assert_array_equal([_pixels(image) for image in images], PIXELS)


class _Evil:
  def __reduce__(self):
    return (open, ("/dev/null",))


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
  (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": _Evil(), b"labels": []}))
  with pytest.raises(AnnotationError, match="asks for"):
    list(cifar10.read(str(tmp_path), ""))


@pytest.mark.parametrize(
  "content", [b"", b"\x00" * 3000, b"\x0b" + b"\x00" * 3072], ids=["empty", "cut off", "label 11"]
)
def test_a_broken_binary_batch_is_named(tmp_path, content):
  (tmp_path / "data_batch_1.bin").write_bytes(content)
  with pytest.raises(AnnotationError, match=r"data_batch_1\.bin"):
    list(cifar10.read(str(tmp_path), ""))


def test_a_folder_without_batches_says_what_it_looked_for(tmp_path):
  with pytest.raises(AnnotationError, match="test_batch"):
    list(cifar10.read(str(tmp_path), "", subset="test"))


def test_the_real_files_hold_1017_images_each(shared_data):
  folder = str(shared_data / "cifar10" / "cifar-10-batches-bin")
  train, test = list(cifar10.read(folder, "")), list(cifar10.read(folder, "", subset="test"))
  assert (len(train), len(test)) == (2034, 1017)
  assert cifar10.class_names(folder) == cifar10.CLASSES
  assert {image.targets["label"] for image in test} == set(range(10))


@pytest.mark.parametrize(
  "content", [b"\x8e" + bytes(7) + b"\x01", b"\x8d" + bytes(7) + b"\x80"], ids=["huge bytes", "overflow"]
)
def test_a_pickle_that_promises_absurd_sizes_is_refused(tmp_path, content):
  (tmp_path / "data_batch_1").write_bytes(content)
  with pytest.raises(AnnotationError, match="no CIFAR-10 batch"):
    list(cifar10.read(str(tmp_path), ""))
