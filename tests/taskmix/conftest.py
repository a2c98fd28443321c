"""Synthetic examples of any net, raw and transformed, for tests that need no photo."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from taskmix import spec
from taskmix.keys import keyed_rng
from taskmix.schema import schema_of

Columns = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Dataset:
  """What Transform left: shards by split, and the graph."""

  net: spec.Net
  raw: Mapping[str, str]  # split -> pattern of raw TFRecords
  transformed: Mapping[str, str]
  transform_output: str


def draw_columns(net: spec.Net, kind: str, count: int) -> Columns:
  """`count` learnable samples of one kind: the class tints the image, targets follow its corner.

  A sample writes zeros into the targets of tasks that it does not label.
  """
  rng = keyed_rng(net.name, kind, count)
  signal = rng.uniform(0.1, 0.9, count)
  image = rng.integers(0, 40, (count, *net.input_size)) + (signal * 200).astype(int)[:, None, None, None]
  columns: Columns = {"image": image.astype(np.uint8)}
  columns["kind"] = np.array([kind.encode()] * count, object)
  columns["image_id"] = np.array([f"{kind}/{i}.jpg".encode() for i in range(count)], object)
  for task in net.tasks:
    columns[task.target.name] = _target(task, signal, kind)
  for column in net.context:
    columns[column.name] = rng.uniform(0, 1, (count, *column.shape)).astype(np.float32)
  return columns


def _target(task: spec.Task, signal: np.ndarray, kind: str) -> np.ndarray:
  if task.target.classes:
    return (signal > 0.5).astype(np.int64) * (kind in task.kinds)
  shape = (len(signal), *task.target.shape)
  values = np.broadcast_to(signal.reshape(-1, *(1,) * len(task.target.shape)), shape) * 0.2 + 0.1
  return values.astype(np.float32) * (kind in task.kinds)


def to_examples(net_columns: tuple[spec.Column, ...], columns: Columns) -> list[bytes]:
  """One serialized tf.train.Example a row."""
  import tensorflow as tf

  def feature(column: spec.Column, value: np.ndarray) -> tf.train.Feature:
    if column.dtype == "uint8":
      return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.tobytes()]))
    if column.dtype == "string":
      return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    flat = np.ravel(value).tolist()
    if column.dtype == "int64":
      return tf.train.Feature(int64_list=tf.train.Int64List(value=flat))
    return tf.train.Feature(float_list=tf.train.FloatList(value=flat))

  rows = len(columns[net_columns[0].name])
  examples = []
  for row in range(rows):
    features = {column.name: feature(column, columns[column.name][row]) for column in net_columns}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    examples.append(example.SerializeToString(deterministic=True))
  return examples


def write_records(path: pathlib.Path, records: list[bytes]) -> None:
  import tensorflow as tf

  path.parent.mkdir(parents=True, exist_ok=True)
  with tf.io.TFRecordWriter(str(path), "GZIP" if path.suffix == ".gz" else "") as writer:
    for record in records:
      writer.write(record)


def make_dataset(net: spec.Net, folder: pathlib.Path, counts: Mapping[str, int]) -> Dataset:
  """Raw splits (eval a quarter of train), and the real Transform over them."""
  raw = {}
  for phase, part in (("train", 1), ("eval", 4)):
    for kind in net.mixture.names:
      split = spec.split_name(phase, kind)
      columns = draw_columns(net, kind, max(1, counts[kind] // part))
      write_records(
        folder / "raw" / f"Split-{split}" / "data_tfrecord-00000-of-00001", to_examples(net.columns, columns)
      )
      raw[split] = str(folder / "raw" / f"Split-{split}" / "*")
  transformed = run_transform(net, raw, folder)
  return Dataset(net, raw, transformed, str(folder / "transform_graph"))


def run_transform(net: spec.Net, raw: Mapping[str, str], folder: pathlib.Path) -> dict[str, str]:
  """TFX Transform's work without TFX: analyze the train splits, transform them all."""
  import apache_beam as beam
  import tensorflow_transform as tft
  import tensorflow_transform.beam as tft_beam
  from tfx_bsl.public import tfxio

  from taskmix.transform import preprocessing_fn

  def inputs(patterns: list[str]) -> tfxio.TFExampleRecord:
    return tfxio.TFExampleRecord(patterns, schema=schema_of(net))

  def wrapped(columns):
    return preprocessing_fn(columns, {"net": net.to_json()})

  train = inputs([pattern for split, pattern in raw.items() if split.startswith("train")])
  config = train.TensorAdapterConfig()
  output = folder / "transform_graph"
  with beam.Pipeline("DirectRunner") as pipeline, tft_beam.Context(str(folder / "temp")):
    data = (pipeline | "Read" >> train.BeamSource(), config)
    fn = data | tft_beam.AnalyzeDataset(wrapped)
    fn | tft_beam.WriteTransformFn(str(output))
  transformed = {}
  with beam.Pipeline("DirectRunner") as pipeline, tft_beam.Context(str(folder / "temp")):
    fn = pipeline | tft_beam.ReadTransformFn(str(output))
    for split, pattern in raw.items():
      data = (pipeline | f"Read[{split}]" >> inputs([pattern]).BeamSource(), config)
      batches, _ = (data, fn) | f"Transform[{split}]" >> tft_beam.TransformDataset()
      coder = tft.coders.ExampleProtoCoder(tft.TFTransformOutput(str(output)).transformed_metadata.schema)
      target = folder / "transformed" / f"Split-{split}" / "transformed_examples"
      (
        batches
        | f"Encode[{split}]" >> beam.Map(coder.encode)
        | f"Write[{split}]" >> beam.io.WriteToTFRecord(str(target), file_name_suffix=".gz", num_shards=1)
      )
      transformed[split] = f"{target}*"
  return transformed


@pytest.fixture(scope="session")
def draw() -> Callable[..., Columns]:
  return draw_columns


@pytest.fixture(scope="session")
def write_examples() -> Callable[..., str]:
  """Writes columns as one TFRecord file: write_examples(net.columns, columns, path) -> path."""

  def write(columns: tuple[spec.Column, ...], values: Columns, path: pathlib.Path) -> str:
    write_records(path, to_examples(columns, values))
    return str(path)

  return write


@pytest.fixture(scope="session")
def transform() -> Callable[..., dict[str, str]]:
  """Runs the real Transform: transform(net, {split: pattern}, folder) -> {split: pattern}."""
  return run_transform


@pytest.fixture(scope="session")
def dataset_of(tmp_path_factory) -> Callable[..., Dataset]:
  """Makes a transformed dataset: dataset_of(net, {"neg": 90, ...})."""

  def make(net: spec.Net, counts: Mapping[str, int]) -> Dataset:
    return make_dataset(net, tmp_path_factory.mktemp(net.name), counts)

  return make


@pytest.fixture(scope="session")
def pnet_data(dataset_of) -> Dataset:
  """P-Net's columns, transformed once for all tests: a ratio-shaped few hundred samples."""
  from taskmix.nets.mtcnn import PNET

  return dataset_of(PNET, {"neg": 240, "pos": 80, "part": 80, "landmark": 160})
