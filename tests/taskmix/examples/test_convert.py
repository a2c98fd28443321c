"""Whole conversions of a handful of the embedded photos."""

import dataclasses
import hashlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from taskmix.examples import codec, duplicates
from taskmix.examples.convert import convert, require_kinds
from taskmix.examples.manifest import read_manifest, read_photos, read_quarantine
from taskmix.examples.sharding import read_records
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Column, Conversion, CropRecipe, Phases, Source

FACES = (
  "photos/adminkit_avatar-2.jpg",
  "photos/adminkit_avatar-3.jpg",
  "photos/facerec_obama.jpg",
  "photos/skimage_astronaut.jpg",
  "photos/mpl_grace_hopper.jpg",
)
NEGATIVES = ("negatives/skimage_coffee.jpg", "negatives/skimage_rocket.jpg")
HELD_OUT = ("photos/skimage_astronaut.jpg",)

BOXES = Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part"))
POINTS = Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",))
NET = dataclasses.replace(
  PNET,
  sources=(BOXES, POINTS),
  phases=Phases(eval_share=0.0, eval_images=HELD_OUT),
  recipe=CropRecipe(random_negatives=40, tries_per_face=60, landmark_shifts=10),
  context=(Column("iou", "float32"),),
)
CONVERSION = Conversion(shards=2)


@pytest.fixture
def photos(demo, tmp_path) -> pathlib.Path:
  """A data folder with seven photos and their annotations, to do with as a test likes."""
  folder = tmp_path / "data"
  for photo in FACES + NEGATIVES:
    (folder / photo).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(demo / photo, folder / photo)
  lines = (demo / "bbx_gt.txt").read_text().splitlines()
  blocks = [_block(lines, photo) for photo in FACES + NEGATIVES]
  (folder / "bbx_gt.txt").write_text("".join(blocks))
  header, *rows = (demo / "landmarks.csv").read_text().splitlines(keepends=True)
  (folder / "landmarks.csv").write_text(header + "".join(row for row in rows if row.startswith(FACES)))
  return folder


def _block(lines: list[str], photo: str) -> str:
  at = lines.index(photo)
  return "".join(line + "\n" for line in lines[at : at + 2 + max(int(lines[at + 1]), 1)])


def _add(folder: pathlib.Path, photo: str, *rows: str) -> None:
  """One more photo with boxes `x y w h` in the list."""
  with (folder / "bbx_gt.txt").open("a") as file:
    file.write(f"{photo}\n{len(rows)}\n" + "".join(f"{row} 0 0 0 0 0 0\n" for row in rows))


def _convert(data: pathlib.Path, output: pathlib.Path, net=NET, *, conversion=CONVERSION, processes=1):
  return convert(net, data_root=str(data), output=str(output), conversion=conversion, processes=processes)


def _digests(folder: pathlib.Path) -> dict[str, str]:
  files = (path for path in folder.rglob("*") if path.is_file())
  return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _examples(output: pathlib.Path, split: str) -> list[dict]:
  found = []
  for path in sorted((output / f"Split-{split}").iterdir()):
    with path.open("rb") as file:
      found += [codec.decode(NET.columns, record) for record in read_records(file)]
  return found


def test_every_run_gives_the_same_bytes_with_one_process_or_two(photos, tmp_path):
  for name, processes in (("first", 1), ("second", 1), ("two", 2)):
    _convert(photos, tmp_path / name, processes=processes)
  first = _digests(tmp_path / "first")
  # 4 kinds x 2 phases x 2 shards, 4 sheets, the manifest, photos and quarantine.
  assert len(first) == 16 + 4 + 3
  assert _digests(tmp_path / "second") == first
  assert _digests(tmp_path / "two") == first


def test_another_seed_gives_other_crops(photos, tmp_path):
  _convert(photos, tmp_path / "a")
  _convert(photos, tmp_path / "b", conversion=dataclasses.replace(CONVERSION, seed=1))
  name = "Split-train-neg/data_tfrecord-00000-of-00002"
  assert (tmp_path / "a" / name).read_bytes() != (tmp_path / "b" / name).read_bytes()


def test_splits_are_phases_by_kinds_and_labels_fit_their_kind(photos, tmp_path):
  output = tmp_path / "out"
  result = _convert(photos, output)
  kinds = ("neg", "pos", "part", "landmark")
  assert set(result.counts) == {f"{phase}-{kind}" for phase in ("train", "eval") for kind in kinds}
  homes: dict[str, set[str]] = {}
  for split in result.counts:
    phase, _, kind = split.partition("-")
    examples = _examples(output, split)
    assert len(examples) == result.counts[split] > 0
    assert {example["kind"] for example in examples} == {kind}
    for example in examples:
      homes.setdefault(example["image_id"], set()).add(phase)
    iou = np.array([example["iou"] for example in examples])
    if kind == "neg":
      assert ((iou >= 0) & (iou < 0.3)).all()
    if kind == "part":
      assert ((iou >= 0.4) & (iou <= 0.65)).all()
    if kind == "pos":
      assert ((iou > 0.65) & (iou <= 1)).all()
  # No photo is in two phases; the one that is named evaluates.
  assert {photo for photo, phases in homes.items() if phases == {"eval"}} == set(HELD_OUT)
  assert {photo for photo, phases in homes.items() if phases == {"train"}} == {
    *FACES,
    *NEGATIVES,
  } - set(HELD_OUT)


def test_the_manifest_tells_what_lies_beside_it(photos, tmp_path):
  output = tmp_path / "out"
  result = _convert(photos, output)
  assert read_manifest(str(output)) == dataclasses.replace(
    result, net=json.loads(json.dumps(result.net)), conversion=dict(result.conversion)
  )
  assert result.photos == {"train": 10, "eval": 2, "all": 12, "quarantined": 0, "same_content": 5}
  for shard in result.shards:
    path = output / f"Split-{shard.split}" / shard.name
    assert (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()) == (shard.size, shard.sha256)
  assert sum(shard.examples for shard in result.shards) == sum(result.counts.values())
  digest = hashlib.sha256((photos / "bbx_gt.txt").read_bytes()).hexdigest()
  assert result.sources["boxes"] == {"format": "wider_face", "photos": 7, "annotations_sha256": digest}


def test_a_photo_under_another_name_goes_where_its_twin_goes(photos, tmp_path):
  import cv2

  shutil.copy(photos / HELD_OUT[0], photos / "photos/copy.jpg")
  again = cv2.resize(cv2.imread(str(photos / HELD_OUT[0])), None, fx=0.6, fy=0.6)
  cv2.imwrite(str(photos / "photos/saved_again.jpg"), again, [cv2.IMWRITE_JPEG_QUALITY, 60])
  for name in ("photos/copy.jpg", "photos/saved_again.jpg"):
    _add(photos, name, "100 40 80 90")
  _convert(photos, tmp_path / "out")
  names, phases, prints = read_photos(str(tmp_path / "out"))
  evaluate = {name for name, phase in zip(names, phases, strict=True) if phase == "eval"}
  assert evaluate == {*HELD_OUT, "photos/copy.jpg", "photos/saved_again.jpg"}
  assert duplicates.crossing_pairs(prints, np.array([phase == "eval" for phase in phases], int)) == []


def test_an_unknown_eval_image_is_refused(photos, tmp_path):
  net = dataclasses.replace(NET, phases=Phases(eval_images=("photos/astronout.jpg",)))
  with pytest.raises(ValueError, match=r"eval_images names photos/astronout\.jpg, which no source lists"):
    _convert(photos, tmp_path / "out", net)
  assert not list(tmp_path.glob("out*"))


def test_a_source_that_evaluates_by_origin_takes_its_pictures_along(photos, tmp_path):
  """The points list five of the photos that the boxes list too: those evaluate in both."""
  points = dataclasses.replace(POINTS, phase="eval")
  net = dataclasses.replace(NET, sources=(BOXES, points), phases=Phases(eval_share=0.0))
  result = _convert(photos, tmp_path / "out", net)
  names, phases, _ = read_photos(str(tmp_path / "out"))
  assert {name for name, phase in zip(names, phases, strict=True) if phase == "eval"} == set(FACES)
  assert result.counts["train-landmark"] == result.counts["train-pos"] == 0
  with pytest.raises(ValueError, match="no example in train-pos, train-part, train-landmark"):
    require_kinds(result.counts)


def test_bad_photos_and_faces_are_counted_with_their_reasons(photos, tmp_path):
  (photos / NEGATIVES[0]).unlink()
  (photos / NEGATIVES[1]).write_text("no picture at all")
  cut_off = (photos / FACES[0]).read_bytes()
  (photos / "photos/cut_off.jpg").write_bytes(cut_off[: len(cut_off) // 2])
  shutil.copy(photos / FACES[0], photos / "photos/odd.jpg")
  _add(photos, "photos/cut_off.jpg", "10 10 50 50")
  _add(photos, "photos/odd.jpg", "10 10 0 50", "5000 10 50 50", "73 59 70 90")
  output = tmp_path / "out"
  result = _convert(photos, output, conversion=Conversion(shards=1, max_bad_fraction=0.25))
  assert {(entry["image_id"], entry["face"], entry["reason"]) for entry in read_quarantine(str(output))} == {
    (NEGATIVES[0], None, "no such file"),
    (NEGATIVES[1], None, "not a picture"),
    ("photos/cut_off.jpg", None, "the file is cut off"),
    ("photos/odd.jpg", 0, "box of zero size"),
    ("photos/odd.jpg", 1, "box outside the 200 x 200 photo"),
  }
  assert (result.photos["quarantined"], result.faces["quarantined"]) == (3, 2)
  assert result.quarantine["no such file"] == result.quarantine["box of zero size"] == 1
  assert result.quarantine["box outside the # x # photo"] == 1
  # The good face beside the bad ones still gives crops.
  assert "photos/odd.jpg" in {example["image_id"] for example in _examples(output, "train-pos")}


@pytest.mark.parametrize("processes", [1, 2])
def test_too_many_bad_photos_stop_the_run_and_are_named(photos, tmp_path, processes):
  (photos / NEGATIVES[0]).unlink()
  with pytest.raises(
    ValueError, match=rf"^1 of 12 photos are bad, more than .*0\.05(.|\n)*{NEGATIVES[0]}: no"
  ):
    _convert(
      photos, tmp_path / "out", conversion=Conversion(shards=1, max_bad_fraction=0.05), processes=processes
    )
  assert not list(tmp_path.glob("out*"))


def test_an_empty_or_missing_data_folder_is_named(tmp_path):
  with pytest.raises(ValueError, match=f"no data folder {tmp_path}/data"):
    _convert(tmp_path / "data", tmp_path / "out")
  (tmp_path / "data").mkdir()
  with pytest.raises(ValueError, match=f"data folder {tmp_path}/data is empty"):
    _convert(tmp_path / "data", tmp_path / "out")
  (tmp_path / "data/bbx_gt.txt").touch()
  with pytest.raises(ValueError, match=r"bbx_gt\.txt"):
    _convert(tmp_path / "data", tmp_path / "out")
  assert not list(tmp_path.glob("out*"))


def test_a_broken_annotation_file_is_named_with_the_line(photos, tmp_path):
  path = photos / "bbx_gt.txt"
  whole = path.read_text()
  path.write_text(whole + "photos/last.jpg\n2\n1 2 30 40 0 0 0 0 0 0\n")
  last = len(path.read_text().splitlines())
  with pytest.raises(ValueError, match=f"{path}:{last}: the list ends before the last of 2 faces"):
    _convert(photos, tmp_path / "out")
  # The first photo's face, in line 3, loses its last column.
  path.write_text(whole.replace("73 59 70 90 0 0 0 0 0 0", "73 59 70 90 0 0 0 0 0", 1))
  with pytest.raises(ValueError, match=f"{path}:3"):
    _convert(photos, tmp_path / "out")
  assert not list(tmp_path.glob("out*"))


def test_a_killed_run_leaves_nothing_that_looks_finished(photos, tmp_path):
  script = textwrap.dedent(
    """\
    import os, pathlib, signal, sys
    sys.path.insert(0, sys.argv[1])
    from test_convert import _convert, photos
    from taskmix.examples import convert, writing

    write = writing.ShardWriter.__call__

    def write_three_and_die(self, task):
      if task.split == "train-part":
        os.kill(os.getpid(), signal.SIGKILL)
      return write(self, task)

    writing.ShardWriter.__call__ = write_three_and_die
    _convert(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    """
  )
  output = tmp_path / "out"
  killed = subprocess.run(
    [sys.executable, "-c", script, pathlib.Path(__file__).parent, photos, output], check=False
  )
  assert killed.returncode == -signal.SIGKILL
  assert not output.exists()
  assert list((tmp_path / "out.partial/output").glob("Split-*/*"))
  assert not list(tmp_path.rglob("manifest.json"))
  _convert(photos, output)
  assert not (tmp_path / "out.partial").exists()
  _convert(photos, tmp_path / "whole")
  assert _digests(output) == _digests(tmp_path / "whole")


def test_what_is_there_is_never_overwritten(photos, tmp_path):
  output = tmp_path / "out"
  output.mkdir()
  (output / "notes.txt").write_text("mine")
  with pytest.raises(ValueError, match="out is not empty and holds no conversion"):
    _convert(photos, output)
  assert (output / "notes.txt").read_text() == "mine"
  (output / "notes.txt").unlink()
  _convert(photos, output)
  with pytest.raises(ValueError, match="out holds a finished conversion already"):
    _convert(photos, output)


@pytest.mark.parametrize(
  "flags",
  [
    ["--runner=BundleBasedDirectRunner"],
    ["--direct_running_mode=multi_threading", "--direct_num_workers=2"],
    ["--direct_running_mode=multi_processing", "--direct_num_workers=2"],
  ],
  ids=["bundles", "threads", "processes"],
)
def test_another_beam_runner_gives_the_same_bytes(photos, tmp_path, flags):
  """Beam's older local runner, which shares no execution code with the default one,
  and the default one dealing work out to workers of its own. Runners that need a
  cluster are in tests/engines."""
  _convert(photos, tmp_path / "first")
  convert(
    NET,
    data_root=str(photos),
    output=str(tmp_path / "other"),
    conversion=CONVERSION,
    beam_args=flags,
    processes=1,
  )
  assert _digests(tmp_path / "other") == _digests(tmp_path / "first")
