"""The released MTCNN weights as our nets.

The release is Caffe's; the PyPI package `mtcnn` 1.0.0 (MIT licence) carries its
numbers as lists of arrays in Keras' layout, which are read here without
importing the package. What differs from our nets:

- its dense layers read features column by column (Caffe's order), ours row by
  row: rows of their kernels are reordered;
- its points are x1..x5, y1..y5, ours x1, y1, x2, y2, ...: columns of O-Net's
  landmark head are reordered;
- its P-Net and R-Net have no landmark head: ours gets zeros;
- its offsets are (face - crop) / side, RGB, (pixel - 127.5) / 128, classes
  (background, face), as ours are.

What its coordinates mean, to the half pixel, is not in the weights: see
`taskmix.faces.cascade.MTCNN_1_0_0` and docs/detector.md.
"""

import contextlib
import hashlib
import importlib.util
import io
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from taskmix.nets.mtcnn import MTCNN
from taskmix.spec import Net

PEERS = ("mtcnn",)

# Of the wheel mtcnn-1.0.0: the files are pickles, so they are read only if they
# are the very ones that were looked at.
SHA256 = {
  "pnet": "ea6b0c3e685ebee3165326ad6484acc95f2ef78f1c94fbf40a55704fa989f7b5",
  "rnet": "cb00e6460f3c98b0bfafaba3c0a0ded4bdf6e62cee7174d969e8670d7e757fee",
  "onet": "94f6ea2f4cf985275ee958cdd762d17b6009348a4fb9d8c6be39ba73ffd22ca3",
}

# Layers of our nets in the order of the release's arrays: kernel, bias and, but
# for the heads, slopes.
LAYERS = {
  "pnet": ("conv1", "conv2", "conv3", "box", "face"),
  "rnet": ("conv1", "conv2", "conv3", "fc", "box", "face"),
  "onet": ("conv1", "conv2", "conv3", "conv4", "fc", "box", "landmark", "face"),
}
HEADS = ("face", "box", "landmark")

# Sides and channels of the features that the first dense layer reads.
FEATURES = {"rnet": (3, 3, 64), "onet": (3, 3, 128)}

# x1..x5, y1..y5 to x1, y1, x2, ...: place in the release of each of our values.
POINT_ORDER = (0, 5, 1, 6, 2, 7, 3, 8, 4, 9)


def import_weights(
  out: str | pathlib.Path,
  *,
  peer: str = "mtcnn",
  package: str | pathlib.Path | None = None,
) -> dict[str, pathlib.Path]:
  """Writes the released weights: a Keras weights file a net, and the detector.

  Args:
    out: folder, made if need be. Gets `pnet.weights.h5`, `rnet.weights.h5`,
      `onet.weights.h5` (for `Training.init_weights`) and `detector/`, a
      SavedModel (see docs/detector.md).
    peer: whose release; "mtcnn".
    package: folder that holds the package's folder `mtcnn`, for one that is not
      installed here.

  Returns:
    name -> file or folder written.

  Raises:
    ValueError: on an unknown peer, or files other than the release's.
    ModuleNotFoundError: if the package is not to be found; says how to get it.
  """
  out = pathlib.Path(out)
  out.mkdir(parents=True, exist_ok=True)
  written = {}
  for net in MTCNN.nets:
    model = released_model(net, peer=peer, package=package)
    written[net.name] = out / f"{net.name}.weights.h5"
    model.save_weights(written[net.name])
  written["detector"] = out / "detector"
  released_detector(peer=peer, package=package).save(written["detector"])
  return written


def released_detector(
  *, peer: str = "mtcnn", package: str | pathlib.Path | None = None, **options: Any
) -> Any:
  """The release as a `taskmix.faces.cascade.Detector`, which `options` go to."""
  from taskmix.faces import cascade
  from taskmix.faces.stages import Stage

  stages = [Stage(net, released_model(net, peer=peer, package=package)) for net in MTCNN.nets]
  return cascade.Detector(stages, **{"convention": cascade.CONVENTIONS[peer], **options})


def released_model(
  net: Net,
  *,
  peer: str = "mtcnn",
  package: str | pathlib.Path | None = None,
) -> Any:
  """Our Keras model of a net, with the released weights.

  Args:
    net: PNET, RNET or ONET of `taskmix.nets.mtcnn`, as it stands or with other
      sources, kinds or losses.
    peer, package: as for `import_weights`.

  Returns:
    The model of `taskmix.model.build`; P-Net's slides over images of any size.
  """
  from taskmix.model.build import build

  weights = layer_weights(net.name, released_arrays(net.name, peer=peer, package=package))
  model = build(net, any_size=net.name == "pnet")
  for name, arrays in weights.items():
    layer = model.get_layer(name)
    layer.set_weights(
      [array.reshape(now.shape) for array, now in zip(arrays, layer.get_weights(), strict=True)]
    )
  for task in {task.name for task in net.tasks} - set(weights):
    layer = model.get_layer(task)
    layer.set_weights([np.zeros_like(array) for array in layer.get_weights()])
  return model


def layer_weights(name: str, arrays: Sequence[np.ndarray]) -> dict[str, list[np.ndarray]]:
  """Our layers' weights from the release's arrays of one net.

  Args:
    name: "pnet", "rnet" or "onet".
    arrays: float32, in the release's order (see `LAYERS`).

  Returns:
    layer -> arrays as our layer holds them, apart from axes of length 1.

  Raises:
    ValueError: if there are more or fewer arrays than the net has.
  """
  wanted = sum(2 if layer in HEADS else 3 for layer in LAYERS[name])
  if len(arrays) != wanted:
    raise ValueError(f"{name}: the release has {wanted} arrays, these are {len(arrays)}")
  left = iter(arrays)
  weights: dict[str, list[np.ndarray]] = {}
  for layer in LAYERS[name]:
    kernel, bias = next(left), next(left)
    if layer == "fc":
      kernel = _row_by_row(kernel, FEATURES[name])
    if layer == "landmark":
      kernel, bias = kernel[..., POINT_ORDER], bias[..., POINT_ORDER]
    weights[layer] = [kernel, bias]
    if layer not in HEADS:
      weights[f"{layer}_prelu"] = [next(left)]
  return weights


def _row_by_row(kernel: np.ndarray, features: tuple[int, int, int]) -> np.ndarray:
  """A dense kernel [w * h * c, units] for features flattened as [h, w, c]."""
  height, width, channels = features
  by_column = kernel.reshape(width, height, channels, -1)
  return by_column.transpose(1, 0, 2, 3).reshape(kernel.shape)


def released_arrays(
  name: str, *, peer: str = "mtcnn", package: str | pathlib.Path | None = None
) -> list[np.ndarray]:
  """The release's arrays of one net, float32, in its order; raises as `import_weights`."""
  if peer not in PEERS:
    raise ValueError(f"no released weights of {peer!r}; there are those of {', '.join(PEERS)}")
  file = _package_folder(package) / "assets" / "weights" / f"{name}.lz4"
  if not file.is_file():
    raise ValueError(f"{file} is missing: this is not mtcnn 1.0.0; install mtcnn==1.0.0")
  digest = hashlib.sha256(file.read_bytes()).hexdigest()
  if digest != SHA256[name]:
    raise ValueError(f"{file}: SHA-256 {digest} is not the release's {SHA256[name]}; install mtcnn==1.0.0")
  with _importable(package):
    try:
      import joblib
      import lz4.frame  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
      raise ModuleNotFoundError(f"{error.name} reads the release's files: {_REMEDY}") from error
    # Decompressed here: a joblib that was imported before lz4 could be found never finds it.
    content = io.BytesIO(lz4.frame.decompress(file.read_bytes()))
    return [np.asarray(array, np.float32) for array in joblib.load(content)]


_REMEDY = "pip install mtcnn==1.0.0, or pip install --target FOLDER mtcnn==1.0.0 and give that folder"


def _package_folder(package: str | pathlib.Path | None) -> pathlib.Path:
  if package is not None:
    return pathlib.Path(package) / "mtcnn"
  # find_spec does not import: the package would load all of TensorFlow.
  found = importlib.util.find_spec("mtcnn")
  if found is None or found.origin is None:
    raise ModuleNotFoundError(f"the package mtcnn holds the released weights: {_REMEDY}")
  return pathlib.Path(found.origin).parent


@contextlib.contextmanager
def _importable(package: str | pathlib.Path | None) -> Iterator[None]:
  """Lets modules be imported from `package` too, after those installed here."""
  if package is None:
    yield
    return
  sys.path.append(str(package))
  try:
    yield
  finally:
    sys.path.remove(str(package))
