"""TFMA, told by the Net alone, gives the numbers that hand calculation gives."""

import numpy as np
import pytest

from taskmix import evaluation
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Bound, Column, Loss, Mixture, Net, SampleKind, Task

# Six samples: kinds neg and pos label the class, kind spot labels the point.
#          kind    class  P(yes)   point   predicted
SAMPLES = (
  ("neg", 0, 0.2, (9.0, 9.0), (0.0, 0.0)),
  ("neg", 0, 0.9, (9.0, 9.0), (0.0, 0.0)),  # wrong
  ("pos", 1, 0.8, (9.0, 9.0), (0.0, 0.0)),
  ("pos", 1, 0.95, (9.0, 9.0), (0.0, 0.0)),
  ("spot", 0, 0.99, (1.0, 2.0), (1.5, 2.0)),  # labels no class
  ("spot", 0, 0.99, (3.0, 4.0), (3.0, 3.0)),
)


def _net(*, min_accuracy=0.7, max_error=0.5) -> Net:
  return Net(
    name="toy",
    input_size=(1, 1, 1),
    backbone="nowhere:none",
    tasks=(
      Task(
        "yes",
        Column("label", "int64", classes=("no", "yes")),
        ("neg", "pos"),
        Loss("softmax_cross_entropy"),
        metrics=("accuracy", "auc"),
        bounds=(Bound("accuracy", min=min_accuracy),),
      ),
      Task(
        "point",
        Column("xy", "float32", (2,)),
        ("spot",),
        Loss("mean_squared_error"),
        metrics=("mean_absolute_error", "mean_squared_error"),
        bounds=(Bound("mean_absolute_error", max=max_error),),
      ),
    ),
    mixture=Mixture((SampleKind("neg", 1), SampleKind("pos", 1), SampleKind("spot", 1))),
  )


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
  """A function that runs TFMA on the samples with a net's config and gives the result's folder."""
  folder = tmp_path_factory.mktemp("evaluation")
  model = _export(folder / "model")
  examples = _write(folder / "examples.tfrecord")

  def analyse(net: Net) -> str:
    import tensorflow_model_analysis as tfma

    out = str(folder / f"out{len(list(folder.iterdir()))}")
    config = evaluation.eval_config(net)
    shared = tfma.default_eval_shared_model(model, eval_config=config)
    tfma.run_model_analysis(
      eval_shared_model=shared, eval_config=config, data_location=examples, output_path=out
    )
    return out

  return analyse


def _export(folder) -> str:
  import tensorflow as tf

  spec = {
    "kind": tf.io.FixedLenFeature([], tf.string),
    "p": tf.io.FixedLenFeature([1], tf.float32),
    "predicted": tf.io.FixedLenFeature([2], tf.float32),
  }

  class Answers(tf.Module):
    """Reads its predictions from the examples, so that they are known."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
      parsed = tf.io.parse_example(examples, spec)
      return {"yes": tf.concat([1 - parsed["p"], parsed["p"]], 1), "point": parsed["predicted"]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def masks(self, examples):
      kind = tf.io.parse_example(examples, spec)["kind"]
      return {
        "yes_mask": tf.cast((kind == b"neg") | (kind == b"pos"), tf.float32),
        "point_mask": tf.cast(kind == b"spot", tf.float32),
      }

  module = Answers()
  signatures = {evaluation.SIGNATURE: module.serve, evaluation.PREPROCESSING: module.masks}
  tf.saved_model.save(module, str(folder), signatures=signatures)
  return str(folder)


def _write(path) -> str:
  import tensorflow as tf

  def floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))

  with tf.io.TFRecordWriter(str(path)) as writer:
    for kind, label, p, xy, predicted in SAMPLES:
      features = {
        "kind": tf.train.Feature(bytes_list=tf.train.BytesList(value=[kind.encode()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        "p": floats([p]),
        "xy": floats(xy),
        "predicted": floats(predicted),
      }
      writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
  return str(path)


@pytest.fixture(scope="module")
def path(analysed) -> str:
  return analysed(_net())


def test_every_task_is_judged_on_the_samples_that_label_it(path):
  metrics = evaluation.read_metrics(_net(), path)
  # Three of the four neg and pos are right; both positives outrank one of two negatives
  # and 0.95 also the other: 3 of 4 pairs.
  assert metrics["yes"]["accuracy"] == pytest.approx(0.75)
  assert metrics["yes"]["auc"] == pytest.approx(0.75, abs=0.01)
  # |1.5-1|, 0, 0, |3-4| over four values.
  assert metrics["point"]["mean_absolute_error"] == pytest.approx(0.375)
  assert metrics["point"]["mean_squared_error"] == pytest.approx((0.25 + 1) / 4)
  assert evaluation.read_failures(_net(), path) == []


def test_a_kind_has_its_own_slice(path):
  assert evaluation.read_metrics(_net(), path, kind="neg")["yes"]["accuracy"] == pytest.approx(0.5)
  assert evaluation.read_metrics(_net(), path, kind="pos")["yes"]["accuracy"] == pytest.approx(1.0)


def test_a_slice_that_labels_no_sample_of_a_task_neither_blesses_nor_refuses(path):
  # In the slice "spot" accuracy is 0 or NaN, below any bound.
  assert evaluation.read_failures(_net(), path) == []
  spot = evaluation.read_metrics(_net(), path, kind="spot")["yes"]["accuracy"]
  assert np.isnan(spot) or spot == 0


def test_a_broken_bound_says_which_number_against_which_bound(analysed):
  net = _net(min_accuracy=0.8, max_error=0.3)
  assert sorted(evaluation.read_failures(net, analysed(net))) == [
    "point mean_absolute_error is 0.3750, must be at most 0.3",
    "yes accuracy is 0.7500, must be at least 0.8",
  ]


def test_an_unknown_metric_lists_the_known_ones():
  task = Task("t", Column("y", "float32"), ("neg",), Loss("x"), metrics=("rmse",))
  with pytest.raises(ValueError, match="no metric rmse; there is accuracy"):
    evaluation.eval_config(Net("n", (1, 1, 1), "a:b", (task,), PNET.mixture))
