"""The warm-up file of a SavedModel: real requests, and the answers they should get.

TF Serving replays `assets.extra/tf_serving_warmup_requests`, a TFRecord of
PredictionLog, before it serves a version, so that no client waits for the first
call of a graph. It reads the requests alone; taskmix keeps the answers in the
same records, so that the check can tell whether the pushed model still answers
as the model in the Trainer's memory did.
"""

import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from taskmix.serving.questions import Question

WARM_UP = pathlib.PurePosixPath("assets.extra/tf_serving_warmup_requests")

# TF Serving refuses to load a model with more.
MAX_RECORDS = 1000

Answer = Mapping[str, np.ndarray]


def write_warm_up(
  model: str | os.PathLike,
  questions: Sequence[Question],
  *,
  answers: Sequence[Answer] | None = None,
  name: str = "model",
) -> pathlib.Path:
  """Writes the warm-up file of a SavedModel.

  Args:
    model: the SavedModel's folder.
    questions: good requests; a few of small batches for each signature.
    answers: what each must give, paired with `questions`: output -> array. A
      Trainer that writes its model in memory's answers here has the pushed
      graph compared with them.
    name: the model's, in the requests; TF Serving ignores it.

  Returns:
    The file's path.

  Raises:
    ValueError: on more requests than TF Serving takes.
  """
  import tensorflow as tf

  if len(questions) > MAX_RECORDS:
    raise ValueError(f"{len(questions)} warm-up requests; TF Serving takes at most {MAX_RECORDS}")
  path = pathlib.Path(model, WARM_UP)
  path.parent.mkdir(parents=True, exist_ok=True)
  with tf.io.TFRecordWriter(str(path)) as writer:
    for index, question in enumerate(questions):
      writer.write(_log(question, answers[index] if answers else {}, name).SerializeToString())
  return path


def read_warm_up(model: str | os.PathLike) -> list[tuple[Question, Answer]]:
  """The requests of a model's warm-up file with their answers; {} where none is kept.

  Raises:
    ValueError: if the file is broken.
  """
  import tensorflow as tf
  from google.protobuf.message import DecodeError
  from tensorflow_serving.apis import prediction_log_pb2

  path = pathlib.Path(model, WARM_UP)
  if not path.is_file():
    return []
  try:
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    logs = [prediction_log_pb2.PredictionLog.FromString(record).predict_log for record in records]
  except (tf.errors.OpError, DecodeError) as error:
    raise ValueError(f"the warm-up file {path} is broken: {error}") from None
  return [
    (
      Question(
        f"warm-up request {index}",
        log.request.model_spec.signature_name,
        {key: tf.make_ndarray(value) for key, value in log.request.inputs.items()},
      ),
      {key: tf.make_ndarray(value) for key, value in log.response.outputs.items()},
    )
    for index, log in enumerate(logs)
  ]


def _log(question: Question, answer: Answer, name: str):
  import tensorflow as tf
  from tensorflow_serving.apis import prediction_log_pb2

  log = prediction_log_pb2.PredictionLog()
  for spec in (
    log.predict_log.request.model_spec,
    *([log.predict_log.response.model_spec] if answer else ()),
  ):
    spec.name = name
    spec.signature_name = question.signature
  for key, value in question.inputs.items():
    log.predict_log.request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
  for key, value in answer.items():
    log.predict_log.response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
  return log
