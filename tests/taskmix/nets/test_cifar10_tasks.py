"""Everything of the multi-task example follows from its Net; unlabelled tasks teach nothing."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from taskmix import evaluation, schema
from taskmix.model.build import build
from taskmix.model.losses import net_losses
from taskmix.nets import cifar10_tasks
from taskmix.nets.cifar10_tasks import CIFAR10_TASKS as NET
from taskmix.nets.cifar10_tasks import SOURCES, make
from taskmix.sources import read
from taskmix.transform import preprocessing_fn, transformed_columns

LABELS = {"label": "classed", "turn": "turned", "tone": "toned"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Sixty training images and twenty of the test set, of random pixels and classes."""
  root = tmp_path_factory.mktemp("cifar10")
  rng = np.random.default_rng(0)
  for name, count in (("data_batch_1.bin", 60), ("test_batch.bin", 20)):
    records = rng.integers(0, 256, (count, 3073), np.uint8)
    records[:, 0] = rng.integers(0, 10, count)
    records.tofile(root / name)
  return root


def test_three_kinds_share_the_images_with_no_image_in_two(folder):
  samples = [make(image, name) for name, image in cifar10_tasks.train_images(str(folder), str(folder))]
  kinds = [sample.kind for sample in samples]
  assert {kind: kinds.count(kind) > 5 for kind in LABELS.values()} == dict.fromkeys(LABELS.values(), True)
  assert kinds.count("classed") > 15
  assert all(
    list(sample.targets) == [task] for sample in samples for task in LABELS if LABELS[task] == sample.kind
  )
  assert len({sample.image_id for sample in samples}) == 60


def test_labels_say_what_was_done_to_the_picture(folder):
  for name, image in cifar10_tasks.test_images(str(folder), str(folder)):
    sample = make(image, name)
    record = np.fromfile(folder / "test_batch.bin", np.uint8).reshape(-1, 3073)[int(name.rpartition("/")[2])]
    original = record[1:].reshape(3, 32, 32).transpose(1, 2, 0)
    if sample.kind == "classed":
      assert sample.targets["label"] == record[0]
    if sample.kind == "turned":
      np.testing.assert_array_equal(np.rot90(sample.image, -sample.targets["turn"]), original)
    if sample.kind == "toned":
      is_grey = (sample.image == sample.image[..., :1]).all()
      assert is_grey == (sample.targets["tone"] == 1)


def test_the_sources_give_the_phases_that_the_archive_has(folder):
  net = dataclasses.replace(NET, sources=SOURCES)
  counts = {source.phase: len(list(read(source, str(folder)))) for source in net.sources}
  assert counts == {"train": 60, "eval": 20}


def test_every_derived_part_comes_from_the_net():
  assert NET.mixture.counts(128) == {"classed": 64, "turned": 32, "toned": 32}
  assert NET.splits == tuple(f"{phase}-{kind}" for phase in ("train", "eval") for kind in LABELS.values())
  assert {feature.name for feature in schema.schema_of(NET).feature} >= set(LABELS)
  masks = [column.name for column in transformed_columns(NET) if column.name.endswith("_mask")]
  assert masks == ["label_mask", "turn_mask", "tone_mask"]
  heads = {name: tuple(output.shape[1:]) for name, output in zip(*_outputs(build(NET)), strict=True)}
  assert heads == {"label": (10,), "turn": (4,), "tone": (2,)}
  config = evaluation.eval_config(NET)
  assert {name for spec in config.metrics_specs for name in spec.output_names} == set(LABELS)


def _outputs(model) -> tuple[list, list]:
  return list(model.output), list(model.output.values())


def _batch(rng):
  """Two of each kind, as Transform gives them, with a label written into every column."""
  kinds = np.repeat(list(LABELS.values()), 2)
  raw = {
    column.name: tf.zeros((6, *column.shape), "int64") for column in NET.columns if column.dtype == "int64"
  }
  inputs = {**raw, "image": tf.fill([6], ""), "image_id": tf.fill([6], ""), "kind": tf.constant(kinds)}
  batch: dict[str, Any] = dict(preprocessing_fn(inputs, {"net": NET.to_json()}))
  batch["image"] = rng.integers(0, 256, (6, 32, 32, 3), np.uint8)
  return batch


def test_a_task_that_does_not_label_a_sample_adds_nothing_to_loss_and_gradient():
  batch, model = _batch(np.random.default_rng(0)), build(NET)

  def losses_and_gradients(batch) -> tuple[dict[str, Any], list[Any]]:
    with tf.GradientTape() as tape:
      losses = net_losses(NET, batch, model(batch["image"], training=False))
      total: Any = tf.add_n(list(losses.values()))
    return losses, tape.gradient(total, model.trainable_variables)

  before = losses_and_gradients(batch)
  for name, kind in LABELS.items():
    others = np.array([each != kind for each in np.repeat(list(LABELS.values()), 2)])
    np.testing.assert_array_equal(batch[f"{name}_mask"], ~others)
    # Any nonsense in a column that the sample does not label.
    batch[name] = tf.where(others, tf.constant(7, tf.int64), batch[name])
  after = losses_and_gradients(batch)
  for name in LABELS:
    assert float(before[0][name]) == float(after[0][name]) > 0
  for one, other in zip(before[1], after[1], strict=True):
    np.testing.assert_array_equal(one, other)
