"""Fixtures that every test may use."""

import dataclasses
import importlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

# Before TensorFlow, whose kernels it chooses; by this name, since `taskmix` is a fixture here.
importlib.import_module("taskmix")

# A shell has what it starts in the background ignore Ctrl-C, and so would the runs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="session")
def demo() -> pathlib.Path:
  """The folder of the embedded photos."""
  return REPOSITORY / "demo"


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
  """The large development data beside the repository; skips where it is absent."""
  folder = REPOSITORY.parent / "shared" / "data"
  if not folder.is_dir():
    pytest.skip("needs the development photos in ../shared/data, which are not here")
  return folder


@dataclasses.dataclass(frozen=True)
class Ended:
  """How a run ended: its exit code, negative for a signal; what it printed."""

  code: int
  stdout: str
  stderr: str
  seconds: float

  def __str__(self) -> str:
    return f"exit {self.code} after {self.seconds:.0f} s\n{self.stdout}\n{self.stderr}"

  @property
  def ran(self) -> list[str]:
    """The components that ran, without those that came from the cache."""
    return [line.split()[0] for line in self.stdout.splitlines() if " done " in line]

  @property
  def cached(self) -> list[str]:
    return [line.split()[0] for line in self.stdout.splitlines() if " from cache " in line]


@pytest.fixture(scope="session")
def taskmix():
  """taskmix(*arguments, kill=..., ...) -> Ended; see prepared_runs.py for the rest."""
  script = pathlib.Path(__file__).with_name("prepared_runs.py")
  process = subprocess.Popen(
    [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
  )
  assert process.stdin and process.stdout

  def run(*arguments: object, **request: object) -> Ended:
    assert process.stdin and process.stdout
    line = json.dumps({"arguments": [str(each) for each in arguments], **request})
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return Ended(**json.loads(process.stdout.readline()))

  assert json.loads(process.stdout.readline())["threads"]
  yield run
  process.stdin.close()
  process.wait(60)
  process.stdout.close()


# A handful of the embedded photos.
PHOTOS = (
  "photos/adminkit_avatar-2.jpg",
  "photos/adminkit_avatar-3.jpg",
  "photos/facerec_obama.jpg",
  "photos/faceapi_sample6.jpg",
  "photos/skimage_astronaut.jpg",
  "photos/mpl_grace_hopper.jpg",
  "negatives/skimage_coffee.jpg",
  "negatives/skimage_rocket.jpg",
)

CONFIG = '''
"""A run in seconds: eight photos, a few steps, bounds that any net keeps."""
import dataclasses
from pipeline.config import Stage
from pipeline.configs.demo import CONFIG as DEMO
from taskmix.spec import Bound, Training

TRAINING = Training(batch_size=56, steps=STEPS, checkpoint_every=10, steps_per_execution=5)


def stage(net):
  tasks = tuple(
    dataclasses.replace(task, bounds=tuple(Bound(bound.metric, **LIMITS) for bound in task.bounds))
    for task in net.tasks
  )
  return Stage(dataclasses.replace(net, tasks=tasks), TRAINING)


CONFIG = dataclasses.replace(DEMO, name="handful", stages=tuple(map(stage, DEMO.nets[:NETS])))
'''


@pytest.fixture(scope="session")
def handful(demo, tmp_path_factory) -> pathlib.Path:
  """A data folder with eight of the embedded photos and their annotations."""
  folder = tmp_path_factory.mktemp("handful")
  for photo in PHOTOS:
    (folder / photo).parent.mkdir(exist_ok=True)
    shutil.copy(demo / photo, folder / photo)
  (folder / "bbx_gt.txt").write_text("".join(_box_blocks((demo / "bbx_gt.txt").read_text().splitlines())))
  header, *rows = (demo / "landmarks.csv").read_text().splitlines(keepends=True)
  (folder / "landmarks.csv").write_text(header + "".join(row for row in rows if row.startswith(PHOTOS)))
  return folder


def _box_blocks(lines: list[str]) -> list[str]:
  """The lines of WIDER's text that belong to PHOTOS."""
  kept, at = [], 0
  while at < len(lines):
    end = at + 2 + max(int(lines[at + 1]), 1)
    if lines[at] in PHOTOS:
      kept += [line + "\n" for line in lines[at:end]]
    at = end
  return kept


@pytest.fixture
def write_config(tmp_path):
  """A function that writes a config file: `write_config(steps=20, nets=3, min=..., max=...)`."""

  def write(steps: int, *, nets: int = 1, **limits: float) -> str:
    path = tmp_path / "handful.py"
    values = {"**LIMITS": f"**{limits or {'min': -1e9}}", "STEPS": str(steps), "NETS": str(nets)}
    text = CONFIG
    for name, value in values.items():
      text = text.replace(name, value)
    path.write_text(text)
    return str(path)

  return write


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
  """Whole pipelines first: begun last, one would keep a worker busy when the other has nothing left to do.

  xdist keeps this order with --no-loadscope-reorder.
  """
  items.sort(key=lambda item: item.get_closest_marker("pipeline") is None)
