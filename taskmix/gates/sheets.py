"""Pictures of what a gate found, so that a person sees what is wrong with it.

A sheet a finding: the examples as the conversion's contact sheets show them,
box and points drawn, each under its split, record and photo.
"""

import io

from PIL import Image, ImageDraw, ImageFont

from taskmix.examples import storage
from taskmix.faces.contact_sheet import TILE, caption, draw_legend, draw_tile
from taskmix.gates.findings import Evidence, Example
from taskmix.sources.files import join
from taskmix.spec import Net

_COLUMNS, _GAP, _CAPTION, _HEADER = 6, 8, 54, 84
_PAPER, _INK, _FAINT, _ALARM = (250, 250, 250), (25, 27, 31), (110, 114, 120), (176, 28, 28)
_ELLIPSIS = "…"


def write_sheet(evidence: Evidence, folder: str, *, net: Net) -> str:
  """Writes the finding's picture into the folder; returns its path, "" if there is nothing to show."""
  if not evidence.samples:
    return ""
  storage.make_folder(folder)
  finding = evidence.finding
  name = "-".join(filter(None, (finding.type.lower(), finding.split, finding.feature)))
  path = join(folder, f"{name}.png")
  file = io.BytesIO()
  draw_sheet(evidence, net=net).save(file, "PNG", compress_level=1)
  storage.write_bytes(path, file.getvalue())
  return path


def draw_sheet(evidence: Evidence, *, net: Net) -> Image.Image:
  """The finding's samples, at least one, as a grid under what is wrong with them."""
  samples = evidence.samples
  columns = min(_COLUMNS, max(len(samples), 4))
  width, height = TILE + _GAP, TILE + _CAPTION + _GAP
  sheet = Image.new("RGB", (columns * width + _GAP, _HEADER + -(-len(samples) // columns) * height), _PAPER)
  draw = ImageDraw.Draw(sheet)
  _draw_header(draw, evidence, sheet.width)
  kinds = {sample.kind for _, sample in samples}
  draw_legend(draw, [task.target.name for task in net.tasks if kinds & {*task.kinds}], (), y=58)
  for number, (example, sample) in enumerate(samples):
    row, column = divmod(number, columns)
    x, y = _GAP + column * width, _HEADER + row * height
    labelled = [task.target for task in net.tasks if sample.kind in task.kinds]
    sheet.paste(draw_tile(sample, labelled), (x, y))
    lines = _caption(example), caption(sample, net, labelled), example.image_id
    _draw_lines(draw, lines, (x, y + TILE + 2))
  return sheet


def _draw_header(draw: ImageDraw.ImageDraw, evidence: Evidence, width: int) -> None:
  finding, room = evidence.finding, width - 2 * _GAP
  place = " · ".join(filter(None, (finding.split, finding.feature)))
  draw.text((_GAP, 6), finding.type, fill=_ALARM, font=_font(22))
  start = _GAP + draw.textlength(finding.type, font=_font(22)) + 12
  draw.text((start, 12), _shortened(draw, place, int(room - start), 15), fill=_FAINT, font=_font(15))
  draw.text((_GAP, 36), _shortened(draw, finding.description, room, 15), fill=_INK, font=_font(15))


def _caption(example: Example) -> str:
  shard = example.shard.removeprefix("data_tfrecord-").partition("-of-")[0]
  return f"{example.split} {shard} #{example.index}"


def _draw_lines(draw: ImageDraw.ImageDraw, lines: tuple[str, str, str], corner: tuple[int, int]) -> None:
  """Place, values and photo of an example, below its tile."""
  place, values, photo = lines
  x, y = corner
  draw.text((x, y), _shortened(draw, place, TILE, 13), fill=_INK, font=_font(13))
  draw.text((x, y + 17), _shortened(draw, values, TILE, 13), fill=_INK, font=_font(13))
  # Of a path, the end tells photos apart.
  draw.text((x, y + 34), _shortened(draw, photo[::-1], TILE, 13)[::-1], fill=_FAINT, font=_font(13))


def _shortened(draw: ImageDraw.ImageDraw, text: str, room: int, size: int) -> str:
  if draw.textlength(text, font=_font(size)) <= room:
    return text
  while text and draw.textlength(text + _ELLIPSIS, font=_font(size)) > room:
    text = text[:-1]
  return text + _ELLIPSIS


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
  return ImageFont.load_default(size)
