"""The little Markdown that a model card is written in, as HTML: headings, tables, lists, paragraphs."""

import itertools
from collections.abc import Iterator

from markupsafe import Markup, escape


def to_html(text: str, *, top: int = 3) -> Markup:
  """The text's blocks; its heading of level 1 becomes one of level `top`."""
  return Markup("".join(_block(list(lines), top) for lines in _blocks(text)))


def _blocks(text: str) -> Iterator[list[str]]:
  for filled, lines in itertools.groupby(text.splitlines(), key=lambda line: bool(line.strip())):
    if filled:
      yield list(lines)


def _block(lines: list[str], top: int) -> str:
  first = lines[0]
  if first.startswith("#"):
    level = min(top + len(first) - len(first.lstrip("#")) - 1, 6)
    return f"<h{level}>{escape(first.lstrip('# '))}</h{level}>" + (
      _block(lines[1:], top) if lines[1:] else ""
    )
  if first.startswith("|"):
    return _table(lines)
  if first.startswith("- "):
    return f"<ul>{''.join(f'<li>{escape(line[2:])}</li>' for line in lines)}</ul>"
  return f"<p>{escape(' '.join(lines))}</p>"


def _table(lines: list[str]) -> str:
  header, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
  # The second line is the rule below the header.
  body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows[1:])
  head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
  return (
    f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(header[0])}">'
    f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
  )
