import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import dataset_metadata

from taskmix import spec, transform
from taskmix.nets.mtcnn import PNET
from taskmix.schema import schema_of


def _read(pattern, net):
  """Every transformed column of a split, in file order."""
  specs = {
    column.name: tf.io.FixedLenFeature(
      [] if column.dtype == "uint8" else column.shape,
      tf.string if column.dtype in ("uint8", "string") else getattr(tf, column.dtype),
    )
    for column in transform.transformed_columns(net)
  }
  files = tf.io.gfile.glob(pattern)
  records = list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator())
  return {name: value.numpy() for name, value in tf.io.parse_example(records, specs).items()}


def test_masks_follow_the_kind(pnet_data):
  expected = {
    "neg": {"face_mask": 1, "box_mask": 0, "landmark_mask": 0},
    "pos": {"face_mask": 1, "box_mask": 1, "landmark_mask": 0},
    "part": {"face_mask": 0, "box_mask": 1, "landmark_mask": 0},
    "landmark": {"face_mask": 0, "box_mask": 0, "landmark_mask": 1},
  }
  for kind, masks in expected.items():
    columns = _read(pnet_data.transformed[f"train-{kind}"], PNET)
    for name, value in masks.items():
      assert set(columns[name]) == {value}


def test_image_kind_and_context_pass_unchanged(pnet_data, draw):
  columns = _read(pnet_data.transformed["train-pos"], PNET)
  drawn = draw(PNET, "pos", 80)
  order = [drawn["image_id"].tolist().index(name) for name in columns["image_id"]]
  assert columns["image"].tolist() == [drawn["image"][i].tobytes() for i in order]
  assert set(columns["kind"]) == {b"pos"}
  np.testing.assert_array_equal(columns["crop"], drawn["crop"][order])


def test_targets_have_zero_mean_and_unit_deviation_over_the_samples_that_label_them(pnet_data):
  labelled = [_read(pnet_data.transformed[f"train-{kind}"], PNET)["box_offsets"] for kind in ("pos", "part")]
  box = np.concatenate(labelled).astype(np.float64)
  np.testing.assert_allclose(box.mean(0), 0, atol=1e-5)
  np.testing.assert_allclose(box.std(0), 1, atol=1e-5)


def test_unlabelled_targets_are_zero(pnet_data):
  assert not _read(pnet_data.transformed["train-neg"], PNET)["box_offsets"].any()


def test_standardization_is_what_numpy_finds_in_the_training_splits(pnet_data, draw):
  layer = tft.TFTransformOutput(pnet_data.transform_output).transform_features_layer()
  learnt = transform.standardization(layer, PNET)
  drawn = {kind: draw(PNET, kind, n) for kind, n in (("pos", 80), ("part", 80), ("landmark", 160))}
  box = np.concatenate([drawn["pos"]["box_offsets"], drawn["part"]["box_offsets"]]).astype(np.float64)
  np.testing.assert_allclose(learnt["box"].mean, box.mean(0), rtol=1e-5)
  np.testing.assert_allclose(learnt["box"].std, box.std(0), rtol=1e-5)
  points = drawn["landmark"]["landmarks"].astype(np.float64)
  np.testing.assert_allclose(learnt["landmark"].mean, points.mean(0), rtol=1e-5)
  assert set(learnt) == {"box", "landmark"}


def test_transformed_columns_are_the_raw_ones_and_the_masks():
  names = [column.name for column in transform.transformed_columns(PNET)]
  assert names == [
    "image", "kind", "image_id", "face", "box_offsets", "landmarks", "crop", "iou", "face_size",
    "face_mask", "box_mask", "landmark_mask",
  ]  # fmt: skip


def test_standardized_columns_lose_their_range():
  by_name = {column.name: column for column in transform.transformed_columns(PNET)}
  assert by_name["box_offsets"].low is None
  assert by_name["iou"].low == 0.0


def test_a_task_that_nothing_labels_and_a_constant_target_stay_finite(tmp_path):
  flat = spec.Column("flat", "float32")
  constant = spec.Task("flat", flat, ("pos",), spec.Loss("mean_squared_error"), standardize=True)
  net = dataclasses.replace(PNET, name="flat_net", tasks=(*PNET.tasks, constant))
  blank = {column.name: transform._blank(column, 3).numpy() for column in net.columns}
  blank["kind"], blank["flat"] = np.array(["pos", "pos", "neg"]), np.float32([3, 3, 9])
  rows = [{name: values[i] for name, values in blank.items()} for i in range(3)]
  metadata = dataset_metadata.DatasetMetadata(schema_of(net))
  with tft_beam.Context(str(tmp_path)):
    (done, _), _ = (rows, metadata) | tft_beam.AnalyzeAndTransformDataset(
      lambda inputs: transform.preprocessing_fn(inputs, {"net": net.to_json()})
    )
  assert [row["flat"] for row in done] == [0.0, 0.0, 0.0]
  assert [row["flat_mask"] for row in done] == [1.0, 1.0, 0.0]
  assert not any(np.isnan(row["landmarks"]).any() for row in done)


def test_missing_columns_are_named():
  inputs = {column.name: None for column in PNET.columns if column.name not in ("image", "iou")}
  with pytest.raises(ValueError, match="needs the columns image, iou"):
    transform.preprocessing_fn(inputs, {"net": PNET.to_json()})
