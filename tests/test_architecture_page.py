"""docs/architecture.md names every module, so that none is without a place."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent


def test_every_module_is_named():
  page = (ROOT / "docs" / "architecture.md").read_text()
  parts = ("taskmix", "components", "pipeline")
  modules = [path for part in parts for path in (ROOT / part).rglob("*.py") if path.name != "__init__.py"]
  # Readers, nets and configs are many of a kind: their folder stands for them.
  alike = {"sources", "nets", "configs", "detection_evaluation"}
  folders = {"component.py", "executor.py"}
  unnamed = [
    str(path.relative_to(ROOT))
    for path in modules
    if path.parent.name not in alike and path.name not in folders and path.name not in page
  ]
  assert not unnamed


def test_every_page_that_is_linked_is_there():
  for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
    for target in re.findall(r"\]\(([^)#:]+\.(?:md|tsv))(?:#[^)]*)?\)", page.read_text()):
      assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
