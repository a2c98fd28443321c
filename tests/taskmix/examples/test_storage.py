"""Local files, and, through Beam, a store that has no folders and no rename of them."""

import os

import pytest

from taskmix.examples import storage


def _fail_half_way(path) -> None:
  with storage.create(str(path)) as file:
    file.write(b"half")
    raise RuntimeError("no more")


def test_a_file_appears_whole_or_not_at_all(tmp_path):
  with pytest.raises(RuntimeError, match="no more"):
    _fail_half_way(tmp_path / "a")
  assert not (tmp_path / "a").exists()
  storage.write_bytes(str(tmp_path / "a"), b"whole")
  assert (tmp_path / "a").read_bytes() == b"whole"


def test_publishing_moves_the_folder_in_one_step(tmp_path, monkeypatch):
  aside, folder = tmp_path / "out.partial", tmp_path / "deep" / "out"
  aside.mkdir()
  (aside / "manifest.json").write_text("{}")
  renamed = []
  rename = os.rename
  monkeypatch.setattr(os, "rename", lambda *paths: (renamed.append(paths), rename(*paths)))
  storage.publish(str(aside), str(folder), last="manifest.json")
  assert renamed == [(str(aside), str(folder))]
  assert os.listdir(folder) == ["manifest.json"]
  assert not aside.exists()


def test_publishing_never_replaces_a_folder_with_something_in_it(tmp_path):
  (tmp_path / "aside").mkdir()
  (tmp_path / "out").mkdir()
  (tmp_path / "out/notes").touch()
  with pytest.raises(OSError, match="not empty"):
    storage.publish(str(tmp_path / "aside"), str(tmp_path / "out"), last="manifest.json")


def test_a_linked_file_is_the_same_file(tmp_path):
  (tmp_path / "a").write_bytes(b"data")
  storage.link_or_copy(str(tmp_path / "a"), str(tmp_path / "sub/b"))
  assert (tmp_path / "a").stat().st_ino == (tmp_path / "sub/b").stat().st_ino


def test_removing_what_is_not_there_is_fine(tmp_path):
  storage.remove_tree(str(tmp_path / "none"))
  assert storage.list_files(str(tmp_path / "none")) == []
