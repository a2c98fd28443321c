import dataclasses
import pathlib

import pytest
from tfx.types import artifact_utils, standard_artifacts

from components.import_example_gen import executor
from components.import_example_gen.component import ImportExampleGen
from taskmix.examples.convert import convert
from taskmix.examples.manifest import read_manifest
from taskmix.nets.mtcnn import PNET, RNET
from taskmix.spec import Conversion, CropRecipe, Source

SOURCES = (
  Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
  Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
)
NET = dataclasses.replace(PNET, sources=SOURCES, recipe=CropRecipe(tries_per_face=2, landmark_shifts=2))


@pytest.fixture(scope="module")
def converted(demo, tmp_path_factory):
  folder = tmp_path_factory.mktemp("converted") / "out"
  convert(NET, data_root=str(demo), output=str(folder), conversion=Conversion(shards=2))
  return folder


def run(net, shards, output):
  examples = standard_artifacts.Examples()
  examples.uri = str(output)
  properties = {"net": net.to_json(), "shards": str(shards), "fingerprint": ""}
  executor.Executor().Do({}, {"examples": [examples]}, properties)
  return examples


def contents(folder: pathlib.Path):
  return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_artifact_is_the_conversion(converted, tmp_path):
  examples = run(NET, converted, tmp_path / "7")
  assert contents(tmp_path / "7") == contents(converted)
  assert artifact_utils.decode_split_names(examples.split_names) == list(NET.splits)
  assert read_manifest(examples.uri).counts == read_manifest(str(converted)).counts


def test_another_ratio_takes_the_same_shards(converted, tmp_path):
  kinds = tuple(dataclasses.replace(kind, share=1) for kind in NET.mixture.kinds)
  even = dataclasses.replace(NET, name="even", mixture=dataclasses.replace(NET.mixture, kinds=kinds))
  run(even, converted, tmp_path / "7")


def test_other_slices_take_the_same_shards(converted, tmp_path):
  context = tuple(dataclasses.replace(column, slices=()) for column in NET.context)
  run(dataclasses.replace(NET, context=context), converted, tmp_path / "7")


@pytest.mark.parametrize(
  ("net", "what"),
  [
    (dataclasses.replace(RNET, sources=SOURCES), "columns, recipe"),
    (dataclasses.replace(NET, recipe=None), "recipe"),
  ],
)
def test_shards_of_another_net_are_refused_before_the_run(converted, net, what):
  with pytest.raises(ValueError, match=f"for 'pnet' with other {what} than"):
    ImportExampleGen(net=net, shards=str(converted))


def test_a_damaged_or_missing_shard_stops_the_run(converted, tmp_path):
  copy = tmp_path / "copy"
  for name, data in contents(converted).items():
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / name).write_bytes(data)
  shard = copy / "Split-train-neg" / "data_tfrecord-00001-of-00002"
  shard.write_bytes(shard.read_bytes()[:-1] + b"?")
  with pytest.raises(ValueError, match="00001-of-00002 is not what its manifest tells of"):
    run(NET, copy, tmp_path / "7")
  shard.unlink()
  with pytest.raises(ValueError, match="00001-of-00002 is missing"):
    run(NET, copy, tmp_path / "8")


def test_a_folder_that_is_no_conversion_is_named(tmp_path):
  with pytest.raises(ValueError, match=r"no finished conversion; run `taskmix convert`"):
    ImportExampleGen(net=NET, shards=str(tmp_path))


def test_another_conversion_meets_no_stale_cache(converted, demo, tmp_path):
  convert(NET, data_root=str(demo), output=str(tmp_path / "b"), conversion=Conversion(shards=2, seed=1))
  first, second = (ImportExampleGen(net=NET, shards=str(f)) for f in (converted, tmp_path / "b"))
  assert first.exec_properties["fingerprint"] != second.exec_properties["fingerprint"]
