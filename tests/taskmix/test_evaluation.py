"""TFMA, told by the Net alone, gives the numbers that hand calculation gives."""

import functools

import numpy as np
import pytest

from taskmix import evaluation
from taskmix.evaluation import EvaluationPolicy
from taskmix.model.serving import slice_names
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Bound, Column, Loss, Mixture, Net, SampleKind, Task

# Six samples: kinds neg and pos label the class, kind spot labels the point.
#          kind    class  P(yes)   point   predicted  size
SAMPLES = (
  ("neg", 0, 0.2, (9.0, 9.0), (0.0, 0.0), 39.5),
  ("neg", 0, 0.9, (9.0, 9.0), (0.0, 0.0), 40.0),  # wrong
  ("pos", 1, 0.8, (9.0, 9.0), (0.0, 0.0), 0.0),
  ("pos", 1, 0.95, (9.0, 9.0), (0.0, 0.0), 41.0),
  ("spot", 0, 0.99, (1.0, 2.0), (1.5, 2.0), 100.0),  # labels no class
  ("spot", 0, 0.99, (3.0, 4.0), (3.0, 3.0), 80.0),
)


def _net(*, min_accuracy=0.7, max_error=0.5, max_worsening: float | None = 0.02) -> Net:
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
        bounds=(Bound("accuracy", min=min_accuracy, max_worsening=max_worsening),),
      ),
      Task(
        "point",
        Column("xy", "float32", (2,)),
        ("spot",),
        Loss("mean_squared_error"),
        metrics=("mean_absolute_error", "mean_squared_error"),
        bounds=(Bound("mean_absolute_error", max=max_error, max_worsening=max_worsening),),
      ),
    ),
    mixture=Mixture((SampleKind("neg", 1), SampleKind("pos", 1), SampleKind("spot", 1))),
    context=(Column("size", "float32", slices=(40.0, 80.0)),),
  )


@pytest.fixture(scope="module")
def analysed(tmp_path_factory):
  """A function that runs TFMA on the samples, as TFX's Evaluator does, and gives the result's folder.

  With `baseline`, the last blessed model has so much of every error mended: 1 is
  perfect, -1 doubles the errors.
  """
  folder = tmp_path_factory.mktemp("evaluation")
  examples = _write(folder / "examples.tfrecord")
  models: dict[float, str] = {}

  def model(mended: float) -> str:
    if mended not in models:
      models[mended] = _export(folder / f"model{len(models)}", mended)
    return models[mended]

  # Several tests look at one result, and each takes seconds.
  @functools.cache
  def analyse(net: Net, policy: EvaluationPolicy | None = None, *, baseline: float | None = None) -> str:
    import tensorflow_model_analysis as tfma

    out = str(folder / f"out{len(list(folder.iterdir()))}")
    config = tfma.utils.update_eval_config_with_defaults(
      evaluation.eval_config(net, policy or EvaluationPolicy()),
      has_baseline=baseline is not None,
      rubber_stamp=True,
    )
    shared = [
      tfma.default_eval_shared_model(
        model(baseline if spec.is_baseline and baseline is not None else 0.0),
        model_name=spec.name,
        eval_config=config,
      )
      for spec in config.model_specs
    ]
    tfma.run_model_analysis(
      eval_shared_model=shared if len(shared) > 1 else shared[0],
      eval_config=config,
      data_location=examples,
      output_path=out,
    )
    return out

  return analyse


def _export(folder, mended: float) -> str:
  import tensorflow as tf

  spec = {
    "kind": tf.io.FixedLenFeature([], tf.string),
    "p": tf.io.FixedLenFeature([1], tf.float32),
    "predicted": tf.io.FixedLenFeature([2], tf.float32),
    "size": tf.io.FixedLenFeature([], tf.float32),
    "xy": tf.io.FixedLenFeature([2], tf.float32),
    "label": tf.io.FixedLenFeature([1], tf.int64),
  }
  (size,) = _net().context

  class Answers(tf.Module):
    """Reads its predictions from the examples, so that they are known."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
      parsed = tf.io.parse_example(examples, spec)
      p = parsed["p"] + mended * (tf.cast(parsed["label"], tf.float32) - parsed["p"])
      point = parsed["predicted"] + mended * (parsed["xy"] - parsed["predicted"])
      return {"yes": tf.concat([1 - p, p], 1), "point": point}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def masks(self, examples):
      parsed = tf.io.parse_example(examples, spec)
      kind = parsed["kind"]
      return {
        "size_slice": slice_names(size, parsed["size"]),
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
    for kind, label, p, xy, predicted, size in SAMPLES:
      features = {
        "kind": tf.train.Feature(bytes_list=tf.train.BytesList(value=[kind.encode()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        "p": floats([p]),
        "xy": floats(xy),
        "predicted": floats(predicted),
        "size": floats([size]),
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


def test_slices_of_a_column_are_half_open_and_told_apart(path):
  found = evaluation.read_slices(_net(), path)
  assert list(found) == [
    ("", ""),
    ("kind", "neg"),
    ("kind", "pos"),
    ("kind", "spot"),
    ("size", "under 40"),
    ("size", "40 to 80"),
    ("size", "80 and over"),
  ]
  # 39.5 and 0 are under 40, both right; of 40 and 41 one is.
  assert found["size", "under 40"]["yes"]["accuracy"] == pytest.approx(1.0)
  assert found["size", "40 to 80"]["yes"]["accuracy"] == pytest.approx(0.5)
  assert found["size", "80 and over"]["point"]["mean_absolute_error"] == pytest.approx(0.375)
  assert [found["size", name]["yes"]["example_count"] for name in ("under 40", "40 to 80")] == [2, 2]


@pytest.mark.parametrize("baseline", [None, 0.0])
def test_a_fully_masked_slice_never_blesses_or_refuses(analysed, baseline):
  # No sample of 80 and over labels the class, none under 80 the point: there, every
  # metric is 0 or NaN, and bounds that hold overall must not care.
  held, broken = _net(), _net(min_accuracy=0.8, max_worsening=None)
  path = analysed(held, baseline=baseline)
  masked = evaluation.read_slices(held, path)["size", "80 and over"]["yes"]
  assert masked["example_count"] == 0 and not masked["accuracy"] > 0
  assert evaluation.read_failures(held, path) == []
  # Nor does a slice that is all right make up for one number that is not.
  assert evaluation.read_failures(broken, analysed(broken, baseline=baseline)) == [
    "yes accuracy is 0.7500, must be at least 0.8"
  ]


def test_a_model_worse_than_the_last_blessed_one_is_refused_with_both_numbers(analysed):
  # Half of every error mended: P(yes) 0.9 of a "no" becomes 0.45, and errors are halved.
  path = analysed(_net(), baseline=0.5)
  assert evaluation.read_metrics(_net(), path)["yes"]["accuracy"] == pytest.approx(0.75)
  before = evaluation.read_baseline(_net(), path)
  assert before and before["yes"]["accuracy"] == pytest.approx(1.0)
  assert before["point"]["mean_absolute_error"] == pytest.approx(0.1875)
  assert sorted(evaluation.read_failures(_net(), path)) == [
    "point mean_absolute_error is 0.3750, the last blessed model's 0.1875: worse by 0.1875, "
    "may be by 0.02 at most",
    "yes accuracy is 0.7500, the last blessed model's 1.0000: worse by 0.2500, may be by 0.02 at most",
  ]


@pytest.mark.parametrize(("max_worsening", "baseline"), [(0.02, -0.2), (0.02, 0.0), (0.3, 0.5), (None, 0.5)])
def test_a_model_no_worse_than_its_bound_allows_is_blessed(analysed, max_worsening, baseline):
  net = _net(max_worsening=max_worsening)
  path = analysed(net, baseline=baseline)
  assert evaluation.read_failures(net, path) == []
  assert evaluation.read_metrics(net, path)["point"]["mean_absolute_error"] == pytest.approx(0.375)


def test_a_model_without_a_baseline_has_none(path):
  assert evaluation.read_baseline(_net(), path) is None


def test_a_policy_turns_broken_bounds_and_worsening_into_warnings(analysed):
  lenient = EvaluationPolicy(warn=("bounds", "worsening"))
  net = _net(min_accuracy=0.8, max_error=0.5)
  path = analysed(net, lenient, baseline=0.5)
  assert evaluation.read_failures(net, path) == []
  assert evaluation.read_warnings(net, path, lenient) == [
    "yes accuracy is 0.7500, must be at least 0.8",
    "yes accuracy is 0.7500, the last blessed model's 1.0000: worse by 0.2500, may be by 0.02 at most",
    "point mean_absolute_error is 0.3750, the last blessed model's 0.1875: worse by 0.1875, "
    "may be by 0.02 at most",
  ]
  assert evaluation.read_warnings(net, path, EvaluationPolicy()) == []
  # One of the two still refuses.
  half = EvaluationPolicy(warn=("worsening",))
  assert evaluation.read_failures(net, analysed(net, half, baseline=0.5)) == [
    "yes accuracy is 0.7500, must be at least 0.8"
  ]


def test_a_policy_of_no_check_lists_the_known_ones():
  with pytest.raises(ValueError, match="no check of an evaluation bound; there is bounds, worsening"):
    EvaluationPolicy(warn=("bound",))


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


def test_the_auc_of_many_classes_is_the_mean_over_one_against_the_rest(tmp_path):
  import tensorflow as tf
  import tensorflow_model_analysis as tfma

  net = Net(
    "toy",
    (1, 1, 1),
    "nowhere:none",
    (
      Task(
        "c",
        Column("label", "int64", classes=("a", "b", "c")),
        ("k",),
        Loss("softmax_cross_entropy"),
        metrics=("auc",),
        bounds=(Bound("auc", min=0.9),),
      ),
    ),
    Mixture((SampleKind("k", 1),)),
  )
  spec = {"p": tf.io.FixedLenFeature([3], tf.float32)}

  class Answers(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(self, examples):
      return {"c": tf.io.parse_example(examples, spec)["p"]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def masks(self, examples):
      return {"c_mask": tf.ones([tf.size(examples)])}

  module = Answers()
  signatures = {evaluation.SIGNATURE: module.serve, evaluation.PREPROCESSING: module.masks}
  tf.saved_model.save(module, str(tmp_path / "model"), signatures=signatures)
  samples = (
    (0, 0.8, 0.1, 0.1),
    (0, 0.2, 0.6, 0.2),
    (1, 0.1, 0.7, 0.2),
    (1, 0.3, 0.3, 0.4),
    (2, 0.1, 0.1, 0.8),
    (2, 0.5, 0.2, 0.3),
  )
  with tf.io.TFRecordWriter(str(tmp_path / "examples")) as writer:
    for label, *p in samples:
      example = tf.train.Example()
      example.features.feature["label"].int64_list.value.append(label)
      example.features.feature["p"].float_list.value.extend(p)
      example.features.feature["kind"].bytes_list.value.append(b"k")
      writer.write(example.SerializeToString())
  config = tfma.utils.update_eval_config_with_defaults(
    evaluation.eval_config(net), has_baseline=False, rubber_stamp=True
  )
  out = str(tmp_path / "out")
  tfma.run_model_analysis(
    eval_shared_model=tfma.default_eval_shared_model(str(tmp_path / "model"), eval_config=config),
    eval_config=config,
    data_location=str(tmp_path / "examples"),
    output_path=out,
  )
  # Of the 8 pairs each, "a" has 6 in order (0.8 and 0.2 against 0.1, 0.3, 0.1, 0.5), "b" 7
  # (0.7 and 0.3 against 0.1, 0.6, 0.1, 0.2), "c" 7 (0.8 and 0.3 against 0.1, 0.2, 0.2, 0.4).
  assert evaluation.read_metrics(net, out)["c"]["auc"] == pytest.approx((6 + 7 + 7) / 24, abs=1e-3)
  assert evaluation.read_failures(net, out) == ["c auc is 0.8333, must be at least 0.9"]
