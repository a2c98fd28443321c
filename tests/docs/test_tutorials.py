"""The tutorials' commands, taken from their pages and run in order; only steps and photos are fewer."""

import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.engines

DOCS = pathlib.Path(__file__).parents[2] / "docs"

# Of a run that is over in a minute, whose nets learn nothing.
SHORT = [
  "train.steps=10",
  "train.checkpoint_every=10",
  "train.steps_per_execution=5",
  "train.warmup_steps=5",
  "net.tasks.*.bounds=[]",
]


class Reader:
  """Does what a page says, block by block, in a folder of its own."""

  def __init__(self, taskmix, folder: pathlib.Path, settings: list[str]):
    self._taskmix, self._folder = taskmix, folder
    self._settings = [word for setting in settings for word in ("--set", setting)]
    self._servers: list[subprocess.Popen] = []
    self._ports: dict[str, str] = {}
    self.told: dict[str, str] = {}

  def follow(self, page: str) -> None:
    try:
      page_text = (DOCS / page).read_text()
      for language, text in re.findall(r"^```(bash|python)\n(.*?)^```", page_text, re.S | re.M):
        self._python(text) if language == "python" else self._bash(text)
    finally:
      for server in self._servers:
        server.kill()
        server.wait()

  def _python(self, text: str) -> None:
    if named := re.match(r"# (\w+\.py)\n", text):
      (self._folder / named[1]).write_text(text)
      return
    self.told["python"] = self._run([sys.executable, "-c", self._with_ports(text)])

  def _bash(self, text: str) -> None:
    for line in text.strip().splitlines():
      words = shlex.split(self._with_ports(line))
      if words[0] == "taskmix":
        self._command(words[1:])
      elif "taskmix.serving.server" in words:
        self._serve(words)
      else:
        self._run([sys.executable if word == "python" else word for word in words])

  def _command(self, words: list[str]) -> None:
    # A run holds the net to the config's bounds, and so does an evaluation that names it.
    judged = words[0] == "run" or (words[0] == "evaluate" and "--config" in words)
    settings = self._settings if judged else []
    done = self._taskmix(*words, *settings, set_up=f"import os; os.chdir({str(self._folder)!r})")
    assert done.code == 0, f"{' '.join(words)}: {done}"
    self.told[words[0]] = done.stdout

  def _run(self, words: list[str]) -> str:
    done = subprocess.run(words, cwd=self._folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout

  def _serve(self, words: list[str]) -> None:
    words = [sys.executable, *words[1:]]
    self._servers.append(subprocess.Popen(words, cwd=self._folder, stdout=subprocess.DEVNULL))
    port = int(words[words.index("--rest-port") + 1])
    deadline = time.monotonic() + 120
    while True:
      with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
          return
      assert self._servers[-1].poll() is None and time.monotonic() < deadline
      time.sleep(0.2)

  def _with_ports(self, text: str) -> str:
    """The page's ports, which may be taken here, as free ones."""
    for port in ("8500", "8501"):
      if port in text:
        text = text.replace(port, self._ports.setdefault(port, _free_port()))
    return text


def _free_port() -> str:
  with socket.create_server(("127.0.0.1", 0)) as server:
    return str(server.getsockname()[1])


# Three nets through every component, detection, judging and serving, on cores that others may use.
@pytest.mark.timeout(1200)
def test_from_a_folder_of_photos_to_a_served_detector(taskmix, handful, tmp_path):
  shutil.copytree(handful, tmp_path / "demo")
  held_out = "net.phases.eval_images=photos/skimage_astronaut.jpg,photos/mpl_grace_hopper.jpg"
  reader = Reader(taskmix, tmp_path, [*SHORT, "train.batch_size=56", held_out])
  reader.follow("tutorial.md")
  assert "found landmarks.csv" in reader.told["init"]
  assert "Pushed:" in reader.told["run"]
  assert len(reader.told["detect"].splitlines()) == 6
  assert "average precision" in reader.told["evaluate"]
  assert re.fullmatch(r"\d+ faces\n", reader.told["python"])
  assert (tmp_path / "judged" / "metrics.json").is_file()


def test_three_label_types_on_different_images_become_one_net(taskmix, tmp_path):
  reader = Reader(taskmix, tmp_path, SHORT)
  reader.follow("tutorial_tasks.md")
  assert "found shape: 120 photos" in reader.told["init"]
  assert re.search(r"shape.*48 a batch", reader.told["doctor"])
  assert re.search(r"shape +96 +24 +share 2 of 4", reader.told["run"])
  assert [line.split()[0] for line in reader.told["python"].splitlines()] == ["colour", "shape", "size"]
