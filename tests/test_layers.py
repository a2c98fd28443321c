"""Dependencies point one way, and what must stay light does."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent

# What each part may import of ours; the order is the direction of dependency.
ALLOWED = {
  "taskmix": {"taskmix"},
  "components": {"taskmix", "components"},
  "pipeline": {"taskmix", "components", "pipeline"},
  "kubeflow": {"taskmix", "components", "pipeline"},
}

# Beam workers import these: TensorFlow would cost each of them 400 MB and seconds.
LIGHT = (
  "taskmix.spec",
  "taskmix.keys",
  "taskmix.faces.geometry",
  "taskmix.faces.crops",
  "taskmix.sources",
  "taskmix.examples.codec",
  "taskmix.examples.sharding",
)


def _imports(path: pathlib.Path) -> set[str]:
  names = set()
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
      names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
  return names


@pytest.mark.parametrize("part", ALLOWED)
def test_each_part_imports_only_what_lies_below_it(part):
  wrong = {
    f"{path.relative_to(ROOT)} imports {name}"
    for path in (ROOT / part).rglob("*.py")
    for name in _imports(path)
    if name.split(".")[0] in ALLOWED and name.split(".")[0] not in ALLOWED[part]
  }
  assert not wrong


def test_the_domain_imports_no_tfx():
  wrong = {
    f"{path.relative_to(ROOT)} imports {name}"
    for path in (ROOT / "taskmix").rglob("*.py")
    for name in _imports(path)
    if name.split(".")[0] == "tfx"
  }
  assert not wrong


def test_what_workers_import_brings_no_tensorflow():
  imports = "; ".join(f"import {name}" for name in LIGHT)
  check = "import sys; heavy = {'tensorflow', 'keras', 'tfx'} & set(sys.modules); assert not heavy, heavy"
  subprocess.run([sys.executable, "-c", f"{imports}; {check}"], check=True, timeout=120, cwd=ROOT)
