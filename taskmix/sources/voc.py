"""Pascal VOC's XML, a file a photo
(http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html).

`annotation/filename` names the photo; each `annotation/object` has a `name` and
a `bndbox` of `xmin ymin xmax ymax`. Pixels count from 1 and `xmax, ymax` belong
to the box, so that the box is (xmin - 1, ymin - 1, xmax, ymax) here.

XML can be made to fetch files or to grow without end through its document type;
VOC's files have none, so that a file with one is refused.
"""

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.parsers import expat

import numpy as np

from taskmix.sources._points import flat
from taskmix.sources._rows import numbers
from taskmix.sources.annotated import AnnotatedImage, AnnotationError
from taskmix.sources.files import image_name, join, list_files, read_annotation

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def read(
  annotations_path: str, images_root: str, label: str = "", first_pixel: int = 1, inclusive: bool = True
) -> Iterator[AnnotatedImage]:
  """One photo an XML file, by the files' names.

  Objects that are marked `difficult`, and boxes of zero size, are kept with
  `ignore` set. Tools that write VOC files of their own often count from 0 or
  leave `xmax` out of the box: the options say so.

  Args:
    annotations_path: an .xml file, or a folder with such files at any depth.
    images_root: folder that `filename` starts from.
    label: take only objects of this name; "" takes all.
    first_pixel: what the files call the first pixel.
    inclusive: whether xmax and ymax belong to the box.

  Raises:
    AnnotationError: for a file that is no XML or cut off, has a document type,
      or lacks `filename` or a corner; and for two files of one photo.
  """
  files = [annotations_path] if annotations_path.endswith(".xml") else list_files(annotations_path, ".xml")
  first_file: dict[str, str] = {}
  for file in files:
    root, lines = _parse(file)
    name = image_name(root.findtext("filename", "").strip(), path=file, line=lines[root])
    if name in first_file:
      raise AnnotationError(
        file, lines[root], f"photo {name!r} is that of {first_file[name]} too; merge the two"
      )
    first_file[name] = file
    objects = [item for item in root.iter("object") if label in ("", item.findtext("name", "").strip())]
    boxes = np.asarray([_box(file, item, lines) for item in objects], np.float64).reshape(-1, 4)
    boxes -= first_pixel
    boxes[:, 2:] += inclusive
    difficult = np.asarray([item.findtext("difficult", "0").strip() == "1" for item in objects], bool)
    yield AnnotatedImage(
      image_id=name, path=join(images_root, name), boxes=boxes, ignore=flat(boxes) | difficult
    )


def _box(path: str, item: ElementTree.Element, lines: dict[ElementTree.Element, int]) -> list[float]:
  box = item.find("bndbox")
  if box is None:
    raise AnnotationError(path, lines[item], "an object without bndbox")
  fields = [text.strip() for key in _CORNERS if (text := box.findtext(key)) is not None]
  return numbers(fields, " ".join(_CORNERS), path=path, line=lines[box])


def _parse(path: str) -> tuple[ElementTree.Element, dict[ElementTree.Element, int]]:
  """The root element, and the line on which each element starts."""
  builder, lines = ElementTree.TreeBuilder(), {}
  parser = expat.ParserCreate()

  def start(tag: str, attributes: dict[str, str]) -> None:
    lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

  def refuse(name: str, *_: object) -> None:
    line = parser.CurrentLineNumber
    raise AnnotationError(path, line, f"a document type ({name[:40]}) is refused: VOC has none; delete it")

  parser.StartElementHandler = start
  parser.EndElementHandler = builder.end
  parser.CharacterDataHandler = builder.data
  parser.StartDoctypeDeclHandler = refuse
  try:
    parser.Parse(read_annotation(path), True)
  except expat.ExpatError as error:
    raise AnnotationError(
      path, error.lineno, f"no XML: {expat.ErrorString(error.code)}; is it cut off?"
    ) from None
  return builder.close(), lines
