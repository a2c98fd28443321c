"""`taskmix detect`: the faces of photos as JSON lines, and the photos with them drawn."""

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


class SavedDetector:
  """A detector's SavedModel, called as `taskmix.faces.cascade.Detector` is.

  Attributes:
    folder: of the SavedModel.
    options: the defaults stored in it.
  """

  def __init__(self, model: str | pathlib.Path):
    """Loads it.

    Args:
      model: its folder, or one with versions in it, of which the latest is taken.

    Raises:
      ValueError: if there is none, it is no detector, or its graph would do more
        than compute.
    """
    import tensorflow as tf

    from taskmix.faces import cascade
    from taskmix.serving.operations import require_pure

    self.folder = latest_version(model)
    require_pure(self.folder)
    self.options = cascade.read_options(self.folder)
    # Signatures do not keep what they were loaded with alive.
    self._loaded = tf.saved_model.load(str(self.folder))
    self._detect = self._loaded.signatures["detect_image_with_options"]

  def __call__(self, photo: Any, options: Any = None) -> dict[str, np.ndarray]:
    """Boxes, scores and landmarks of a uint8 [h, w, 3] RGB photo, best first.

    Args:
      photo: an array or tensor.
      options: `taskmix.faces.cascade.Options`; None takes those stored.
    """
    import tensorflow as tf

    options = options or self.options
    found = self._detect(
      image=tf.convert_to_tensor(photo),
      thresholds=tf.constant(options.thresholds, tf.float32),
      min_face=tf.constant(options.min_face, tf.float32),
      factor=tf.constant(options.factor, tf.float32),
    )
    return {name: value.numpy() for name, value in found.items()}


def detect_photos(
  model: str | pathlib.Path,
  photos: Sequence[str | pathlib.Path],
  *,
  out: str | pathlib.Path | None = None,
  thresholds: Sequence[float] | None = None,
  min_face: float | None = None,
  factor: float | None = None,
) -> Iterator[dict[str, Any]]:
  """What a saved detector finds, photo by photo.

  Args:
    model: folder of a SavedModel that `Detector.save` wrote, or one with
      versions in it, of which the latest is taken.
    photos: files, and folders whose photos are taken by name.
    out: folder for the photos with boxes and points drawn, as `<name>.jpg`; made
      if need be. None draws none.
    thresholds, min_face, factor: of `taskmix.faces.cascade.Options`; None takes
      what is stored in the model.

  Yields:
    A photo each, ready for JSON: `photo` (as given), `width`, `height`, and
    `faces`, best first, each with `box` [x1, y1, x2, y2], `score` and
    `landmarks` [[x, y], ...], in pixels of the upright photo. Or `photo` and
    `error`, for a file that is no photo.

  Raises:
    ValueError: if `model` is no detector, a photo is not there, options make no
      sense, or two photos would be drawn into one file.
  """
  from taskmix.faces import cascade

  folder = latest_version(model)
  stored = cascade.read_options(folder)
  options = cascade.Options(
    _three(thresholds) if thresholds is not None else stored.thresholds,
    stored.min_face if min_face is None else min_face,
    stored.factor if factor is None else factor,
  )
  files = list(find_photos(photos))
  drawn = _drawn_files(files, pathlib.Path(out)) if out is not None else {}
  return _answers(folder, files, options, drawn)


def write_lines(answers: Iterator[dict[str, Any]], file: Any) -> int:
  """Writes each answer as a line of JSON as it comes; how many photos were errors."""
  errors = 0
  for answer in answers:
    errors += "error" in answer
    file.write(json.dumps(answer) + "\n")
    file.flush()
  return errors


def write_text(answers: Iterator[dict[str, Any]], file: Any) -> int:
  """Writes each answer as a line to read as it comes; how many photos were errors.

  photo.jpg: 2 faces, at 10,12 80x81 (0.998), 200,40 31x30 (0.871)
  """
  errors = 0
  for answer in answers:
    errors += "error" in answer
    file.write(f"{answer['photo']}: {_told(answer)}\n")
    file.flush()
  return errors


def _told(answer: dict[str, Any]) -> str:
  if "error" in answer:
    return f"error: {answer['error']}"
  boxes = [(*face["box"], face["score"]) for face in answer["faces"]]
  places = [f"{x1:.0f},{y1:.0f} {x2 - x1:.0f}x{y2 - y1:.0f} ({score:.3f})" for x1, y1, x2, y2, score in boxes]
  count = f"{len(boxes)} face{'s' * (len(boxes) != 1)}"
  return f"{count}, at {', '.join(places)}" if places else count


def find_photos(paths: Sequence[str | pathlib.Path]) -> Iterator[pathlib.Path]:
  """The files themselves, and the photos anywhere below the folders, by name.

  Raises:
    ValueError: if a path does not exist, or a folder holds no photo.
  """
  for path in map(pathlib.Path, paths):
    if path.is_dir():
      found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
      if not found:
        raise ValueError(f"{path}: no photo in this folder ({', '.join(SUFFIXES)})")
      yield from found
    elif path.is_file():
      yield path
    else:
      raise ValueError(f"{path}: no such photo or folder")


def latest_version(model: str | pathlib.Path) -> pathlib.Path:
  """The SavedModel itself: `model`, or the highest-numbered folder in it.

  Raises:
    ValueError: if there is no SavedModel.
  """
  model = pathlib.Path(model)
  if (model / "saved_model.pb").is_file():
    return model
  versions = [folder for folder in model.glob("*/") if folder.name.isdigit()] if model.is_dir() else []
  versions = [folder for folder in versions if (folder / "saved_model.pb").is_file()]
  if not versions:
    raise ValueError(f"{model}: no SavedModel here; give the folder that holds saved_model.pb")
  return max(versions, key=lambda folder: int(folder.name))


def _answers(
  folder: pathlib.Path, files: list[pathlib.Path], options: Any, drawn: dict[pathlib.Path, pathlib.Path]
) -> Iterator[dict[str, Any]]:
  detector = SavedDetector(folder)
  for file in files:
    photo = _decoded(file)
    if isinstance(photo, str):
      yield {"photo": str(file), "error": photo}
      continue
    found = detector(photo, options)
    if file in drawn:
      _draw(photo.numpy(), found, drawn[file])
    yield _answer(file, photo.shape, found)


def _decoded(file: pathlib.Path) -> Any:
  """The upright photo as a uint8 tensor, or why there is none."""
  import tensorflow as tf

  from taskmix.faces import photos

  try:
    return photos.decode(tf.constant(file.read_bytes()))
  except (tf.errors.InvalidArgumentError, OSError) as error:
    message = error.message if isinstance(error, tf.errors.OpError) else str(error)
    return message.splitlines()[0][:200]


def _answer(file: pathlib.Path, shape: Any, found: dict[str, np.ndarray]) -> dict[str, Any]:
  faces = [
    {
      "box": [round(float(value), 2) for value in box],
      "score": round(float(score), 4),
      "landmarks": [[round(float(x), 2), round(float(y), 2)] for x, y in points],
    }
    for box, score, points in zip(found["boxes"], found["scores"], found["landmarks"], strict=True)
  ]
  return {"photo": str(file), "width": int(shape[1]), "height": int(shape[0]), "faces": faces}


def _draw(photo: np.ndarray, found: dict[str, np.ndarray], file: pathlib.Path) -> None:
  import cv2

  from taskmix.faces.drawing import draw_faces

  picture = draw_faces(photo, found["boxes"], scores=found["scores"], landmarks=found["landmarks"])
  file.parent.mkdir(parents=True, exist_ok=True)
  # Full colour resolution: lines of one pixel would lose theirs.
  quality = [cv2.IMWRITE_JPEG_QUALITY, 92]
  sampling = [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
  cv2.imwrite(str(file), picture[:, :, ::-1], quality + sampling)


def _drawn_files(files: list[pathlib.Path], out: pathlib.Path) -> dict[pathlib.Path, pathlib.Path]:
  """Where each photo is drawn; refuses what would overwrite a drawing or a photo."""
  drawn: dict[pathlib.Path, pathlib.Path] = {}
  taken: dict[pathlib.Path, pathlib.Path] = {file.resolve(): file for file in files}
  for file in files:
    target = out / f"{file.stem}.jpg"
    rival = taken.setdefault(target.resolve(), file)
    if rival is not file or target.resolve() == file.resolve():
      raise ValueError(
        f"{target} would be written over, by {file} and {rival}; give another folder, or fewer photos"
      )
    drawn[file] = target
  return drawn


def _three(thresholds: Sequence[float]) -> tuple[float, float, float]:
  if len(thresholds) != 3:
    raise ValueError(f"thresholds are three numbers, not {len(thresholds)}")
  first, second, third = thresholds
  return first, second, third
