"""Gathers what the documentation's site is built of: python docs/build_pages.py FOLDER

    FOLDER/mkdocs.yml   docs/mkdocs.yml, its sections filled with the pages that it does not name
    FOLDER/docs/        the pages of docs/ as they are; README, CHANGELOG and CONTRIBUTING with
                        their links turned; the reference, for mkdocstrings

`make docs` builds the site.
"""

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).parent.parent

# Page -> the modules on it: what users import, or name in a config.
REFERENCE = {
  "spec": ["taskmix.spec"],
  "config": ["pipeline.config", "pipeline.settings", "pipeline.runners"],
  "policies": [
    "taskmix.gates.policy",
    "taskmix.evaluation",
    "taskmix.faces.detection_evaluation.policy",
    "taskmix.serving.policy",
    "taskmix.faces.mining",
  ],
  "mixing": ["taskmix.mixing", "taskmix.mixing.batches", "taskmix.mixing.sampler", "taskmix.mixing.audit"],
  "sources": ["taskmix.sources", "taskmix.sources.annotated", "taskmix.sources.files"],
  "examples": ["taskmix.examples.convert", "taskmix.examples.codec", "taskmix.examples.manifest"],
  "model": ["taskmix.model.losses", "taskmix.model.build", "taskmix.model.training", "taskmix.model.serving"],
  "faces": [
    "taskmix.faces.geometry",
    "taskmix.faces.cascade",
    "taskmix.faces.detect",
    "taskmix.faces.tuning",
  ],
}


def main(folder: pathlib.Path) -> None:
  """Writes all into `folder`; what was gathered before goes."""
  docs = folder / "docs"
  shutil.rmtree(docs, ignore_errors=True)
  shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("*.py", "*.yml", "__pycache__"))
  for name, page in {"README": "index", "CHANGELOG": "changes", "CONTRIBUTING": "contributing"}.items():
    (docs / f"{page}.md").write_text(_turned((ROOT / f"{name}.md").read_text()))
  (docs / "reference").mkdir()
  for page, modules in REFERENCE.items():
    blocks = "\n".join(f"## `{module}`\n\n::: {module}\n" for module in modules)
    (docs / "reference" / f"{page}.md").write_text(f"# {page.capitalize()}\n\n{blocks}")
  (folder / "mkdocs.yml").write_text(_with_every_page((ROOT / "docs" / "mkdocs.yml").read_text(), docs))


def _with_every_page(text: str, docs: pathlib.Path) -> str:
  """The settings, pages without a place put into the section of their folder, or into "How to"."""
  pages = sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md"))
  sections = {"benchmarks": "Benchmarks", "reference": "Reference"}
  for page in reversed([page for page in pages if f"- {page}" not in text]):
    head = f"  - {sections.get(page.partition('/')[0], 'How to')}:\n"
    text = text.replace(head, f"{head}      - {page}\n")
  return text


def _turned(text: str) -> str:
  """Links from the repository's root, as from the site's."""
  pages = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
  for name, page in pages.items():
    text = text.replace(f"]({name})", f"]({page})")
  text = text.replace("](docs/", "](")
  # The site loads nothing from elsewhere, and mermaid would.
  way = "[Step by step](architecture.md#the-datas-way): what each component does, and what decides it."
  text = re.sub(r"```mermaid\n.*?```", way, text, flags=re.DOTALL)
  # What is no page of the site stays named, and is no link.
  return re.sub(r"\[([^\]]+)\]\((?:demo|schemas|kubeflow)/[^)]*\)", r"\1", text)


if __name__ == "__main__":
  main(pathlib.Path(sys.argv[1]))
