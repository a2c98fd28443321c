"""Three label types on different images of CIFAR-10: the multi-task problem without faces.

    classed   half of the images: what is on it; nobody turned it or took its colour
    turned    a quarter: by how many quarter turns it was turned
    toned     a quarter: whether its colours were taken away

Which image is which is decided by the hash of its id, so the three are disjoint, and
no image has two labels. A batch holds them 2:1:1. All else follows from the Net.
"""

import dataclasses
from collections.abc import Iterator
from typing import Literal

import cv2
import numpy as np

from taskmix.examples.codec import Sample
from taskmix.examples.photos import load
from taskmix.keys import keyed_rng, stable_hash
from taskmix.nets.cifar10 import LABEL
from taskmix.sources import cifar10
from taskmix.sources.annotated import AnnotatedImage
from taskmix.spec import Bound, Column, Loss, Mixture, Net, SampleKind, Source, Task

KINDS = ("classed", "turned", "toned")

# Of four images two are classed, one is turned and one is toned.
_KIND_OF_QUARTER = ("classed", "classed", "turned", "toned")


def _task(name: str, classes: tuple[str, ...], kind: str, *, least: float) -> Task:
  return Task(
    name=name,
    target=Column(name, "int64", classes=classes),
    kinds=(kind,),
    loss=Loss("softmax_cross_entropy"),
    metrics=("accuracy",),
    bounds=(Bound("accuracy", min=least),),
  )


CIFAR10_TASKS = Net(
  name="cifar10_tasks",
  input_size=(32, 32, 3),
  backbone="taskmix.nets.cifar10:cnn",
  tasks=(
    dataclasses.replace(LABEL, kinds=("classed",)),
    _task("turn", ("none", "quarter", "half", "three_quarters"), "turned", least=0.3),
    _task("tone", ("colour", "grey"), "toned", least=0.75),
  ),
  mixture=Mixture((SampleKind("classed", 2), SampleKind("turned", 1), SampleKind("toned", 1))),
)


def _source(name: str, phase: Literal["train", "eval"]) -> Source:
  options = (("items", f"{__name__}:{name}_images"), ("function", f"{__name__}:make"))
  return Source(name, "python", ".", ".", KINDS, options=options, phase=phase)


SOURCES = (_source("train", "train"), _source("test", "eval"))


def train_images(annotations_path: str, images_root: str) -> Iterator[tuple[str, AnnotatedImage]]:
  """(id, image) of the training set."""
  return _images(annotations_path, images_root, "train")


def test_images(annotations_path: str, images_root: str) -> Iterator[tuple[str, AnnotatedImage]]:
  """(id, image) of the test set."""
  return _images(annotations_path, images_root, "test")


def _images(annotations_path: str, images_root: str, subset: str) -> Iterator[tuple[str, AnnotatedImage]]:
  for image in cifar10.read(annotations_path, images_root, subset=subset):
    yield image.image_id, image


def make(image: AnnotatedImage, image_id: str) -> Sample:
  """The sample of an image: its kind, and the one label that the kind has."""
  kind = _KIND_OF_QUARTER[stable_hash("kind", image_id) % len(_KIND_OF_QUARTER)]
  pixels = load(image, max_pixels=32 * 32)
  rng = keyed_rng("change", image_id)
  if kind == "classed":
    return Sample(pixels, kind, image_id, {"label": image.targets["label"]})
  if kind == "turned":
    turns = int(rng.integers(4))
    return Sample(np.ascontiguousarray(np.rot90(pixels, turns)), kind, image_id, {"turn": turns})
  grey = int(rng.integers(2))
  return Sample(_grey(pixels) if grey else pixels, kind, image_id, {"tone": grey})


def _grey(pixels: np.ndarray) -> np.ndarray:
  return cv2.cvtColor(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
