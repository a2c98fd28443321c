"""Samples that a Python function of yours makes, from objects of yours.

Two functions, named in the source's options as "package.module:function":

    items      (annotations_path, images_root) -> iterable of (image_id, item);
               runs once, where the conversion is started; or the name of a
               format here, whose AnnotatedImages are the items
    function   (item, image_id) -> taskmix.examples.codec.Sample;
               runs on the workers, an item a call

An item is any object that pickle can carry: a path, a row of a table, an array.
The module must be importable on the workers. An item whose function raises is
quarantined with the error, and the run stops past `max_bad_fraction`.

The image id decides phase and order, so it must stay the same from run to run;
use `taskmix.keys.keyed_rng(seed, image_id)` for what is random.
"""

import importlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from taskmix.sources import reader
from taskmix.sources.annotated import AnnotatedImage, AnnotationError


def read(
  annotations_path: str, images_root: str, function: str = "", items: str = ""
) -> Iterator[AnnotatedImage]:
  """An image an item, to be made by `function` where it is converted.

  Args:
    annotations_path, images_root: passed on to `items`.
    function: "package.module:function".
    items: "package.module:function", or the name of a format.

  Raises:
    ValueError: if either is not given, or names no function.
    AnnotationError: for an item without a name of its own, or that pickle cannot carry.
  """
  load_function(function, "function")
  seen: set[str] = set()
  for image_id, item in _items(items, annotations_path, images_root):
    if not isinstance(image_id, str) or not image_id or image_id in seen:
      raise AnnotationError(
        items, None, f"item {len(seen)} has the image id {image_id!r}; each needs a text of its own"
      )
    seen.add(image_id)
    yield AnnotatedImage(image_id=image_id, path="", function=function, item=_pickled(item, items, image_id))


def load_function(name: str, option: str = "function") -> Callable[..., Any]:
  """The function of "package.module:function".

  Raises:
    ValueError: if there is none; says which option named it.
  """
  module, colon, function = name.partition(":")
  if not module or not colon or not function:
    raise ValueError(f"format python: `{option}` reads package.module:function, not {name!r}")
  try:
    found = getattr(importlib.import_module(module), function)
  except (ImportError, AttributeError) as error:
    raise ValueError(f"format python: `{option}` {name!r} cannot be imported: {error}") from error
  if not callable(found):
    raise ValueError(f"format python: `{option}` {name!r} is a {type(found).__name__}, no function")
  return found


def _items(name: str, annotations_path: str, images_root: str) -> Iterable[tuple[str, Any]]:
  if ":" in name:
    return load_function(name, "items")(annotations_path, images_root)
  return ((image.image_id, image) for image in reader(name)(annotations_path, images_root))


def _pickled(item: Any, items: str, image_id: str) -> bytes:
  try:
    return pickle.dumps(item)
  except Exception as error:
    raise AnnotationError(items, None, f"pickle cannot carry item {image_id!r}: {error}") from error
