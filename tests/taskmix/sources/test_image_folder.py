"""Folders and file names are labels; nothing is left out in silence."""

import pytest

from taskmix.sources import image_folder
from taskmix.sources.annotated import AnnotationError


def _touch(root, *names):
  for name in names:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(b"")


def test_a_class_per_folder(tmp_path):
  _touch(tmp_path, "dog/b.JPG", "cat/deep/a.png", "README.txt")
  images = list(image_folder.read("", str(tmp_path), classes="cat, dog"))
  assert [(image.image_id, image.kind, image.targets) for image in images] == [
    ("cat/deep/a.png", "cat", {"label": 0}),
    ("dog/b.JPG", "dog", {"label": 1}),
  ]


def test_a_class_per_prefix_under_one_kind(tmp_path):
  _touch(tmp_path, "cat.0.jpg", "dog.17.jpg")
  images = list(image_folder.read("", str(tmp_path), classes="cat,dog", by="prefix", kind="image"))
  assert [(image.kind, image.targets["label"]) for image in images] == [("image", 0), ("image", 1)]


def test_an_image_of_an_unknown_class_is_an_error(tmp_path):
  _touch(tmp_path, "bird/a.png")
  with pytest.raises(AnnotationError, match=r"bird.*cat, dog"):
    list(image_folder.read("", str(tmp_path), classes="cat,dog"))


def test_a_folder_without_images_is_an_error(tmp_path):
  with pytest.raises(AnnotationError, match="no image"):
    list(image_folder.read("", str(tmp_path), classes="cat"))


@pytest.mark.parametrize("options", [{}, {"classes": "a", "by": "suffix"}])
def test_options_that_make_no_sense_are_refused(tmp_path, options):
  with pytest.raises(ValueError, match="image_folder"):
    list(image_folder.read("", str(tmp_path), **options))


def test_the_real_cats_and_dogs(shared_data):
  images = list(
    image_folder.read("", str(shared_data / "catsdogs" / "train"), classes="cat,dog", by="prefix")
  )
  assert len(images) == 100
  assert {image.kind for image in images} == {"cat", "dog"}
