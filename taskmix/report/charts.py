"""Charts as inline SVG whose colours are the page's, so that they follow light and dark.

Sizes are in units of the viewBox, which the page shows at about a pixel each.
"""

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from taskmix.report import facts

_WIDTH, _HEIGHT = 440, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 12, 40

Range = tuple[float, float]


def line_chart(
  curves: Sequence[facts.Curve],
  *,
  title: str,
  x_label: str,
  y_label: str,
  x_range: Range | None = None,
  y_range: Range | None = None,
  rule: float | None = None,
) -> Markup:
  """Lines over two axes; the page's legend names them.

  Args:
    curves: line n has the class "line n".
    title: what the chart shows, for who cannot see it.
    x_label, y_label: of the axes.
    x_range, y_range: None takes those of the points.
    rule: where a vertical line stands; None for none.
  """
  frame = _Frame(
    x_range or _range([x for curve in curves for x in curve.x]),
    y_range or _range([y for curve in curves for y in curve.y if y is not None], at_zero=True),
  )
  parts = [*frame.axes(x_label, y_label)]
  if rule is not None:
    x = frame.x(rule)
    parts.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
  for place, curve in enumerate(curves):
    parts += [f'<path class="line n{place}" d="{path}"/>' for path in frame.paths(curve)]
    parts += [f'<circle class="dot n{place}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in frame.lone(curve)]
  return _svg(_WIDTH, _HEIGHT, _described(title, curves), parts)


def _described(title: str, curves: Sequence[facts.Curve]) -> str:
  """The title, and where each line ends."""
  ends = [f"{curve.name} ends at {_tick(last)}" for curve in curves if (last := _last(curve)) is not None]
  return f"{title}: {', '.join(ends)}" if ends else title


def _last(curve: facts.Curve) -> float | None:
  return next((y for y in reversed(curve.y) if y is not None), None)


class _Frame:
  """The plane of a chart."""

  def __init__(self, x_range: Range, y_range: Range):
    self.x_range, self.y_range = x_range, y_range

  def x(self, value: float) -> float:
    low, high = self.x_range
    return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

  def y(self, value: float) -> float:
    low, high = self.y_range
    share = (min(max(value, low), high) - low) / (high - low)
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

  def axes(self, x_label: str, y_label: str) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for value in ticks(self.y_range):
      y = self.y(value)
      parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
      parts.append(
        f'<text class="tick" x="{_LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{_tick(value)}</text>'
      )
    for value in ticks(self.x_range):
      x = self.x(value)
      parts.append(
        f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{_tick(value)}</text>'
      )
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
      f'<text class="label" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>'
    )
    centre = (_TOP + bottom) / 2
    parts.append(
      f'<text class="label" x="11" y="{centre}" text-anchor="middle" transform="rotate(-90 11 {centre})">'
      f"{escape(y_label)}</text>"
    )
    return parts

  def paths(self, curve: facts.Curve) -> list[str]:
    """The SVG paths of the curve's unbroken stretches of two points and more."""
    return [
      "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in stretch)
      for stretch in _stretches(curve)
      if len(stretch) > 1
    ]

  def lone(self, curve: facts.Curve) -> list[tuple[float, float]]:
    """Points that have no neighbour to draw a line to."""
    return [(self.x(x), self.y(y)) for stretch in _stretches(curve) if len(stretch) == 1 for x, y in stretch]


def _stretches(curve: facts.Curve) -> list[list[tuple[float, float]]]:
  found: list[list[tuple[float, float]]] = [[]]
  for x, y in zip(curve.x, curve.y, strict=True):
    if y is None:
      found.append([])
    else:
      found[-1].append((x, y))
  return [stretch for stretch in found if stretch]


def bar_chart(
  groups: Sequence[tuple[str, Sequence[float | None]]], *, title: str, names: Sequence[str]
) -> Markup:
  """Lying bars from 0 to 1, a group a label, a bar a name; None is said in words.

  Args:
    groups: (label, value a name).
    title: for who cannot see it.
    names: whose the bars are; bar n has the class "bar n".
  """
  left, bar, gap = 132, 13 if len(names) > 1 else 18, 12
  group = len(names) * (bar + 2) + gap
  height = len(groups) * group + 26
  scale = _WIDTH - left - 52
  parts = []
  for value in (0, 0.25, 0.5, 0.75, 1):
    x = left + value * scale
    parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 22}"/>')
    parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 6}" text-anchor="middle">{value:g}</text>')
  for row, (label, values) in enumerate(groups):
    top = row * group + gap / 2
    middle = top + (group - gap) / 2 + 3
    parts.append(
      f'<text class="label" x="{left - 10}" y="{middle:.1f}" text-anchor="end">{escape(label)}</text>'
    )
    for place, value in enumerate(values):
      y = top + place * (bar + 2)
      width = max(0.0, value or 0.0) * scale
      words = "none" if value is None else f"{value:.2f}"
      parts.append(
        f'<rect class="bar n{place}" x="{left}" y="{y:.1f}" width="{width:.1f}" height="{bar}" rx="2"/>'
      )
      parts.append(f'<text class="tick" x="{left + width + 6:.1f}" y="{y + bar - 3:.1f}">{words}</text>')
  told = "; ".join(
    f"{label}: "
    + ", ".join(
      f"{name} {'none' if value is None else format(value, '.2f')}"
      for name, value in zip(names, values, strict=True)
    )
    for label, values in groups
  )
  return _svg(_WIDTH, height, f"{title}: {told}", parts)


def histogram(buckets: Sequence[tuple[float, float, float]], *, title: str) -> Markup:
  """A small histogram of (low, high, count); nothing for none."""
  if not buckets:
    return Markup("")
  width, height = 96, 26
  top = max(count for _, _, count in buckets) or 1.0
  step = width / len(buckets)
  parts = [
    f'<rect class="bar n0" x="{place * step + 0.5:.1f}" y="{height - max(count / top * height, 1):.1f}" '
    f'width="{max(step - 1, 1):.1f}" height="{max(count / top * height, 1):.1f}"/>'
    for place, (_, _, count) in enumerate(buckets)
    if count
  ]
  told = f"{title}, {_tick(buckets[0][0])} to {_tick(buckets[-1][1])}"
  return _svg(width, height, told, parts, kind="spark")


def _svg(width: float, height: float, title: str, parts: Sequence[str], kind: str = "chart") -> Markup:
  return Markup(
    f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    + "".join(parts)
    + "</svg>"
  )


def _range(values: Sequence[float], *, at_zero: bool = False) -> Range:
  """From the least to the most, with some air above; from 0 where all are positive."""
  if not values:
    return 0.0, 1.0
  low, high = min(values), max(values)
  if at_zero:
    low, high = min(low, 0.0), high + 0.06 * (high - min(low, 0.0))
  return (low, high) if high > low else (low, low + 1.0)


def ticks(limits: Range, wanted: int = 5) -> list[float]:
  """Round numbers in the range: steps of 1, 2, 2.5 or 5 times a power of ten.

  >>> ticks((0, 1500))
  [0.0, 250.0, 500.0, 750.0, 1000.0, 1250.0, 1500.0]
  """
  low, high = limits
  rough = (high - low) / wanted
  power = 10 ** math.floor(math.log10(rough))
  step = min((each * power for each in (1, 2, 2.5, 5, 10)), key=lambda each: abs(each - rough))
  first = math.ceil(low / step - 1e-9)
  last = math.floor(high / step + 1e-9)
  return [round(place * step, 10) for place in range(first, last + 1)]


def _tick(value: float) -> str:
  if abs(value) >= 10_000:
    return f"{value / 1000:,.0f}k"
  return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
