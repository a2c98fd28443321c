"""TFRecords of ready-made crops with a 17-float `info`, as some MTCNN
re-implementations write them.

Each record is a tf.train.Example (https://www.tensorflow.org/tutorials/load_data/tfrecord)
of

    image_raw              the crop's encoded bytes (JPEG or PNG)
    info                   [0]    1 pos, 0 neg, -1 part, -2 landmark
                           [1:5]  box offsets x1 y1 x2 y2, as our `box_offsets`
                           [5:17] six points x y, as our `landmarks`
    height, width, depth   not needed: the encoded crop knows its size

The crops are samples as they stand; no crop is cut from them. They do not say
which photo they come from, so that train and eval are split crop by crop: two
crops of one photo can land on both sides. Where that matters, convert from the
photos, or give train and eval data of their own.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from taskmix.examples.codec import decode_features
from taskmix.examples.sharding import FRAME_BYTES, HEADER_BYTES, read_records
from taskmix.sources.annotated import POINTS, AnnotatedImage, AnnotationError
from taskmix.sources.files import list_files, open_binary

INFO = 17
MOST_POINTS = 6
KINDS = {1: "pos", 0: "neg", -1: "part", -2: "landmark"}

_GZIP_MAGIC = b"\x1f\x8b"
_IMAGE_MAGICS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")


def read(
  annotations_path: str, images_root: str, points: int = POINTS, suffix: str = ".tfrecord"
) -> Iterator[AnnotatedImage]:
  """The records of each file, as samples: kind, targets and where the image lies.

  Targets are only those that the kind's samples label: `face` of neg and pos,
  `box_offsets` of pos and part, `landmarks` of landmark.

  Args:
    annotations_path: a TFRecord file, uncompressed, or a folder with such files
      at any depth.
    images_root: not used; the images lie in the records.
    points: how many of the six points to take, from the first.
    suffix: of the files to take from a folder.

  Yields:
    Images whose `span` is the encoded crop's place in the file, so that workers
    read only what they decode.

  Raises:
    ValueError: for `points` outside 1 to 6.
    AnnotationError: for a record that is cut off, corrupted or of another form;
      names the file and the record, counted from 0.
  """
  if not 1 <= points <= MOST_POINTS:
    raise ValueError(f"info has {MOST_POINTS} points; take 1 to {MOST_POINTS}, not {points}")
  del images_root
  root = annotations_path.rstrip("/")
  files = [root] if root.endswith(suffix) else list_files(root, suffix)
  for file in files:
    name = file[len(root) + 1 :] if file != root else root.rsplit("/", 1)[-1]
    for index, (offset, record) in enumerate(_records(file)):
      yield _sample(file, index, offset, record, f"{name}/{index:07d}", points)


def _sample(path: str, index: int, offset: int, record: bytes, image_id: str, points: int) -> AnnotatedImage:
  try:
    features = decode_features(record)
  except (ValueError, OverflowError) as error:
    raise _record_error(path, index, f"no tf.train.Example ({error})") from None
  info = features.get("info", ("", ()))[1]
  if len(info) != INFO or not np.isfinite(info).all() or info[0] not in KINDS:
    raise _record_error(path, index, f"info must be {INFO} finite floats, the first of them 1, 0, -1 or -2")
  dtype, images = features.get("image_raw", ("", ()))
  if dtype != "bytes" or len(images) != 1 or not images[0].startswith(_IMAGE_MAGICS):
    raise _record_error(path, index, "image_raw must be one JPEG or PNG; encode raw pixels first")
  kind = KINDS[int(info[0])]
  return AnnotatedImage(
    image_id=image_id,
    path=path,
    # The first place with these bytes is as good as the one that the record names.
    span=(offset + record.index(images[0]), len(images[0])),
    kind=kind,
    targets=_targets(kind, info, points),
  )


def _targets(kind: str, info: np.ndarray, points: int) -> Mapping[str, Any]:
  box = {"box_offsets": info[1:5].astype(np.float32)}
  return {
    "neg": {"face": 0},
    "pos": {"face": 1, **box},
    "part": box,
    "landmark": {"landmarks": info[5 : 5 + 2 * points].astype(np.float32)},
  }[kind]


def _records(path: str) -> Iterator[tuple[int, bytes]]:
  """(offset of the data, data) of each record of a TFRecord file."""
  with _open(path) as file:
    offset = 0
    try:
      for data in read_records(file, path):
        yield offset + HEADER_BYTES, data
        offset += FRAME_BYTES + len(data)
    except ValueError as error:
      raise AnnotationError(path, None, str(error).removeprefix(f"{path}: ")) from None
  if not offset:
    raise AnnotationError(path, None, "the file is empty; copy it again")


def _open(path: str) -> BinaryIO:
  try:
    file = open_binary(path)
  except FileNotFoundError:
    raise AnnotationError(path, None, "no such file; check the source's `annotations`") from None
  if file.read(2) == _GZIP_MAGIC:
    file.close()
    raise AnnotationError(path, None, "compressed TFRecords cannot be read by place; gunzip the file")
  file.seek(0)
  return file


def _record_error(path: str, index: int, problem: str) -> AnnotationError:
  return AnnotationError(path, None, f"record {index}: {problem}")
