"""Labelled images in folders: a class per folder, or per file-name prefix.

    by="folder"   ROOT/cat/anything/below.jpg        (Keras' image_dataset_from_directory)
    by="prefix"   ROOT/cat.0.jpg, ROOT/dog.17.jpg    (Kaggle Dogs vs Cats)

Images are taken in the order of their paths. What is not an image by its suffix
(read-me files, `.DS_Store`) is no sample; an image whose class is unknown is an
error, since nothing is left out in silence.
"""

import os
import posixpath
from collections.abc import Iterator

from taskmix.sources.annotated import AnnotatedImage, AnnotationError
from taskmix.sources.files import is_remote, join

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")


def read(
  annotations_path: str,
  images_root: str,
  classes: str = "",
  by: str = "folder",
  target: str = "label",
  kind: str = "",
) -> Iterator[AnnotatedImage]:
  """Every image below `images_root` that has a class.

  Args:
    annotations_path: unused; the folders are the annotation.
    images_root: local, gs://, s3://...
    classes: their names, separated by commas, in the order of their numbers.
    by: "folder" (the first folder below the root) or "prefix" (the file's name
      up to the first dot).
    target: the column that takes the class's number.
    kind: of every image; "" makes each class a kind of its own, so that the
      mixture balances them.

  Raises:
    ValueError: for an unknown `by`, or if `classes` is not given.
    AnnotationError: if there is no image, or one whose class is not in `classes`.
  """
  del annotations_path
  names = [name.strip() for name in classes.split(",") if name.strip()]
  if not names:
    raise ValueError("format image_folder needs its option `classes`: names separated by commas")
  if by not in ("folder", "prefix"):
    raise ValueError(f"format image_folder: `by` is folder or prefix, not {by!r}")
  paths = _image_paths(images_root)
  if not paths:
    raise AnnotationError(images_root, None, f"no image ({', '.join(SUFFIXES)}) in this folder")
  for name in paths:
    label = name.split("/")[0] if by == "folder" else posixpath.basename(name).split(".")[0]
    if label not in names:
      raise AnnotationError(
        join(images_root, name), None, f"its class by {by} is {label!r}; `classes` has {', '.join(names)}"
      )
    yield AnnotatedImage(
      image_id=name,
      path=join(images_root, name),
      kind=kind or label,
      targets={target: names.index(label)},
    )


def _image_paths(root: str) -> list[str]:
  """Paths of the images below `root`, relative to it, sorted."""
  found = _remote_paths(root) if is_remote(root) else _local_paths(root)
  return sorted(name for name in found if name.lower().endswith(SUFFIXES))


def _local_paths(root: str) -> Iterator[str]:
  for folder, _, files in os.walk(root):
    for name in files:
      yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def _remote_paths(root: str) -> Iterator[str]:
  from apache_beam.io.filesystems import FileSystems

  prefix = root.rstrip("/") + "/"
  for match in FileSystems.match([prefix + "**"]):
    for found in match.metadata_list:
      yield found.path[len(prefix) :]
