"""Contact sheets: a picture a kind on which a person sees whether labels fit.

Each tile is one sample, enlarged, on a margin that shows where a box or a point
lies outside the crop:

    ┌─────────────────┐
    │    ╔═══════╗    │   green    the face's box, from `box_offsets`
    │  ┌─╫───────╫─┐  │   dots     the points, from `landmarks`, in the colours
    │  │ ║ ●   ● ║ │  │            of the legend: a left-right swap is seen
    │  │ ║   ●   ║ │  │   grey     the crop's edge
    │  └─╫───────╫─┘  │
    │    ╚═══════╝    │
    └ face · IoU 0.71 ┘   every scalar target and context column

Samples without box and points fill their tile.

Only the targets that the kind's samples label are drawn, so that a mistake in
`Task.kinds` is seen too. Pure Pillow and NumPy; equal samples give equal bytes
with equal versions of Pillow.
"""

import collections
import functools
import io
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from taskmix.examples import storage
from taskmix.examples.codec import Sample
from taskmix.sources.files import join
from taskmix.spec import Column, Net

BOX, POINTS = "box_offsets", "landmarks"

# Pixels. The crop fills CROP, so that boxes and points up to MARGIN / CROP = a
# quarter of its side outside still show.
CROP, MARGIN = 128, 32
TILE = CROP + 2 * MARGIN
_CAPTION, _HEADER, _GAP = 22, 66, 6
_COLUMNS = 8

_PAPER, _GROUND, _EDGE = (250, 250, 250), (42, 44, 48), (150, 154, 160)
_INK, _FAINT, _BOX_COLOUR = (25, 27, 31), (110, 114, 120), (60, 230, 90)
# Left and right differ in warmth; the last is for a sixth point and later ones.
_POINT_COLOURS = (
  (255, 64, 64),
  (64, 148, 255),
  (255, 214, 0),
  (255, 130, 200),
  (60, 232, 232),
  (255, 255, 255),
)
_MEANINGS = {"iou": "IoU with the nearest face", "face_size": "that face's shorter side"}
_POINT_NAMES = ("left eye", "right eye", "nose", "left mouth", "right mouth")


def write_contact_sheets(
  samples: Iterable[Sample],
  folder: str,
  *,
  net: Net,
  totals: Mapping[str, int] | None = None,
  per_kind: int = 24,
) -> list[str]:
  """Writes `<kind>.png` a kind into the folder, which is made; returns their paths.

  Args: as `contact_sheets`; `folder` is local, gs://, s3://...
  """
  storage.make_folder(folder)
  paths = []
  for kind, picture in contact_sheets(samples, net=net, totals=totals, per_kind=per_kind).items():
    paths.append(join(folder, f"{kind}.png"))
    storage.write_bytes(paths[-1], picture)
  return paths


def contact_sheets(
  samples: Iterable[Sample], *, net: Net, totals: Mapping[str, int] | None = None, per_kind: int = 24
) -> dict[str, bytes]:
  """kind -> PNG of its first `per_kind` samples; in the order of the net's mixture.

  Args:
    samples: of any kinds; kinds without one get no sheet.
    net: says what each kind's samples label.
    totals: kind -> how many samples there are in all, for the headline.
    per_kind: tiles a sheet.
  """
  chosen: dict[str, list[Sample]] = collections.defaultdict(list)
  for sample in samples:
    if len(chosen[sample.kind]) < per_kind:
      chosen[sample.kind].append(sample)
  return {
    kind: _png(draw_sheet(chosen[kind], net=net, kind=kind, total=(totals or {}).get(kind)))
    for kind in net.mixture.names
    if chosen.get(kind)
  }


def draw_sheet(samples: Sequence[Sample], *, net: Net, kind: str, total: int | None = None) -> np.ndarray:
  """One kind's samples as a grid under a headline: uint8 [h, w, 3] RGB.

  Args:
    samples: at least one, all of `kind`.
    net: says which columns the kind labels.
    kind: for the headline.
    total: how many samples of the kind there are in all; None does not say.
  """
  labelled = [task.target for task in net.tasks if kind in task.kinds]
  columns = min(_COLUMNS, max(len(samples), 4))
  rows = -(-len(samples) // columns)
  cell = (TILE + _GAP, TILE + _CAPTION + _GAP)
  sheet = Image.new("RGB", (columns * cell[0] + _GAP, _HEADER + rows * cell[1]), _PAPER)
  _draw_header(ImageDraw.Draw(sheet), net, kind, labelled, (len(samples), total))
  for index, sample in enumerate(samples):
    row, column = divmod(index, columns)
    corner = (_GAP + column * cell[0], _HEADER + row * cell[1])
    sheet.paste(draw_tile(sample, labelled), corner)
    _draw_caption(ImageDraw.Draw(sheet), sample, net, labelled, (corner[0], corner[1] + TILE))
  return np.asarray(sheet)


def box_in_crop(offsets: np.ndarray) -> np.ndarray:
  """The face's corners in units of the crop's side, 0..1 inside: [4] to [4]."""
  return np.asarray(offsets, np.float64) + np.array([0, 0, 1, 1])


def draw_tile(sample: Sample, labelled: Sequence[Column]) -> Image.Image:
  """One sample, TILE x TILE pixels, with its box and points where `labelled` has them."""
  if not any(column.name in (BOX, POINTS) for column in labelled):
    return _enlarged(sample.image, TILE)
  tile = Image.new("RGB", (TILE, TILE), _GROUND)
  tile.paste(_enlarged(sample.image, CROP), (MARGIN, MARGIN))
  draw = ImageDraw.Draw(tile)
  draw.rectangle((MARGIN - 1, MARGIN - 1, MARGIN + CROP, MARGIN + CROP), outline=_EDGE)
  for column in labelled:
    if column.name == BOX:
      corners = _on_tile(box_in_crop(sample.targets[BOX]).reshape(2, 2))
      draw.rectangle([tuple(corner) for corner in np.sort(corners, axis=0)], outline=_BOX_COLOUR, width=2)
    elif column.name == POINTS:
      _draw_points(draw, np.asarray(sample.targets[POINTS], np.float64).reshape(-1, 2))
  return tile


def _enlarged(image: np.ndarray, side: int) -> Image.Image:
  # Beyond red, green and blue there is nothing that a screen shows.
  picture = Image.fromarray(image[..., :3] if image.shape[2] >= 3 else image[..., 0]).convert("RGB")
  # Cubic, as viewers enlarge: blocks of a 12-pixel crop hide the face in it.
  return picture.resize((side, side), Image.Resampling.BICUBIC)


def _draw_points(draw: ImageDraw.ImageDraw, points: np.ndarray) -> None:
  for index, (x, y) in enumerate(_on_tile(points)):
    colour = _POINT_COLOURS[min(index, len(_POINT_COLOURS) - 1)]
    draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=colour, outline=_INK)


def _on_tile(points: np.ndarray) -> np.ndarray:
  """Pixels of the tile, held inside it, of points in units of the crop's side."""
  pixels = MARGIN + np.nan_to_num(points, nan=0.0, posinf=9.0, neginf=-9.0) * CROP
  return np.clip(pixels, 2, TILE - 3)


def _draw_header(
  draw: ImageDraw.ImageDraw, net: Net, kind: str, labelled: Sequence[Column], counts: tuple[int, int | None]
) -> None:
  shown, total = counts
  amount = f"{shown:,}" if total is None else f"{shown:,} of {total:,}"
  height, width, _ = net.input_size
  draw.text((_GAP, 6), kind, fill=_INK, font=_font(24))
  start = _GAP + draw.textlength(kind, font=_font(24)) + 14
  draw.text(
    (start, 13), f"{amount} samples, {width} x {height} px, net {net.name}", fill=_FAINT, font=_font(16)
  )
  scalars = [column.name for column in (*labelled, *net.context) if not column.shape]
  draw_legend(draw, [column.name for column in labelled], scalars, y=40)


def draw_legend(draw: ImageDraw.ImageDraw, names: Sequence[str], scalars: Sequence[str], *, y: int) -> None:
  """What the colours of the tiles and the words below them mean, in a line at `y`."""
  x, font = _GAP, _font(14)
  entries = [(_BOX_COLOUR, "face box")] if BOX in names else []
  if POINTS in names:
    entries += list(zip(_POINT_COLOURS, _POINT_NAMES, strict=False))
  for colour, name in entries:
    draw.rectangle((x, y + 3, x + 11, y + 14), fill=colour, outline=_INK)
    draw.text((x + 17, y), name, fill=_INK, font=font)
    x += 17 + int(draw.textlength(name, font=font)) + 16
  if scalars:
    draw.text(
      (x, y), f"below each: {', '.join(_MEANINGS.get(name, name) for name in scalars)}", fill=_INK, font=font
    )


def _draw_caption(
  draw: ImageDraw.ImageDraw, sample: Sample, net: Net, labelled: Sequence[Column], corner: tuple[int, int]
) -> None:
  text, font = caption(sample, net, labelled), _font(13)
  while draw.textlength(text, font=font) > TILE - 4:
    text = text[:-2].rstrip(" ·…") + "…"
  draw.text((corner[0] + 2, corner[1] + 3), text, fill=_INK, font=font)


def caption(sample: Sample, net: Net, labelled: Sequence[Column]) -> str:
  """The sample's scalar targets and context columns in a line."""
  columns = [
    column for column in (*labelled, *net.context) if not column.shape and column.name in sample.targets
  ]
  return " · ".join(filter(None, (_text(column, sample.targets[column.name]) for column in columns)))


def _text(column: Column, value: object) -> str:
  """A scalar target or context column in a few letters."""
  number = np.asarray(value).item()
  if column.classes:
    # A label out of range is among what a gate draws.
    return column.classes[number] if 0 <= number < len(column.classes) else f"{column.name} {number}"
  if column.name == "iou":
    return f"IoU {number:.2f}"
  if column.name == "face_size":
    return f"{number:.0f} px" if number else ""
  return f"{column.name} {number:.2f}" if column.dtype == "float32" else f"{column.name} {number}"


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
  return ImageFont.load_default(size)


def _png(sheet: np.ndarray) -> bytes:
  file = io.BytesIO()
  Image.fromarray(sheet).save(file, "PNG", compress_level=1)  # a third of the time for a fifth more bytes
  return file.getvalue()
