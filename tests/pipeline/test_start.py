"""taskmix init finds the formats that readers know, and writes a config that loads."""

import shutil
import sys

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from pipeline import cli
from pipeline.config import load_config
from pipeline.start.finding import look
from pipeline.start.writing import project_name


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
  """A config's folder is importable once it is loaded: not for the next test."""
  monkeypatch.setattr("sys.path", [*sys.path])
  before = set(sys.modules)
  yield
  for name in set(sys.modules) - before:
    if name.endswith("_net"):
      del sys.modules[name]


def _picture(path, seed=0):
  path.parent.mkdir(parents=True, exist_ok=True)
  cv2.imwrite(str(path), np.random.default_rng(seed).integers(0, 255, (32, 32, 3)).astype(np.uint8))


def test_boxes_and_points_become_the_cascade(handful, tmp_path):
  folder = tmp_path / "My Photos 2"
  shutil.copytree(handful, folder)
  found = {each.annotations: each for each in look(folder)}
  assert found["bbx_gt.txt"].format == "wider_face"
  assert found["bbx_gt.txt"].every_face
  assert not found["bbx_gt.txt"].points
  assert found["landmarks.csv"].points
  result = CliRunner().invoke(cli.app, ["init", str(folder)])
  assert result.exit_code == 0, result.output
  config = load_config(str(folder / "my_photos_2_config.py"))
  assert [net.name for net in config.nets] == ["pnet", "rnet", "onet"]
  kinds = {source.format: source.kinds for source in config.nets[0].sources}
  assert kinds == {"wider_face": ("neg", "pos", "part"), "landmark_csv": ("landmark",)}
  assert (folder / "schemas" / "onet.pbtxt").is_file()
  again = CliRunner().invoke(cli.app, ["init", str(folder)])
  assert again.exit_code == cli.UNUSABLE
  assert "replace it with --force" in again.output


def test_boxes_alone_become_nets_without_points(handful, tmp_path):
  folder = tmp_path / "boxes"
  shutil.copytree(handful, folder)
  (folder / "landmarks.csv").unlink()
  assert CliRunner().invoke(cli.app, ["init", str(folder)]).exit_code == 0
  config = load_config(str(folder / "boxes_config.py"))
  assert [task.name for task in config.nets[2].tasks] == ["face", "box"]
  assert config.nets[2].mixture.names == ("neg", "pos", "part")


def test_photos_in_another_folder_than_their_list(handful, tmp_path):
  folder = tmp_path / "apart"
  (folder / "lists").mkdir(parents=True)
  shutil.copytree(handful / "photos", folder / "all" / "photos")
  shutil.copytree(handful / "negatives", folder / "all" / "negatives")
  shutil.copy(handful / "bbx_gt.txt", folder / "lists" / "faces.txt")
  (found,) = look(folder)
  assert (found.annotations, found.images) == ("lists/faces.txt", "all")


def test_voc_files_are_found_by_their_folder(tmp_path):
  _picture(tmp_path / "JPEGImages" / "a.png")
  (tmp_path / "Annotations").mkdir()
  (tmp_path / "Annotations" / "a.xml").write_text(
    "<annotation><filename>a.png</filename><size><width>32</width><height>32</height></size><object>"
    "<name>face</name><bndbox><xmin>3</xmin><ymin>3</ymin><xmax>20</xmax><ymax>20</ymax></bndbox></object>"
    "</annotation>"
  )
  (found,) = look(tmp_path)
  assert (found.format, found.annotations, found.images) == ("voc", "Annotations", "JPEGImages")


def test_a_folder_a_class_is_one_task(tmp_path):
  folder = tmp_path / "pets"
  for number in range(6):
    _picture(folder / ("cat" if number % 2 else "dog") / f"{number}.png", number)
  assert CliRunner().invoke(cli.app, ["init", str(folder), "--name", "pets_of_mine"]).exit_code == 0
  (net,) = load_config(str(folder / "pets_of_mine_config.py")).nets
  assert [task.target.classes for task in net.tasks] == [("cat", "dog")]


def test_train_and_test_folders_are_phases(tmp_path):
  for phase in ("train", "test"):
    for number in range(4):
      _picture(tmp_path / phase / f"{'cat' if number % 2 else 'dog'}.{number}.png", number)
  assert {(each.images, each.phase) for each in look(tmp_path)} == {("train", "train"), ("test", "eval")}


def test_several_label_types_are_a_task_each(tmp_path):
  folder = tmp_path / "things"
  for label, classes in {"colour": ("red", "green", "blue"), "size": ("small", "large")}.items():
    for one in classes:
      for number in range(2):
        _picture(folder / label / one / f"{number}.png", number)
  assert CliRunner().invoke(cli.app, ["init", str(folder)]).exit_code == 0
  (net,) = load_config(str(folder / "things_config.py")).nets
  assert {task.name: (task.kinds, len(task.target.classes)) for task in net.tasks} == {
    "colour": (("colour",), 3),
    "size": (("size",), 2),
  }


def test_no_name_of_a_folder_becomes_code(tmp_path):
  folder = tmp_path / "names"
  names = ('"""\nimport os\nos.abort()\n"""', "dog\nimport os; os.abort()", "\\")
  for number, name in enumerate(names):
    _picture(folder / name / f"{number}.png", number)
  assert CliRunner().invoke(cli.app, ["init", str(folder)]).exit_code == 0
  (net,) = load_config(str(folder / "names_config.py")).nets
  assert set(net.tasks[0].target.classes) == set(names)


def test_photos_without_annotations_say_what_is_known(tmp_path):
  for number in range(4):
    _picture(tmp_path / f"photo_{number}.png", number)
  result = CliRunner().invoke(cli.app, ["init", str(tmp_path)])
  assert result.exit_code == cli.UNUSABLE
  assert "holds 4 photos and no annotations of a known format" in result.output
  assert "wider_face" in result.output


def test_a_project_s_name_is_a_module_s(tmp_path):
  assert project_name(tmp_path / "My Photos-2") == "my_photos_2"
  assert project_name(tmp_path / "2024") == "my_2024"
