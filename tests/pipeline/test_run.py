"""What ends a run at its start: another one in its folder, data that cannot be read."""

import pathlib
import shutil

import pytest

pytestmark = pytest.mark.pipeline

PHOTO = "skimage_astronaut.jpg"


def test_a_second_run_in_the_same_folder_says_that_one_is_there(handful, write_config, taskmix, tmp_path):
  import fcntl

  folder = tmp_path / "runs" / "handful"
  folder.mkdir(parents=True)
  with (folder / ".lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    done = taskmix("run", "--config", write_config(steps=5), "--data", handful, "--runs", tmp_path / "runs")
  assert done.code == 2
  assert "another run is using" in done.stderr


@pytest.mark.parametrize(
  ("spoil", "message"),
  [
    (lambda folder: _cut_off(folder / "bbx_gt.txt"), r"bbx_gt.txt:"),
    (lambda folder: (folder / "landmarks.csv").write_text("image,x\na,1\n"), "landmarks.csv:2"),
    (lambda folder: (folder / "photos" / PHOTO).write_bytes(b"no picture"), PHOTO),
  ],
  ids=["a list that is cut off", "wrong columns", "a photo that is none, of eight"],
)
def test_bad_input_ends_the_run_with_its_place(spoil, message, handful, write_config, taskmix, tmp_path):
  folder = tmp_path / "data"
  shutil.copytree(handful, folder)
  spoil(folder)
  done = taskmix("run", "--config", write_config(steps=5), "--data", folder, "--runs", tmp_path / "runs")
  assert done.code in (1, 2)
  assert message in done.stderr
  assert "Traceback" not in done.stderr


def _cut_off(path: pathlib.Path) -> None:
  text = path.read_text()
  path.write_text(text[: text.rindex(" 0 0 0")])
