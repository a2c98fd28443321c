"""The DAG as inline SVG: a lane a net, and one for what is made of all.

    pnet   [CropExampleGen] ─ [StatisticsGen] ─ [ExampleValidator] ─ ...
    rnet   [HardExampleGen] ─ ...
    all    [CascadeAssembler] ─ [DetectionEvaluator] ─ [ModelPusher]

Lying for wide screens, standing for phones. Edges that follow from others are
left out: everything waits for the examples, and nobody wants to see that.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from taskmix.report import facts

_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y, _LANE = 128, 42, 20, 10, 30

_GLYPHS = {"done": "✓", "cached": "↺", "failed": "✕", "waiting": "\N{EN DASH}", "unknown": ""}
STATES = {
  "done": "done",
  "cached": "from cache",
  "failed": "stopped here",
  "waiting": "not reached",
  "unknown": "",
}

# Components that more than one net needs stand in the last lane.
SHARED = "all"


@dataclasses.dataclass(frozen=True)
class _Place:
  """Where a component stands: lane, level along it, row across it."""

  lane: int
  level: int
  row: int


def lane_of(step: str, nets: Sequence[str]) -> str:
  """The net that a component's id ends with; SHARED for none."""
  return next((net for net in nets if step.endswith(f"-{net}")), SHARED)


def draw(steps: Sequence[facts.Step], nets: Sequence[str], *, standing: bool) -> Markup:
  """The components, their states and times, and who waits for whom.

  Args:
    steps: in the order of the run.
    nets: names of the nets, a lane each.
    standing: from top to bottom instead of from left to right.
  """
  edges = reduced({step.name: set(step.upstream) for step in steps})
  lanes = [lane for lane in (*nets, SHARED) if any(lane_of(step.name, nets) == lane for step in steps)]
  places = _places(steps, edges, lanes, nets)
  corners, size, titles = _corners(places, lanes, standing)
  parts = [f'<text class="lane" x="{x:.1f}" y="{y:.1f}">{escape(name)}</text>' for name, x, y in titles]
  for step in steps:
    for before in sorted(edges[step.name]):
      if before in corners:
        parts.append(_edge(corners[before], corners[step.name], standing))
  parts += [_box(step, corners[step.name], nets) for step in steps]
  width, height = size
  kind = "dag standing" if standing else "dag lying"
  told = f"The pipeline: {len(steps)} components in {len(lanes)} lanes. The table below tells the same."
  return Markup(
    f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(told)}" '
    f'style="--width:{width:.0f}px">{"".join(parts)}</svg>'
  )


def reduced(upstream: Mapping[str, set[str]]) -> dict[str, set[str]]:
  """Without the edges that others imply, and those to components that are not there."""
  known = {name: {each for each in before if each in upstream} for name, before in upstream.items()}
  behind: dict[str, set[str]] = {}

  def ancestors(name: str) -> set[str]:
    if name not in behind:
      behind[name] = set()
      for before in known[name]:
        behind[name] |= {before} | ancestors(before)
    return behind[name]

  return {
    name: {each for each in before if not any(each in ancestors(other) for other in before - {each})}
    for name, before in known.items()
  }


def _places(
  steps: Sequence[facts.Step], edges: Mapping[str, set[str]], lanes: Sequence[str], nets: Sequence[str]
) -> dict[str, _Place]:
  lane = {step.name: lanes.index(lane_of(step.name, nets)) for step in steps}
  level: dict[str, int] = {}

  def depth(name: str) -> int:
    if name not in level:
      inside = [before for before in edges[name] if lane[before] == lane[name]]
      level[name] = max((depth(before) + 1 for before in inside), default=0)
    return level[name]

  for step in steps:
    depth(step.name)
  # What waits for nothing stands right before what first needs it.
  for step in steps:
    if not edges[step.name]:
      users = [
        level[other] for other in edges if step.name in edges[other] and lane[other] == lane[step.name]
      ]
      level[step.name] = max(min(users, default=1) - 1, 0)
  rows: dict[tuple[int, int], int] = {}
  places = {}
  for step in steps:
    spot = lane[step.name], level[step.name]
    places[step.name] = _Place(*spot, rows.get(spot, 0))
    rows[spot] = rows.get(spot, 0) + 1
  return places


def _corners(
  places: Mapping[str, _Place], lanes: Sequence[str], standing: bool
) -> tuple[dict[str, tuple[float, float]], tuple[float, float], list[tuple[str, float, float]]]:
  """Top-left corners of the boxes, the size of the drawing, and the lanes' names with their places."""
  corners, titles, offset, most = {}, [], 0.0, 0.0
  along, across = (
    (_BOX_HEIGHT + 16, _BOX_WIDTH + _GAP_X) if standing else (_BOX_WIDTH + _GAP_X, _BOX_HEIGHT + _GAP_Y)
  )
  for number, name in enumerate(lanes):
    mine = {step: place for step, place in places.items() if place.lane == number}
    levels = max(place.level for place in mine.values()) + 1
    rows = max(place.row for place in mine.values()) + 1
    titles.append((name, 0.0, offset + 14))
    offset += _LANE - 6
    for step, place in mine.items():
      first, second = place.level * along, place.row * across
      corners[step] = (second, offset + first) if standing else (first, offset + second)
    thick, long = (levels * along, rows * across) if standing else (rows * across, levels * along)
    offset, most = offset + thick + 8, max(most, long)
  gap = _GAP_X
  return corners, (most - gap + 2, offset), titles


def _edge(start: tuple[float, float], end: tuple[float, float], standing: bool) -> str:
  if standing:
    x1, y1, x2, y2 = start[0] + _BOX_WIDTH / 2, start[1] + _BOX_HEIGHT, end[0] + _BOX_WIDTH / 2, end[1]
    half = (y2 - y1) / 2
    path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + half:.1f} {x2:.1f} {y2 - half:.1f} {x2:.1f} {y2:.1f}"
  else:
    x1, y1, x2, y2 = start[0] + _BOX_WIDTH, start[1] + _BOX_HEIGHT / 2, end[0], end[1] + _BOX_HEIGHT / 2
    if x2 <= x1:
      # To another lane, further down on the left: out below, in above.
      x1, y1, x2, y2 = start[0] + _BOX_WIDTH / 2, start[1] + _BOX_HEIGHT, end[0] + _BOX_WIDTH / 2, end[1]
      path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + 30:.1f} {x2:.1f} {y2 - 30:.1f} {x2:.1f} {y2:.1f}"
    else:
      half = (x2 - x1) / 2
      path = f"M{x1:.1f} {y1:.1f}C{x1 + half:.1f} {y1:.1f} {x2 - half:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
  return f'<path class="edge" d="{path}"/>'


def _box(step: facts.Step, corner: tuple[float, float], nets: Sequence[str]) -> str:
  x, y = corner
  lane = lane_of(step.name, nets)
  name = step.name.removesuffix(f"-{lane}")
  time = "" if step.seconds is None or step.state == "cached" else f"{step.seconds:.1f} s"
  state = STATES[step.state] if step.state != "done" else ""
  told = " · ".join(filter(None, (state, time)))
  # Long names are squeezed: cut off, two of them would look alike.
  squeeze = f' textLength="{_BOX_WIDTH - 20}" lengthAdjust="spacingAndGlyphs"' if len(name) > 13 else ""
  return (
    f'<g class="step {step.state}"><title>{escape(step.name)}: {escape(told or step.state)}</title>'
    f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{_BOX_WIDTH - 2}" height="{_BOX_HEIGHT}" rx="7"/>'
    f'<text class="name" x="{x + 10:.1f}" y="{y + 18:.1f}"{squeeze}>{escape(name)}</text>'
    f'<text class="told" x="{x + 10:.1f}" y="{y + 33:.1f}">'
    f'<tspan class="glyph">{_GLYPHS[step.state]}</tspan> {escape(told)}</text></g>'
  )
