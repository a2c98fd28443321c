"""CelebA's boxes and landmarks (https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html).

Text lists in the folder `Anno`. Line 1 is the number of photos, line 2 names the
columns, then a row a photo: `list_bbox_celeba.txt` has `x_1 y_1 width height`,
`list_landmarks_celeba.txt` x and y of left eye, right eye, nose, left and right
mouth corner, left in the photo. Both are in pixels of img_celeba (in the wild).
`list_landmarks_align_celeba.txt` is in pixels of img_align_celeba, to which no
boxes belong. Nothing is said of where pixels start; we count from 0.
"""

from collections.abc import Iterator

import numpy as np

from taskmix.sources._points import boxes_of_five, flat
from taskmix.sources._rows import Once, numbers, whole_number
from taskmix.sources.annotated import POINTS, AnnotatedImage, AnnotationError
from taskmix.sources.files import image_name, join, read_lines

_BOX = "x_1 y_1 width height"
_POINTS = (
  "lefteye_x lefteye_y righteye_x righteye_y nose_x nose_y leftmouth_x leftmouth_y rightmouth_x rightmouth_y"
)


def read(
  annotations_path: str,
  images_root: str,
  boxes: str = "list_bbox_celeba.txt",
  landmarks: str = "list_landmarks_celeba.txt",
) -> Iterator[AnnotatedImage]:
  """One face a photo, in the order of the lists.

  Other people in a photo are not annotated: take no negatives from it. Boxes of
  zero size are kept with `ignore` set.

  Args:
    annotations_path: the folder of the lists.
    images_root: folder of the photos.
    boxes: file name of the boxes; "" draws a square round the points.
    landmarks: file name of the points; "" leaves them out.

  Raises:
    ValueError: if both names are "".
    AnnotationError: for a list that is cut off, has other columns or names a
      photo twice, and for two lists of different photos.
  """
  if not boxes and not landmarks:
    raise ValueError("CelebA: give the file name of boxes, landmarks or both")
  lists = [
    (join(annotations_path, name), columns) for name, columns in ((boxes, _BOX), (landmarks, _POINTS)) if name
  ]
  tables = [_table(path, columns) for path, columns in lists]
  _require_same_photos([path for path, _ in lists], tables)
  for name in tables[0]:
    box = tables[0][name] if boxes else None
    points = tables[-1][name].reshape(1, POINTS, 2) if landmarks else None
    yield _image(name, join(images_root, name), box, points)


def _table(path: str, columns: str) -> dict[str, np.ndarray]:
  """image id -> float64 [columns], in the list's order."""
  lines, once, rows = read_lines(path), Once(path), {}
  count = whole_number(lines[0], "the number of photos", path=path, line=1)
  for line, text in enumerate(lines[2:], start=3):
    fields = text.split()
    if fields:
      name = image_name(fields[0], path=path, line=line)
      once.add(name, line)
      rows[name] = np.asarray(numbers(fields[1:], columns, path=path, line=line))
  if len(rows) != count:
    raise AnnotationError(
      path, len(lines), f"line 1 promises {count} photos, the list has {len(rows)}; copy it again"
    )
  return rows


def _require_same_photos(paths: list[str], tables: list[dict[str, np.ndarray]]) -> None:
  alone = tables[0].keys() ^ tables[-1].keys()
  if alone:
    raise AnnotationError(
      paths[0],
      None,
      f"{len(alone)} photos stand in this list or in {paths[-1]}, not in both, as {min(alone)!r}",
    )


def _image(name: str, path: str, box: np.ndarray | None, points: np.ndarray | None) -> AnnotatedImage:
  if box is not None:
    corners = np.concatenate([box[:2], box[:2] + box[2:]])[None]
  else:
    assert points is not None
    corners = boxes_of_five(points)
  return AnnotatedImage(image_id=name, path=path, boxes=corners, landmarks=points, ignore=flat(corners))
