"""CropExampleGen as TFX runs it: files and properties in, an Examples artifact out."""

import dataclasses
import os
import pathlib
import shutil

import pytest
from tfx.types import artifact_utils, standard_artifacts

from components.crop_example_gen.component import CropExampleGen
from components.crop_example_gen.executor import Executor
from taskmix.examples.convert import Conversions
from taskmix.examples.manifest import read_manifest
from taskmix.nets.mtcnn import PNET
from taskmix.sources.annotated import AnnotationError
from taskmix.spec import Conversion, Phases, Source

PHOTOS = ("photos/adminkit_avatar-2.jpg", "photos/skimage_astronaut.jpg")
NET = dataclasses.replace(
  PNET,
  sources=(
    Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
    Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
  ),
  phases=Phases(eval_share=0.0, eval_images=PHOTOS[1:]),
)


@pytest.fixture
def data(demo, tmp_path) -> pathlib.Path:
  """Two photos, one of which evaluates."""
  folder = tmp_path / "data"
  (folder / "photos").mkdir(parents=True)
  lines = (demo / "bbx_gt.txt").read_text().splitlines(keepends=True)
  blocks = []
  for photo in PHOTOS:
    shutil.copy(demo / photo, folder / photo)
    at = lines.index(photo + "\n")
    blocks += lines[at : at + 2 + int(lines[at + 1])]
  (folder / "bbx_gt.txt").write_text("".join(blocks))
  header, *rows = (demo / "landmarks.csv").read_text().splitlines(keepends=True)
  (folder / "landmarks.csv").write_text(header + "".join(row for row in rows if row.startswith(PHOTOS)))
  return folder


def _component(data: pathlib.Path, net=NET, **settings) -> CropExampleGen:
  return CropExampleGen(net=net, conversion=Conversion(**settings), data_root=str(data))


def _run(component: CropExampleGen, folder: pathlib.Path) -> standard_artifacts.Examples:
  examples = standard_artifacts.Examples()
  examples.uri = str(folder)
  # TFX makes the folder before the executor runs.
  folder.mkdir(parents=True)
  Executor().Do({}, {"examples": [examples]}, dict(component.exec_properties))
  return examples


def test_splits_are_phases_by_kinds_in_files_that_tfx_finds(data, tmp_path):
  examples = _run(_component(data, shards=3, compression="gzip"), tmp_path / "examples/1")
  splits = artifact_utils.decode_split_names(examples.split_names)
  kinds = ("neg", "pos", "part", "landmark")
  assert sorted(splits) == sorted(f"{phase}-{kind}" for phase in ("train", "eval") for kind in kinds)
  for split in splits:
    folder = pathlib.Path(artifact_utils.get_split_uri([examples], split))
    assert folder == tmp_path / "examples/1" / f"Split-{split}"
    assert sorted(path.name for path in folder.iterdir()) == [
      f"data_tfrecord-{index:05d}-of-00003.gz" for index in range(3)
    ]


def test_counts_of_the_manifest_are_those_of_the_files(data, tmp_path):
  tf = pytest.importorskip("tensorflow")
  examples = _run(_component(data), tmp_path / "examples")
  manifest = read_manifest(examples.uri)
  for split, count in manifest.counts.items():
    pattern = f"{examples.uri}/Split-{split}/data_tfrecord-*"
    records = list(tf.data.TFRecordDataset(tf.io.gfile.glob(pattern)).as_numpy_iterator())
    assert len(records) == count > 0
    ids = {tf.train.Example.FromString(r).features.feature["image_id"].bytes_list.value[0] for r in records}
    assert ids == {PHOTOS[split.startswith("eval")].encode()}


def test_a_kind_without_an_example_to_train_on_stops_the_run(data, tmp_path):
  net = dataclasses.replace(NET, phases=Phases(eval_images=PHOTOS))
  with pytest.raises(ValueError, match="no example in train-neg, train-pos, train-part, train-landmark"):
    _run(_component(data, net), tmp_path / "examples")


def test_the_fingerprint_changes_with_photos_and_annotations(data):
  def fingerprint() -> str:
    return _component(data).exec_properties["fingerprint"]

  first = fingerprint()
  assert fingerprint() == first
  # Not a source's file: of no concern.
  (data / "notes.txt").write_text("nothing")
  assert fingerprint() == first
  shutil.copy(data / PHOTOS[1], data / PHOTOS[0])
  second = fingerprint()
  assert second != first
  status = os.stat(data / PHOTOS[0])
  os.utime(data / PHOTOS[0], ns=(status.st_atime_ns, status.st_mtime_ns + 1))
  third = fingerprint()
  assert third != second
  (data / "bbx_gt.txt").write_text((data / "bbx_gt.txt").read_text().replace("73 59", "74 59"))
  assert fingerprint() not in (first, second, third)


def test_photos_that_change_while_they_are_converted_stop_the_run(data, tmp_path, monkeypatch):
  finish = Conversions.finish

  def meanwhile(steps):
    shutil.copy(data / PHOTOS[1], data / PHOTOS[0])
    return finish(steps)

  monkeypatch.setattr(Conversions, "finish", meanwhile)
  with pytest.raises(ValueError, match="changed while they were converted: let nothing write there"):
    _run(_component(data), tmp_path / "examples")


def test_net_and_settings_are_properties_so_that_a_change_meets_no_stale_cache(data):
  first = _component(data).exec_properties
  changed = _component(data, dataclasses.replace(NET, phases=Phases()), seed=1).exec_properties
  assert first["net"] != changed["net"]
  assert first["conversion"] != changed["conversion"]
  assert first["fingerprint"] == changed["fingerprint"]


def test_remote_data_is_not_read_on_the_launcher():
  component = CropExampleGen(net=NET, conversion=Conversion(), data_root="gs://bucket/photos")
  assert component.exec_properties["fingerprint"] == ""


def test_unusable_data_is_told_before_the_pipeline_starts(data, tmp_path):
  with pytest.raises(ValueError, match=f"no data folder {tmp_path}/nowhere"):
    _component(tmp_path / "nowhere")
  (data / "bbx_gt.txt").write_text("photos/a.jpg\n1\n1 2 3\n")
  with pytest.raises(AnnotationError, match=r"bbx_gt\.txt:3"):
    _component(data)
