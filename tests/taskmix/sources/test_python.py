import pickle
import textwrap

import pytest

from taskmix.sources import AnnotationError, read
from taskmix.spec import Source

MODULE = """\
def rows(annotations_path, images_root):
  yield "row/1", {"number": 1, "folder": images_root}
  yield "row/2", {"number": 2, "folder": images_root}

def twins(annotations_path, images_root):
  yield "same", 1
  yield "same", 2

def unpicklable(annotations_path, images_root):
  yield "a", lambda: 0

def make(item, image_id):
  raise NotImplementedError

NUMBER = 7
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
  (tmp_path / "own_samples.py").write_text(textwrap.dedent(MODULE))
  monkeypatch.syspath_prepend(tmp_path)


def _read(root="data", **options):
  source = Source("own", "python", "", "", kinds=("neg",), options=tuple(options.items()))
  return list(read(source, root))


def test_items_travel_pickled_with_their_function():
  images = _read(items="own_samples:rows", function="own_samples:make")
  assert [(image.image_id, image.function) for image in images] == [
    ("row/1", "own_samples:make"),
    ("row/2", "own_samples:make"),
  ]
  assert pickle.loads(images[1].item) == {"number": 2, "folder": "data"}


def test_items_may_be_what_another_format_reads(demo):
  source = Source(
    "own",
    "python",
    "landmarks.csv",
    ".",
    kinds=("neg",),
    options=(("items", "landmark_csv"), ("function", "own_samples:make")),
  )
  image = next(read(source, str(demo)))
  assert pickle.loads(image.item).landmarks.shape == (1, 5, 2)


@pytest.mark.parametrize(
  ("options", "problem"),
  [
    ({}, "`function` reads package.module:function, not ''"),
    ({"function": "own_samples:make"}, "no format ''"),
    (
      {"function": "own_samples.make", "items": "own_samples:rows"},
      "`function` reads package.module:function",
    ),
    (
      {"function": "own_samples:mend", "items": "own_samples:rows"},
      "`function` 'own_samples:mend' cannot be imported",
    ),
    ({"function": "none_such:make", "items": "own_samples:rows"}, "No module named 'none_such'"),
    ({"function": "own_samples:NUMBER", "items": "own_samples:rows"}, "is a int, no function"),
    (
      {"function": "own_samples:make", "items": "own_samples:lines"},
      "`items` 'own_samples:lines' cannot be imported",
    ),
    (
      {"function": "own_samples:make", "item": "own_samples:rows"},
      "has no option item; it takes function, items",
    ),
  ],
)
def test_a_wrong_option_is_told_where_the_conversion_is_started(options, problem):
  with pytest.raises(ValueError, match=problem):
    _read(**options)


def test_each_item_needs_an_id_of_its_own():
  with pytest.raises(AnnotationError, match="own_samples:twins: item 1 has the image id 'same'"):
    _read(items="own_samples:twins", function="own_samples:make")


def test_what_pickle_cannot_carry_is_named():
  with pytest.raises(AnnotationError, match="own_samples:unpicklable: pickle cannot carry item 'a'"):
    _read(items="own_samples:unpicklable", function="own_samples:make")
