"""The floor of any conversion: decoding, and nothing else."""

import cv2

from taskmix.examples.photos import load
from taskmix.sources.annotated import AnnotatedImage


def decode_all(images: list[AnnotatedImage]) -> int:
  """Decodes the images for nothing; returns how many."""
  cv2.setNumThreads(1)
  for image in images:
    load(image, max_pixels=10**9)
  return len(images)
