"""docs/extending.md's format, net, task and config, taken from the page and run."""

import pathlib
import re
import sys

import cv2
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
COLOURS = np.array([(255, 0, 0), (0, 255, 0), (0, 0, 255)])


@pytest.fixture(scope="module")
def modules():
  """File name -> its text on the page."""
  blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(), re.S)
  assert [name for name, _ in blocks] == ["toy_format.py", "toy_net.py", "toy_task.py", "toy_config.py"]
  return dict(blocks)


@pytest.fixture(scope="module")
def data(modules, tmp_path_factory):
  """A data folder with 72 plain and 24 striped pictures, and the page's modules, importable."""
  root = tmp_path_factory.mktemp("toy")
  for name, text in modules.items():
    (root / name).write_text(text)
  rng = np.random.default_rng(0)
  for kind, count in (("plain", 72), ("striped", 24)):
    (root / kind).mkdir()
    lines = [_picture(root / kind / f"{number}.png", number, kind, rng) for number in range(count)]
    (root / f"{kind}.tsv").write_text("\n".join(lines) + "\n")
  with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(root))
    yield root
    for name in modules:
      sys.modules.pop(name[:-3], None)


def _picture(path, number, kind, rng) -> str:
  """Writes one; its line in the list."""
  brightness = rng.uniform(0.2, 1)
  # No two alike: equal pictures would go together.
  pattern = cv2.resize(rng.uniform(0.4, 1, (5, 6)), (24, 20), interpolation=cv2.INTER_NEAREST)
  picture = pattern[..., None] * COLOURS[number % 3] * brightness
  if kind == "striped":
    picture[::4] = 255
  picture = np.clip(picture + rng.normal(0, 8, picture.shape), 0, 255).astype(np.uint8)
  cv2.imwrite(str(path), picture[..., ::-1])
  return f"{path.name}\t{number % 3}\t{brightness:.4f}"


def test_each_is_under_forty_lines(modules):
  assert {name: len(text.splitlines()) for name, text in modules.items() if text.count("\n") >= 40} == {}


@pytest.fixture(scope="module")
def trained(data, transform, tmp_path_factory):
  """(the net, what its training left) after the real conversion and the real Transform."""
  from pipeline.config import load_config
  from taskmix.examples.convert import convert
  from taskmix.model import training

  (stage,) = load_config(str(data / "toy_config.py")).stages
  folder = tmp_path_factory.mktemp("examples")
  manifest = convert(stage.net, data_root=str(data), output=str(folder / "out"))
  assert manifest.counts == {"train-plain": 54, "train-striped": 18, "eval-plain": 18, "eval-striped": 6}
  raw = {split: str(folder / "out" / f"Split-{split}" / "*") for split in stage.net.splits}
  transformed = transform(stage.net, raw, folder)
  files, eval_files = (
    training.split_files(list(transformed.values()), stage.net, phase=phase) for phase in ("train", "eval")
  )
  return stage.net, training.train(stage.net, stage.training, files=files, eval_files=eval_files)


def test_format_net_and_task_are_converted_trained_and_judged(trained):
  _, result = trained
  last = result.records[-1]
  assert last.phase == "eval"
  assert last.metrics["colour_accuracy"] > 0.9
  assert last.losses["brightness"] < 0.5  # 1.6 for the mean of what is standardized


def test_a_format_of_ones_own_names_the_line(data, tmp_path):
  from taskmix import sources
  from taskmix.spec import Source

  (tmp_path / "bad.tsv").write_text("a.png\t1\t0.5\nb.png\t1\n")
  with pytest.raises(sources.AnnotationError, match=r"bad\.tsv:2: 2 fields, not 3"):
    list(sources.read(Source("bad", "toy_format", "bad.tsv", ".", ("plain",)), str(tmp_path)))
