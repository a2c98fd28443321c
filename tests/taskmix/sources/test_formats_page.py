"""docs/formats.md is run: every source it shows, the reader it adds, the function it hooks in."""

import dataclasses
import pathlib
import re

import numpy as np
import pytest
from PIL import Image

import taskmix.sources
from taskmix.examples.convert import convert
from taskmix.nets.cifar10 import CNN
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Phases, Source

PAGE = (pathlib.Path(__file__).parents[3] / "docs/formats.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
SOURCES = [eval(block, {"Source": Source}) for block in BLOCKS if block.startswith("Source(")]


def _write_module(folder: pathlib.Path, name: str) -> None:
  (block,) = [block for block in BLOCKS if block.startswith(f"# {name}\n")]
  (folder / name).write_text(block)


def test_every_format_has_a_section_and_an_example():
  formats = set(taskmix.sources.formats())
  assert formats == {source.format for source in SOURCES} - {"yolo_text"}
  for name in formats:
    assert re.search(rf"^## {name}\b", PAGE, re.MULTILINE), name


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_example_names_options_that_the_reader_has(source, tmp_path, monkeypatch):
  _write_module(tmp_path, "yolo_text.py")
  monkeypatch.syspath_prepend(tmp_path)
  assert {name for name, _ in source.options} <= set(taskmix.sources.options(source.format))


def test_every_option_of_a_reader_is_on_the_page():
  for name in taskmix.sources.formats():
    section = PAGE.split(f"\n## {name}")[1].split("\n## ")[0]
    for option in taskmix.sources.options(name):
      assert f"`{option}`" in section, f"{name} has an option {option}"


@pytest.fixture
def photos(tmp_path, demo, monkeypatch):
  """A folder with images/ and two photos in it."""
  (tmp_path / "images").mkdir()
  for name in ("mpl_grace_hopper", "skimage_astronaut"):
    Image.open(demo / f"photos/{name}.jpg").save(tmp_path / f"images/{name}.png")
  monkeypatch.syspath_prepend(tmp_path)
  return tmp_path


def test_the_reader_of_the_page_gives_crops(photos):
  _write_module(photos, "yolo_text.py")
  assert len((photos / "yolo_text.py").read_text().splitlines()) < 40
  (photos / "labels").mkdir()
  (photos / "labels/skimage_astronaut.txt").write_text("0 0.5 0.25 0.2 0.25\n")
  (photos / "labels/mpl_grace_hopper.txt").write_text("")
  (source,) = [source for source in SOURCES if source.format == "yolo_text"]
  image = list(taskmix.sources.read(source, str(photos)))[1]
  width, height = Image.open(photos / "images/skimage_astronaut.png").size
  np.testing.assert_allclose(
    image.boxes, [[0.4 * width, 0.125 * height, 0.6 * width, 0.375 * height]], rtol=1e-6
  )
  net = dataclasses.replace(PNET, sources=(source,), phases=Phases(eval_share=0.0))
  manifest = convert(net, data_root=str(photos), output=str(photos / "out"), processes=1)
  assert manifest.counts["train-pos"] > 0
  (photos / "labels/mpl_grace_hopper.txt").write_text("0 0.5 0.5\n")
  with pytest.raises(ValueError, match=r"mpl_grace_hopper\.txt:1: expected `class cx cy w h`"):
    convert(net, data_root=str(photos), output=str(photos / "out2"), processes=1)


def test_the_function_of_the_page_makes_samples(photos):
  _write_module(photos, "my_samples.py")
  (photos / "photos").symlink_to(photos / "images")
  (photos / "rows.csv").write_text("id,file,label\na,mpl_grace_hopper.png,3\nb,skimage_astronaut.png,4\n")
  (source,) = [source for source in SOURCES if source.name == "mine"]
  net = dataclasses.replace(CNN, sources=(source,), phases=Phases(eval_share=0.0))
  manifest = convert(net, data_root=str(photos), output=str(photos / "out"), processes=1)
  assert manifest.counts["train-image"] == 2
  assert not manifest.quarantine
