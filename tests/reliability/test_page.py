"""docs/reliability.md names a test for each fault, and each of them is there."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text()


def test_every_fault_has_a_test_that_exists():
  section = PAGE.partition("## Faults")[2].partition("\n## ")[0]
  rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
  assert len(rows) > 20
  for row in rows:
    named = re.search(r"(\S+\.py)::(test_\w+)", row)
    assert named, f"no test in the row {row!r}"
    path = ROOT / (named[1] if "/" in named[1] else f"tests/reliability/{named[1]}")
    assert path.is_file(), path
    assert f"def {named[2]}(" in path.read_text(), f"{named[2]} is not in {path}"
