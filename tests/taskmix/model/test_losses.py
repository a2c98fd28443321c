import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmix.model import losses
from taskmix.nets.mtcnn import BOX, FACE, PNET
from taskmix.spec import Loss

_KEEP_ALL = dataclasses.replace(FACE, loss=Loss("softmax_cross_entropy"))


def _face(labels, mask):
  return {"face": tf.constant(labels, tf.int64), "face_mask": tf.constant(mask, tf.float32)}


def test_cross_entropy_is_the_mean_over_labelled_samples():
  # -log softmax: log 2 for equal logits, log(1 + e^-2) for two apart.
  logits = tf.constant([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0]])
  value = losses.task_loss(_KEEP_ALL, _face([0, 1, 1], [1, 1, 0]), logits)
  assert float(value) == pytest.approx((math.log(2) + math.log1p(math.exp(-2))) / 2)


def test_box_loss_is_the_mean_square_over_labelled_samples():
  batch = {
    "box_offsets": tf.constant([[0.0, 0, 0, 0], [1, 1, 1, 1], [5, 5, 5, 5]]),
    "box_mask": tf.constant([1.0, 1.0, 0.0]),
  }
  outputs = tf.constant([[2.0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
  assert float(losses.task_loss(BOX, batch, outputs)) == pytest.approx((4 / 4 + 0) / 2)


@pytest.mark.parametrize("task", [FACE, _KEEP_ALL])
def test_a_batch_that_labels_nothing_has_loss_and_gradient_zero(task):
  logits = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
  with tf.GradientTape() as tape:
    value = losses.task_loss(task, _face([0, 1], [0, 0]), logits)
  assert float(value) == 0.0
  assert not tape.gradient(value, logits).numpy().any()


def test_unlabelled_samples_add_nothing_whatever_their_target():
  batch = {
    "box_offsets": tf.constant([[0.0] * 4, [math.nan] * 4]),
    "box_mask": tf.constant([1.0, 0.0]),
  }
  outputs = tf.Variable([[1.0] * 4, [7.0] * 4])
  with tf.GradientTape() as tape:
    value = losses.task_loss(BOX, batch, outputs)
  assert float(value) == 1.0
  assert tape.gradient(value, outputs).numpy()[1].tolist() == [0.0] * 4


def test_huge_logits_stay_finite():
  logits = tf.Variable([[1e4, -1e4], [-1e4, 1e4]])
  with tf.GradientTape() as tape:
    value = losses.task_loss(_KEEP_ALL, _face([1, 1], [1, 1]), logits)
  assert float(value) == pytest.approx(1e4)
  assert np.isfinite(tape.gradient(value, logits).numpy()).all()


def test_the_hardest_seven_of_ten_labelled_samples_count():
  mask = [1.0] * 10 + [0.0] * 4
  hard = losses.hardest(tf.range(14, dtype=tf.float32), tf.constant(mask) > 0, 0.7).numpy()
  assert hard.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]


def test_equal_losses_still_give_an_exact_count():
  hard = losses.hardest(tf.ones(10), tf.ones(10) > 0, 0.7).numpy()
  assert hard.tolist() == [1] * 7 + [0] * 3


def test_only_the_hardest_have_a_gradient():
  logits = tf.Variable([[0.0, 0.0], [0.0, 5.0], [0.0, -5.0], [9.0, 9.0]])
  with tf.GradientTape() as tape:
    value = losses.task_loss(
      dataclasses.replace(FACE, loss=Loss("softmax_cross_entropy", keep_hardest=0.5)),
      _face([1, 1, 1, 1], [1, 1, 1, 0]),
      logits,
    )
  # Half of three labelled samples are two: the third (loss 5) and the first (log 2).
  assert float(value) == pytest.approx((math.log1p(math.exp(5)) + math.log(2)) / 2)
  assert tape.gradient(value, logits).numpy().any(axis=1).tolist() == [True, False, True, False]


@settings(deadline=None, max_examples=100)
@given(
  values=st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=40),
  data=st.data(),
  percent=st.integers(1, 100),
)
def test_hardest_agrees_with_sorting_in_numpy(values, data, percent):
  mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
  chosen = losses.hardest(tf.constant(values), tf.constant(mask), percent / 100).numpy()
  kept = -(-int(mask.sum()) * percent // 100)
  expected = sorted(np.float32(values)[mask], reverse=True)[:kept]
  assert chosen.sum() == kept
  assert not chosen[~mask].any()
  assert sorted(np.float32(values)[chosen > 0], reverse=True) == expected


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10_000), name=st.sampled_from(sorted(losses.LOSSES)))
def test_masked_samples_could_as_well_be_left_out(seed, name):
  rng = np.random.default_rng(seed)
  mask = rng.integers(0, 2, 12)
  entropy = "entropy" in name
  task = dataclasses.replace(FACE if entropy else BOX, loss=Loss(name, keep_hardest=0.7))
  shape = (12, 2) if entropy else (12, 4)
  targets = rng.integers(0, 2, 12) if entropy else rng.normal(size=shape).astype(np.float32)
  outputs = (rng.normal(size=shape) * 3).astype(np.float32)

  def value(rows):
    batch = {task.target.name: tf.constant(targets[rows]), task.mask: tf.constant(mask[rows], tf.float32)}
    return float(losses.task_loss(task, batch, tf.constant(outputs[rows])))

  labelled = np.flatnonzero(mask)
  expected = value(labelled) if len(labelled) else 0.0
  assert value(np.arange(12)) == pytest.approx(expected, rel=1e-5)
  assert value(rng.permutation(12)) == pytest.approx(expected, rel=1e-5)


# Virtual devices must be made before TensorFlow starts: hence a process of its own.
_TWO_REPLICAS = """
import numpy as np
import tensorflow as tf
from taskmix.model import losses
from taskmix.nets.mtcnn import FACE

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
rng = np.random.default_rng(3)
batch = {
  "face": rng.integers(0, 2, 12),
  "face_mask": rng.integers(0, 2, 12).astype(np.float32),
  "logits": rng.normal(size=(12, 2)).astype(np.float32),
}

def loss(batch):
  return losses.task_loss(FACE, batch, batch["logits"])

def part(context):
  start = context.replica_id_in_sync_group * 6
  return {name: tf.constant(value[start : start + 6]) for name, value in batch.items()}

parts = strategy.experimental_distribute_values_from_function(part)
run = tf.function(lambda parts: strategy.run(loss, (parts,)))
whole = sum(float(value) for value in strategy.experimental_local_results(run(parts)))
alone = float(loss({name: tf.constant(value) for name, value in batch.items()}))
assert abs(whole - alone) < 1e-6 * alone, (whole, alone)
"""


def test_the_parts_of_two_replicas_add_up_to_the_loss_of_one():
  subprocess.run([sys.executable, "-c", _TWO_REPLICAS], check=True, timeout=120)


def test_an_unknown_loss_lists_the_known_ones():
  with pytest.raises(ValueError, match="no loss 'hinge'; there is softmax_cross_entropy"):
    losses.per_sample(Loss("hinge"))


def test_a_loss_of_ones_own_is_found_by_its_path():
  found = losses.per_sample(Loss("taskmix.model.losses:huber"))
  assert found(tf.constant([0.0]), tf.constant([3.0])).numpy().tolist() == [2.5]


def test_every_task_of_a_net_has_its_loss():
  batch = {task.target.name: tf.zeros((2, *task.target.shape), task.target.dtype) for task in PNET.tasks}
  batch |= {task.mask: tf.ones(2) for task in PNET.tasks}
  outputs = {"face": tf.zeros((2, 2)), "box": tf.ones((2, 4)), "landmark": tf.zeros((2, 10))}
  values = losses.net_losses(PNET, batch, outputs)
  assert {name: round(float(value), 4) for name, value in values.items()} == {
    "face": 0.6931,
    "box": 1.0,
    "landmark": 0.0,
  }
