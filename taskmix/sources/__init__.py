"""Readers of annotated image sets, one module a format.

Each module has `read(annotations_path, images_root, **options)`, which yields
`AnnotatedImage`s whose ids are paths below `images_root`. A format is the
module's name here, or "package.module" for a reader that lives elsewhere.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import posixpath
from collections.abc import Callable, Iterator

from taskmix.sources.annotated import AnnotatedImage, AnnotationError
from taskmix.sources.files import annotations_of_at_most, join
from taskmix.spec import Source

__all__ = ["AnnotatedImage", "AnnotationError", "formats", "options", "read", "reader"]

_NOT_FORMATS = ("annotated", "files")


def read(source: Source, root: str) -> Iterator[AnnotatedImage]:
  """The images of `source`, in the reader's order.

  Args:
    source: what to read.
    root: the data folder that the source's paths start from.

  Raises:
    ValueError: for an unknown format or option.
    AnnotationError: for a malformed annotation file.
  """
  read_format = reader(source.format)
  _check_options(source)
  annotations = join(root, source.annotations) if source.annotations else ""
  images = iter(read_format(annotations, join(root, source.images), **dict(source.options)))
  while True:
    # Around each step: what is set in a generator would hold for its caller between them.
    with annotations_of_at_most(source.max_annotation_bytes):
      image = next(images, None)
    if image is None:
      return
    image_id = posixpath.normpath(join(source.images, image.image_id))
    yield dataclasses.replace(image, image_id=image_id)


def reader(name: str) -> Callable[..., Iterator[AnnotatedImage]]:
  """The `read` function of a format.

  Raises:
    ValueError: for an unknown format; lists the known ones.
  """
  known = formats()
  try:
    return importlib.import_module(f"{__name__}.{name}" if name in known else name).read
  except (ImportError, AttributeError, ValueError) as error:
    raise ValueError(
      f"no format {name!r} ({error}); there is {', '.join(known)}, or package.module of your own"
    ) from error


def options(name: str) -> tuple[str, ...]:
  """The options that a format takes."""
  return tuple(inspect.signature(reader(name)).parameters)[2:]


def formats() -> tuple[str, ...]:
  """The names of the formats in this package."""
  names = (module.name for module in pkgutil.iter_modules(__path__))
  return tuple(sorted(name for name in names if name not in _NOT_FORMATS and not name.startswith("_")))


def _check_options(source: Source) -> None:
  known = options(source.format)
  unknown = [name for name, _ in source.options if name not in known]
  if unknown:
    raise ValueError(
      f"source {source.name!r}: format {source.format!r} has no option {', '.join(unknown)}; "
      f"it takes {', '.join(known) or 'none'}"
    )
