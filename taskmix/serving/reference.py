"""What the Trainer's model answers: what the served one is compared with.

Where taskmix exported the model, its weights lie beside the graph: the Keras
model is made again from them, so that a graph which computes something else
than the model that was trained is found. Elsewhere, and for signatures that the
Keras model has no part in, the SavedModel answers for itself, loaded in Python
rather than by a server.
"""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from taskmix.serving.questions import Question, from_examples
from taskmix.serving.signatures import Signature, read_signatures
from taskmix.serving.warm_up import Answer


def answers(model: str | os.PathLike, questions: Sequence[Question]) -> list[Answer]:
  """Output -> array for each question, from this process and its CPU.

  Raises:
    ValueError: if the model cannot be loaded here, or does not answer.
  """
  import tensorflow as tf

  signatures = read_signatures(model)
  with tf.device("/CPU:0"):
    # Loaded first, and always: what is broken should be told by its file.
    loaded = _load(model)
    trained = _trained_answers(model, signatures, questions)
    return [
      trained[index] if index in trained else _ask(loaded, signatures[question.signature], question)
      for index, question in enumerate(questions)
    ]


def _load(model: str | os.PathLike):
  import tensorflow as tf

  try:
    return tf.saved_model.load(str(model))
  except Exception as error:  # A broken file surfaces as anything from IndexError to OpError.
    raise ValueError(f"the SavedModel {model} cannot be loaded: {_first_line(error)}") from error


def _ask(loaded, signature: Signature, question: Question) -> Answer:
  import tensorflow as tf

  # Loaded in Python, a signature wants the inputs with a default as well.
  inputs = {**signature.defaults, **question.inputs}
  try:
    outputs = loaded.signatures[signature.name](**{key: tf.constant(value) for key, value in inputs.items()})
  except tf.errors.OpError as error:
    raise ValueError(
      f"the Trainer's own model does not answer {question.about} to {signature.name!r}: {_first_line(error)}"
    ) from error
  return {key: value.numpy() for key, value in outputs.items()}


def _trained_answers(
  model: str | os.PathLike, signatures: Mapping[str, Signature], questions: Sequence[Question]
) -> dict[int, Answer]:
  """Question's place -> what the Keras model answers; {} if the model was exported by something else."""
  from taskmix.model import serving

  by_image = signatures.get(serving.SERVE_IMAGES)
  if by_image is None:
    return {}
  try:
    trained = serving.load(str(model))
  except ValueError:
    return {}
  found = {}
  for index, question in enumerate(questions):
    image = _image(question, by_image)
    if image is not None:
      outputs = trained.served(trained.model(image, training=False))
      found[index] = {name: np.asarray(value) for name, value in outputs.items()}
  return found


def _image(question: Question, by_image: Signature) -> np.ndarray | None:
  """The pictures that a question is about, as the signature that takes pictures would have them."""
  from taskmix.model import serving

  if question.signature == serving.SERVE_IMAGES:
    inputs = question.inputs
  elif question.signature == serving.SERVE_EXAMPLES:
    (records,) = question.inputs.values()
    inputs = from_examples(by_image, list(records)) or {}
  else:
    return None
  return inputs.get("image")


def _first_line(error: Exception) -> str:
  text = str(error).removeprefix("Graph execution error:").strip()
  return text.splitlines()[0] if text else type(error).__name__
