"""Curves of one or several detectors as PNG, and the photos on which the first does worst."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from taskmix.faces.detection_evaluation.held_out import HeldOut
from taskmix.faces.detection_evaluation.matching import FALSE, HIT, Found, match

Figures = Mapping[str, Mapping[str, Any]]

# Inches and dots an inch: 900 x 600 pixels.
_SIZE, _DPI = (7.5, 5.0), 120

# RGB on the worst photos.
FOUND, FALSE_ALARM, MISSED = (40, 220, 60), (255, 60, 40), (255, 200, 0)


def draw_curves(figures: Figures) -> dict[str, bytes]:
  """File name -> PNG, each with a line a detector; those of no landmarks lack their plot.

  Args:
    figures: detector -> what `judgement.measure` gives.
  """
  drawn = {
    "precision_recall.png": _plot(_precision_recall, figures, "recall", "precision"),
    "recall_by_size.png": _plot(_recall_by_size, figures, "shorter side of the face, pixels", "recall"),
    "roc.png": _plot(_roc, figures, "false positives", "true positive rate"),
  }
  if any(each["landmarks"]["faces"] for each in figures.values()):
    labels = ("landmark error / distance between the eyes", "share of faces")
    drawn["landmark_error.png"] = _plot(_landmark_error, figures, *labels)
  return drawn


def _plot(draw: Callable[[Any, Figures], None], figures: Figures, x: str, y: str) -> bytes:
  # Not pyplot: it keeps every figure, and asks for a display.
  from matplotlib.backends.backend_agg import FigureCanvasAgg
  from matplotlib.figure import Figure

  figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
  canvas = FigureCanvasAgg(figure)
  axes = figure.add_subplot()
  draw(axes, figures)
  axes.set_xlabel(x)
  axes.set_ylabel(y)
  axes.set_ylim(0, 1.02)
  axes.grid(alpha=0.3)
  axes.legend()
  file = io.BytesIO()
  # Without a date, so that equal figures give equal bytes.
  canvas.print_png(file, metadata={"Software": None})
  return file.getvalue()


def _precision_recall(axes: Any, figures: Figures) -> None:
  for name, each in figures.items():
    curve, ap = each["precision_recall"], each["average_precision"]
    axes.plot(curve["recall"], curve["precision"], label=f"{name}: AP {_number(ap)}")
  axes.set_xlim(0, 1)


def _recall_by_size(axes: Any, figures: Figures) -> None:
  for place, (name, each) in enumerate(figures.items()):
    sizes = each["operating_point"]["recall_by_size"]
    at = np.arange(len(sizes)) + (place - (len(figures) - 1) / 2) * 0.8 / len(figures)
    axes.bar(at, [size["recall"] or 0.0 for size in sizes], 0.8 / len(figures), label=name)
  labels = [
    f"{size['low']:.0f}-{'' if size['high'] is None else format(size['high'], '.0f')}\n{size['faces']} faces"
    for size in sizes
  ]
  axes.set_xticks(np.arange(len(labels)), labels)


def _roc(axes: Any, figures: Figures) -> None:
  for name, each in figures.items():
    line = axes.plot(each["roc"]["false_positives"], each["roc"]["discrete"], label=f"{name}, discrete")
    color = line[0].get_color()
    axes.plot(each["roc"]["false_positives"], each["roc"]["continuous"], "--", color=color)
  axes.plot([], [], "--", color="grey", label="continuous")


def _landmark_error(axes: Any, figures: Figures) -> None:
  for name, each in figures.items():
    landmarks = each["landmarks"]
    curve = landmarks["cumulative"]
    label = f"{name}: mean {_number(landmarks['mean_error'])} of {landmarks['faces']} faces"
    axes.plot(curve["error"], curve["share"], label=label)


def _number(value: float | None) -> str:
  return "none" if value is None else f"{value:.3f}"


def draw_worst(
  held: HeldOut, found: Mapping[str, Found], *, min_face: float = 20.0, most: int = 12, side: int = 480
) -> bytes:
  """JPEG of the photos with most misses and false alarms, worst first.

  Args:
    held: the photos.
    found: detections by photo.
    min_face: smaller faces are not drawn, nor missed.
    most: photos on it.
    side: of a photo on it, in pixels.

  Returns:
    Green: found. Red: false alarm. Yellow: missed.
  """
  from PIL import Image

  judged = [(each, *_outcome(held, found, each, min_face)) for each in held.faces]
  judged.sort(key=lambda each: (-len(each[2]) - len(each[3]), each[0]))
  tiles = [_tile(held.pixels(image_id), boxes, side) for image_id, *boxes in judged[:most]]
  columns = min(4, len(tiles))
  rows = -(-len(tiles) // columns)
  sheet = np.full((rows * side, columns * side, 3), 32, np.uint8)
  for place, tile in enumerate(tiles):
    y, x = place // columns * side, place % columns * side
    sheet[y : y + tile.shape[0], x : x + tile.shape[1]] = tile
  file = io.BytesIO()
  # Full colour resolution: lines of one pixel would lose theirs.
  Image.fromarray(sheet).save(file, "JPEG", quality=88, subsampling=0)
  return file.getvalue()


def _outcome(held: HeldOut, found: Mapping[str, Found], image_id: str, min_face: float):
  """Boxes hit, false and missed."""
  faces, detections = held.faces[image_id].at_least(min_face), found[image_id]
  matched = match(faces, detections)
  missed = faces.counted.copy()
  missed[matched.face[matched.outcome == HIT]] = False
  return (
    detections.boxes[matched.outcome == HIT],
    detections.boxes[matched.outcome == FALSE],
    faces.boxes[missed],
  )


def _tile(photo: np.ndarray, boxes: Sequence[np.ndarray], side: int) -> np.ndarray:
  import cv2

  from taskmix.faces.drawing import draw_faces

  scale = side / max(photo.shape[:2])
  # Never below one pixel, for a photo that is a line.
  size = tuple(max(1, round(length * scale)) for length in photo.shape[1::-1])
  drawn = cv2.resize(photo, size, interpolation=cv2.INTER_AREA)
  for group, color in zip(boxes, (FOUND, FALSE_ALARM, MISSED), strict=True):
    drawn = draw_faces(drawn, group * scale, color=color)
  return drawn
