"""CIFAR-10 in its official binary and Python formats.

Format page: https://www.cs.toronto.edu/~kriz/cifar.html

    binary   data_batch_N.bin, test_batch.bin; a record is <1 byte label><3072
             bytes: 32 x 32 red, then green, then blue, rows first>
    Python   data_batch_N, test_batch; a pickled dict with `data`, uint8
             [n, 3072] in the same order, and `labels`

A pickle can run code. Only what CIFAR-10's hold - dicts, lists, numbers, bytes
and NumPy arrays - is ever loaded; anything else is refused.
"""

import io
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from taskmix.sources.annotated import AnnotatedImage, AnnotationError
from taskmix.sources.files import join, read_bytes, read_lines

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32

_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_SUBSETS = {"train": _TRAIN, "test": ("test_batch",)}

# All that NumPy's own pickles of plain arrays name, under its old and new module names.
_ARRAY_PARTS = {
  (module, name)
  for module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric")
  for name in ("ndarray", "dtype", "_reconstruct", "_frombuffer")
} | {("_codecs", "encode")}


def read(
  annotations_path: str, images_root: str, subset: str = "train", kind: str = "image", target: str = "label"
) -> Iterator[AnnotatedImage]:
  """Every image of the subset, file by file.

  Args:
    annotations_path: the folder with the batch files.
    images_root: the same folder, or one above it.
    subset: "train" (data_batch_1 to 5; those that are there) or "test".
    kind: of every image.
    target: the column that takes the class, 0 to 9.

  Yields:
    Images with `raw_shape` (3, 32, 32): planar RGB, nothing to decode.

  Raises:
    ValueError: for an unknown subset.
    AnnotationError: if no batch file is there, or one is cut off, has a label
      over 9, or is a pickle of something else.
  """
  if subset not in _SUBSETS:
    raise ValueError(f"CIFAR-10 has the subsets {', '.join(_SUBSETS)}, not {subset!r}")
  del images_root
  found = 0
  for batch in _SUBSETS[subset]:
    for name, parse in ((f"{batch}.bin", _parse_binary), (batch, _parse_python)):
      path = join(annotations_path, name)
      try:
        data = read_bytes(path)
      except FileNotFoundError:
        continue
      found += 1
      labels, first, step = parse(path, data)
      for index, label in enumerate(labels):
        yield AnnotatedImage(
          image_id=f"{name}/{index:05d}",
          path=path,
          span=(first + index * step, _PIXELS),
          raw_shape=SHAPE,
          kind=kind,
          targets={target: int(label)},
        )
      break
  if not found:
    raise AnnotationError(
      annotations_path, None, f"none of {', '.join(_SUBSETS[subset])} (.bin or pickled) is here"
    )


def class_names(annotations_path: str) -> tuple[str, ...]:
  """The names in `batches.meta.txt`, in the order of the labels."""
  return tuple(line for line in read_lines(join(annotations_path, "batches.meta.txt")) if line.strip())


def _parse_binary(path: str, data: bytes) -> tuple[np.ndarray, int, int]:
  """(labels, offset of the first image, bytes from image to image)."""
  record = 1 + _PIXELS
  if not data or len(data) % record:
    raise AnnotationError(
      path, None, f"{len(data)} bytes are not whole records of {record}; the file is cut off: copy it again"
    )
  labels = np.frombuffer(data, np.uint8)[::record]
  return _checked(path, labels), 1, record


def _parse_python(path: str, data: bytes) -> tuple[np.ndarray, int, int]:
  """(labels, offset of the first image, bytes from image to image)."""
  try:
    batch = _ArrayUnpickler(io.BytesIO(data), encoding="bytes").load()
    pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
  # Broken pickles raise whatever their opcodes run into, MemoryError and OverflowError among it.
  except Exception as error:
    raise AnnotationError(path, None, f"no CIFAR-10 batch: {error}") from None
  if pixels.dtype != np.uint8 or pixels.shape != (len(labels), _PIXELS) or not len(labels):
    raise AnnotationError(
      path,
      None,
      f"`data` is {pixels.dtype} {pixels.shape} for {len(labels)} labels, not uint8 [n, {_PIXELS}]",
    )
  # The array lies in the pickle as it is in memory, so images can be read by
  # their place, as from the binary format, without unpickling on every worker.
  first = data.find(pixels.tobytes())
  if first < 0:
    raise AnnotationError(path, None, "the pixels are not stored contiguously; use the binary version")
  return _checked(path, labels), first, _PIXELS


def _checked(path: str, labels: np.ndarray) -> np.ndarray:
  wrong = np.flatnonzero((labels < 0) | (labels >= len(CLASSES)))
  if len(wrong):
    raise AnnotationError(path, None, f"record {wrong[0]} has label {labels[wrong[0]]}; CIFAR-10 has 0 to 9")
  return labels


class _ArrayUnpickler(pickle.Unpickler):
  """Loads plain data and NumPy arrays, and refuses everything that could run code."""

  def find_class(self, module: str, name: str) -> Any:
    if (module, name) not in _ARRAY_PARTS:
      raise pickle.UnpicklingError(f"it asks for {module}.{name}, which CIFAR-10's pickles do not")
    return super().find_class(module, name)
