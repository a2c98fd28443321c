"""The detectors that ours is compared with, each in an environment of its own.

Environments are made once, with pinned packages from PyPI, under
`$TASKMIX_CACHE` (by default ~/.cache/taskmix), outside the repository.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

_SETTINGS = {
  "CUDA_VISIBLE_DEVICES": "",
  "TF_CPP_MIN_LOG_LEVEL": "3",
  # Torch's threads spin while they wait for each other: beside any other process on
  # the same cores that made facenet-pytorch ten times slower than sleeping does.
  "OMP_WAIT_POLICY": "PASSIVE",
  # TensorFlow's oneDNN kernels, for ours and for mtcnn; it turns them on by itself
  # on processors with AVX-512 VNNI only. Torch always has them on.
  "TF_ENABLE_ONEDNN_OPTS": "1",
}

WORKER = pathlib.Path(__file__).with_name("detect_worker.py")

PACKAGES = {
  "mtcnn": ("mtcnn==1.0.0", "tensorflow-cpu==2.16.2", "numpy==1.26.4", "pillow==10.2.0"),
  # PyPI's torch for x86 brings CUDA along; it runs on the CPU here.
  "facenet": ("facenet-pytorch==2.6.0", "torch==2.2.2", "torchvision==0.17.2", "numpy==1.26.4"),
}


def cache_folder() -> pathlib.Path:
  """Where environments and downloaded packages lie between runs."""
  return pathlib.Path(os.environ.get("TASKMIX_CACHE", "~/.cache/taskmix")).expanduser()


def environment(peer: str) -> pathlib.Path:
  """The Python of a peer's environment, which is made if it is not there.

  Raises:
    subprocess.CalledProcessError: if pip cannot install the packages (no network?).
  """
  folder = cache_folder() / "peers" / peer
  python = folder / "bin" / "python"
  done = folder / ".installed"
  wanted = "\n".join(PACKAGES[peer])
  if not done.exists() or done.read_text() != wanted:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES[peer]]
    subprocess.run(install, check=True, stdout=sys.stderr)
    done.write_text(wanted)
  return python


def released_package() -> pathlib.Path:
  """A folder with the package mtcnn 1.0.0, for `taskmix import-weights`; pip fetches it once."""
  folder = cache_folder() / "peers" / "mtcnn-1.0.0"
  if not all((folder / name).is_dir() for name in ("mtcnn", "lz4")):
    install = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    packages = ["mtcnn==1.0.0", "joblib==1.5.3", "lz4==4.4.5"]
    target = ["--no-deps", "--target", str(folder)]
    subprocess.run([*install, *target, *packages], check=True, stdout=sys.stderr)
  return folder


@dataclasses.dataclass
class Detections:
  """What one detector found in one photo, how long it took, and on all cores together."""

  seconds: float
  cpu_seconds: float
  boxes: list[list[float]]
  scores: list[float]
  points: list[list[float]]


class Worker:
  """One detector in its own process, asked photo by photo."""

  def __init__(self, detector: str, python: str | pathlib.Path, options: Sequence[str] = (), cores: str = ""):
    command = [str(python), str(WORKER), detector, *options]
    if cores:
      command = ["taskset", "-c", cores, *command]
    self._process = subprocess.Popen(
      command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **_SETTINGS}
    )
    self.name = detector
    self._answer()

  def detect(self, path: str | pathlib.Path, *, given: str = "bytes") -> Detections:
    """What it finds in a photo given as encoded "bytes" or as "pixels"."""
    return Detections(**self._ask({"path": str(path), "as": given}))

  def close(self) -> float:
    """Ends the process; its peak memory in MiB."""
    peak = self._ask({"report": True})["peak_memory_mib"]
    assert self._process.stdin is not None
    self._process.stdin.close()
    self._process.wait(timeout=60)
    return peak

  def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
    assert self._process.stdin is not None
    self._process.stdin.write(json.dumps(request) + "\n")
    self._process.stdin.flush()
    return self._answer()

  def _answer(self) -> dict[str, Any]:
    assert self._process.stdout is not None
    line = self._process.stdout.readline()
    if not line:
      raise RuntimeError(f"{self.name} ended with status {self._process.wait()}; its last words are above")
    return json.loads(line)
