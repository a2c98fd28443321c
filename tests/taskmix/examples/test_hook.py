"""A user's own function, through the whole conversion on Beam."""

import collections
import dataclasses
import io
import json
import pathlib
import pickle
import textwrap

import numpy as np
import pytest
from PIL import Image

from taskmix.examples import codec, hook
from taskmix.examples.convert import convert
from taskmix.examples.photos import BadPhotoError
from taskmix.examples.sharding import read_records
from taskmix.nets.mtcnn import PNET
from taskmix.sources.annotated import AnnotatedImage
from taskmix.spec import Column, Conversion, Loss, Mixture, Net, Phases, SampleKind, Source, Task

MODULE = """\
import pickle

import numpy as np

from taskmix.examples.codec import Sample


def shades(annotations_path, images_root):
  for number in range(40):
    yield f"shade/{number:02d}", {"seed": number, "bright": number % 2 == 1}


def picture(item, image_id):
  if item["seed"] == 7:
    raise KeyError("no such row")
  rng = np.random.default_rng(item["seed"])
  low = 128 if item["bright"] else 0
  image = rng.integers(low, low + 128, (8, 8, 3)).astype(np.uint8)
  kind = "bright" if item["bright"] else "dark"
  return Sample(image, kind, image_id, {"label": int(item["bright"]), "seed": item["seed"]})


def wrong(item, image_id):
  return pickle.loads(item)
"""

NET = Net(
  name="shades",
  input_size=(8, 8, 3),
  backbone="own_hook:none",
  tasks=(
    Task(
      "label",
      Column("label", "int64", classes=("dark", "bright")),
      kinds=("dark", "bright"),
      loss=Loss("softmax_cross_entropy"),
    ),
  ),
  mixture=Mixture((SampleKind("dark", 1), SampleKind("bright", 1))),
  sources=(
    Source(
      "own",
      "python",
      "",
      "",
      kinds=("dark", "bright"),
      options=(("items", "own_hook:shades"), ("function", "own_hook:picture")),
    ),
  ),
  phases=Phases(eval_share=0.2),
  context=(Column("seed", "float32"),),
)


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
  (tmp_path / "own_hook.py").write_text(textwrap.dedent(MODULE))
  monkeypatch.syspath_prepend(tmp_path)


def _examples(output: pathlib.Path, net: Net) -> dict[str, list[dict]]:
  """split -> decoded examples."""
  found = collections.defaultdict(list)
  for path in sorted(output.glob("Split-*/*")):
    for record in read_records(io.BytesIO(path.read_bytes())):
      found[path.parent.name.removeprefix("Split-")].append(codec.decode(net.columns, record))
  return found


def test_every_item_becomes_the_sample_that_the_function_makes(tmp_path):
  (tmp_path / "data").mkdir()
  (tmp_path / "data" / "any").touch()
  output = tmp_path / "out"
  manifest = convert(
    NET,
    data_root=str(tmp_path / "data"),
    output=str(output),
    conversion=Conversion(max_bad_fraction=0.05),
    processes=2,
  )
  examples = _examples(output, NET)
  # 40 items, of which the one with seed 7 raises.
  assert sum(map(len, examples.values())) == 39
  assert sum(len(examples[f"{phase}-bright"]) for phase in ("train", "eval")) == 19
  for split, rows in examples.items():
    for row in rows:
      bright = split.endswith("bright")
      assert (row["kind"], int(row["label"])) == (("bright", 1) if bright else ("dark", 0))
      seed = int(row["seed"])
      assert row["image_id"] == f"shade/{seed:02d}"
      low = 128 if bright else 0
      expected = np.random.default_rng(seed).integers(low, low + 128, (8, 8, 3))
      np.testing.assert_array_equal(row["image"], expected)
  assert manifest.quarantine == {"own_hook:picture raised KeyError: 'no such row'": 1}
  (entry,) = [json.loads(line) for line in (output / "quarantine.jsonl").read_text().splitlines()]
  assert entry["image_id"] == "shade/07"


def test_a_function_that_fails_too_often_stops_the_run(tmp_path):
  (tmp_path / "data").mkdir()
  (tmp_path / "data" / "any").touch()
  with pytest.raises(ValueError, match="own_hook:picture raised KeyError"):
    convert(
      NET,
      data_root=str(tmp_path / "data"),
      output=str(tmp_path / "out"),
      conversion=Conversion(max_bad_fraction=0.0),
      processes=1,
    )
  assert not (tmp_path / "out").exists()


def _sample(**changes):
  values = {"image": np.zeros((8, 8, 3), np.uint8), "kind": "dark", "image_id": "a", "targets": {}}
  return codec.Sample(**{**values, **changes})


@pytest.mark.parametrize(
  ("returned", "problem"),
  [
    (None, "a NoneType, no taskmix.examples.codec.Sample"),
    (_sample(image=np.zeros((8, 8, 3))), "no uint8 array, but float64"),
    (_sample(image=[[1]]), "no uint8 array, but <class 'list'>"),
    (_sample(image=np.zeros((8, 8), np.uint8)), r"shape \(8, 8\), not \[height, width, 3\]"),
    (_sample(kind="grey"), "the kind 'grey'; net 'shades' has dark, bright"),
    (_sample(image_id="b"), "the image id"),
  ],
)
def test_what_the_net_cannot_take_is_quarantined_with_the_reason(returned, problem):
  item = pickle.dumps(pickle.dumps(returned))
  image = AnnotatedImage("a", "", function="own_hook:wrong", item=item)
  with pytest.raises(BadPhotoError, match=f"^own_hook:wrong .*{problem}"):
    hook.make_sample(image, net=NET)


def test_info_records_become_examples_of_their_kinds(tmp_path):
  tf = pytest.importorskip("tensorflow")
  points = np.linspace(0.1, 0.9, 12)
  shades = {1: 250, 0: 10, -1: 130, -2: 70}
  with tf.io.TFRecordWriter(str(tmp_path / "old.tfrecord")) as writer:
    for label, shade in shades.items():
      image = tf.io.encode_png(np.full((12, 12, 3), shade, np.uint8)).numpy()
      values = [label, -0.1, 0.2, 0.3, -0.4, *points]
      feature = {
        "info": tf.train.Feature(float_list=tf.train.FloatList(value=values)),
        "image_raw": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
      }
      writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
  source = Source("old", "info17", "old.tfrecord", "", kinds=("neg", "pos", "part", "landmark"))
  net = dataclasses.replace(PNET, sources=(source,), phases=Phases(eval_share=0.0))
  convert(net, data_root=str(tmp_path), output=str(tmp_path / "out"), processes=1)
  examples = _examples(tmp_path / "out", net)
  rows = {split: row for split, (row,) in examples.items()}
  assert set(rows) == {"train-neg", "train-pos", "train-part", "train-landmark"}
  assert {split: int(row["image"][0, 0, 0]) for split, row in rows.items()} == {
    "train-neg": 10,
    "train-pos": 250,
    "train-part": 130,
    "train-landmark": 70,
  }
  assert (int(rows["train-pos"]["face"]), int(rows["train-neg"]["face"])) == (1, 0)
  np.testing.assert_array_equal(rows["train-part"]["box_offsets"], np.float32([-0.1, 0.2, 0.3, -0.4]))
  np.testing.assert_array_equal(rows["train-landmark"]["landmarks"], np.float32(points[:10]))
  np.testing.assert_array_equal(rows["train-neg"]["landmarks"], np.zeros(10))


def test_the_demo_photos_go_through_a_function_of_ones_own(tmp_path, demo):
  """Items of another format: what the reader read, cut by hand."""
  (tmp_path / "own_cut.py").write_text(
    textwrap.dedent(
      """\
      import numpy as np
      from PIL import Image

      from taskmix.examples.codec import Sample


      def eyes(image, image_id):
        left, right = image.landmarks[0, :2]
        centre, half = (left + right) / 2, abs(right - left).max()
        photo = Image.open(image.path).convert("RGB")
        box = np.clip([*(centre - half), *(centre + half)], 0, min(photo.size))
        return Sample(np.asarray(photo.resize((8, 8), box=box)), "dark", image_id, {"label": 0})
      """
    )
  )
  source = Source(
    "eyes",
    "python",
    "landmarks.csv",
    ".",
    kinds=("dark",),
    options=(("items", "landmark_csv"), ("function", "own_cut:eyes")),
  )
  net = dataclasses.replace(NET, sources=(source,), phases=Phases(eval_share=0.0))
  manifest = convert(net, data_root=str(demo), output=str(tmp_path / "out"), processes=1)
  assert manifest.counts["train-dark"] == manifest.photos["all"]
  assert Image.fromarray(_examples(tmp_path / "out", net)["train-dark"][0]["image"]).size == (8, 8)
