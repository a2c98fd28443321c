"""Hostile copies of real lists: as far as possible they read the same, else the error names the line."""

import functools
import gzip
import re

import numpy as np
import pytest

from taskmix.keys import keyed_rng
from taskmix.sources import (
  AnnotationError,
  celeba,
  fddb,
  landmark_csv,
  point_list,
  pts68,
  retinaface,
  wider_face,
)

LISTS = {
  "wider/wider_face_devval_bbx_gt.txt": wider_face.read,
  "annotations/wider_face_val_bbx_gt.txt.gz": wider_face.read,
  "dlib_train/bbx_gt.txt": wider_face.read,
  "annotations/FDDB-folds/FDDB-fold-01-ellipseList.txt": fddb.read,
  "annotations/retinaface_train_label_EXCERPT.txt": retinaface.read,
  "annotations/trainImageList_HEAD.txt": point_list.read,
  "annotations/MTFL_training_HEAD.txt": functools.partial(point_list.read, layout="mtfl"),
  "lfw_net_80px/net_7876_landmarks.csv": landmark_csv.read,
  "dlib_train/landmarks.csv": landmark_csv.read,
  "ibug/afw_68points.json": pts68.read,
}


@pytest.fixture(params=LISTS)
def real(request, shared_data, tmp_path):
  """(text, copy): the list's text, and a function from changed text to its images."""
  path = shared_data / request.param
  data = path.read_bytes()
  text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig").replace("\r\n", "\n")
  copy_path = tmp_path / path.name.removesuffix(".gz")

  def copy(changed: str):
    copy_path.write_bytes(changed.encode("utf-8", "surrogateescape"))
    return list(LISTS[request.param](str(copy_path), "root"))

  return text, copy


def _assert_same(images, others):
  assert [image.image_id for image in images] == [image.image_id for image in others]
  for image, other in zip(images, others, strict=True):
    np.testing.assert_array_equal(image.boxes, other.boxes)
    np.testing.assert_array_equal(image.landmarks, other.landmarks)
    np.testing.assert_array_equal(image.ignore, other.ignore)


def test_a_copy_from_windows_reads_the_same(real):
  text, copy = real
  _assert_same(copy("\ufeff" + text.replace("\n", "\r\n")), copy(text))


def test_a_copy_with_tabs_and_trailing_blanks_reads_the_same(real):
  text, copy = real
  # Names have blanks in no list but WIDER's, whose names have lines of their own.
  changed = re.sub(r"(?<=\d) (?=[-\d])", "\t", text).replace("\n", "  \n")
  _assert_same(copy(changed), copy(text))


def test_a_copy_that_is_cut_off_gives_its_beginning_or_an_error(real):
  text, copy = real
  whole = [image.image_id for image in copy(text)]
  for size in keyed_rng("cuts", len(text)).integers(1, len(text) - 1, 6):
    try:
      kept = [image.image_id for image in copy(text[:size])]
    except AnnotationError:
      continue
    # A name may be cut as well, where a photo without faces ends the list.
    assert kept[:-1] == whole[: max(0, len(kept) - 1)]


@pytest.mark.parametrize("value", ["NaN", "1e30"])
def test_what_is_no_pixel_is_named_with_its_line(real, value):
  text, copy = real
  numbers = list(re.finditer(r"(?<=[ ,\[])\d+\.?\d*(?=[ ,\]][\d ])", text))
  at = numbers[len(numbers) // 2]
  if "," in text and not text.startswith("{"):
    # Of a landmark CSV the box: nan among points says that nobody marked them.
    at = next(at for at in numbers if text.count(",", text.rindex("\n", 0, at.start()), at.start()) == 1)
  line = text.count("\n", 0, at.start()) + 1
  expected = rf":{line}: (nan|1e\+30) (is no pixel|stands for points)"
  if text.startswith("{"):
    expected = r"photo 'afw/\d+_\d+\.jpg': every number is finite"
  with pytest.raises(AnnotationError, match=expected):
    copy(text[: at.start()] + value + text[at.end() :])


def test_the_celeba_fixture_with_another_count(shared_data, tmp_path):
  text = (shared_data / "annotations/celeba_mini/list_bbox_celeba.txt").read_text()
  (tmp_path / "list_bbox_celeba.txt").write_text(text.replace("6\n", "202599\n", 1))
  with pytest.raises(AnnotationError, match="line 1 promises 202599 photos, the list has 6"):
    list(celeba.read(str(tmp_path), "", landmarks=""))
