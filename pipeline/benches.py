"""`taskmix bench`: the benchmarks of the source tree."""

import subprocess
import sys
from collections.abc import Sequence

from pipeline.config import REPOSITORY
from taskmix.fields import nearest

# Name -> module below benchmarks/, and what it measures; docs/benchmarks.md tells more.
BENCHES = {
  "convert": ("convert", "photos/s of the conversion"),
  "mine": ("mine", "photos/s of the search for hard examples"),
  "input": ("input", "examples/s of the input engines"),
  "train": ("train", "steps/s of training against a constant batch"),
  "python": ("python_map", "samples/s of a Python function in parallel"),
  "detect": ("detect", "photos/s of the detector, against mtcnn and facenet-pytorch"),
}


def listing() -> str:
  return "\n".join(f"{name:<10}{what}" for name, (_, what) in BENCHES.items())


def command(name: str, arguments: Sequence[str] = ()) -> list[str]:
  """What runs a benchmark.

  Raises:
    ValueError: for an unknown name, or where the source tree is not.
  """
  if name not in BENCHES:
    raise ValueError(f"no benchmark {name!r}{nearest(name, list(BENCHES))}")
  module, _ = BENCHES[name]
  if not (REPOSITORY / "benchmarks" / f"{module}.py").is_file():
    raise ValueError(
      f"benchmarks are in taskmix's source tree, which is not at {REPOSITORY}: clone the repository, "
      f"and there run `make bench-{name}`"
    )
  return [sys.executable, "-m", f"benchmarks.{module}", *arguments]


def run(name: str, arguments: Sequence[str] = ()) -> int:
  """Runs it in the source tree; its exit code."""
  return subprocess.run(command(name, arguments), cwd=REPOSITORY, check=False).returncode
