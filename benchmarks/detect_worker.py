"""One face detector in its own process and environment, fed photos over stdin.

Started by `benchmarks.detect`, never by hand. It imports nothing of taskmix, so
that it runs in a peer's environment too. It reads one JSON object a line,
`{"path": ..., "as": "bytes" | "pixels"}`, and answers with one:
`{"seconds": ..., "cpu_seconds": ..., "boxes": [[x1, y1, x2, y2]...], "scores": [...],
"points": [[10]...]}`. `{"report": true}` is answered with the peak memory in MiB.
"""

import argparse
import io
import json
import os
import sys
import time

import numpy as np


class Taskmix:
  """Our SavedModel, through TensorFlow alone."""

  def __init__(self, options):
    import tensorflow as tf

    self.loaded = tf.saved_model.load(options.model)
    self.tf, self.thresholds, self.min_face = tf, options.thresholds, options.min_face
    self.from_bytes = self.loaded.signatures["detect_with_options"]
    self.from_pixels = self.loaded.signatures["detect_image_with_options"]
    self.options = {
      "thresholds": tf.constant(options.thresholds, tf.float32),
      "min_face": tf.constant(options.min_face, tf.float32),
      "factor": tf.constant(options.factor, tf.float32),
    }

  def detect(self, photo):
    if isinstance(photo, bytes):
      found = self.from_bytes(images=self.tf.constant([photo]), **self.options)
      found = {name: values.numpy()[0] for name, values in found.items()}
      n = int(found["count"])
      return found["boxes"][:n], found["scores"][:n], found["landmarks"][:n].reshape(n, 10)
    found = self.from_pixels(image=self.tf.constant(photo), **self.options)
    boxes = found["boxes"].numpy()
    return boxes, found["scores"].numpy(), found["landmarks"].numpy().reshape(len(boxes), 10)


class Mtcnn:
  """The PyPI package mtcnn."""

  def __init__(self, options):
    from mtcnn import MTCNN  # pyright: ignore[reportMissingImports]

    self.model = MTCNN()
    p, r, o = options.thresholds
    self.options = {
      "threshold_pnet": p,
      "threshold_rnet": r,
      "threshold_onet": o,
      "min_face_size": options.min_face,
      "scale_factor": options.factor,
      "fit_to_image": False,
      "box_format": "xyxy",
      "output_type": "numpy",
    }

  def detect(self, photo):
    found = self.model.detect_faces(photo, **self.options)
    points = found[:, 6:16].reshape(-1, 2, 5).transpose(0, 2, 1).reshape(-1, 10)
    return found[:, 1:5], found[:, 5], points


class Facenet:
  """The PyPI package facenet-pytorch."""

  def __init__(self, options):
    from facenet_pytorch import MTCNN  # pyright: ignore[reportMissingImports]

    self.model = MTCNN(
      keep_all=True,
      min_face_size=options.min_face,
      thresholds=list(options.thresholds),
      factor=options.factor,
      device="cpu",
    )

  def detect(self, photo):
    from PIL import Image

    if isinstance(photo, bytes):
      photo = Image.open(io.BytesIO(photo)).convert("RGB")
    boxes, scores, points = self.model.detect(photo, landmarks=True)
    if boxes is None:
      return np.zeros((0, 4)), np.zeros(0), np.zeros((0, 10))
    return (
      np.asarray(boxes, float),
      np.asarray(scores, float),
      np.asarray(points, float).reshape(len(boxes), 10),
    )


DETECTORS = {"taskmix": Taskmix, "mtcnn": Mtcnn, "facenet": Facenet}


def read_photo(path, kind):
  """The photo as encoded bytes, or as uint8 [h, w, 3] RGB."""
  with open(path, "rb") as file:
    encoded = file.read()
  if kind == "bytes":
    return encoded
  from PIL import Image

  return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))


def peak_memory():
  """The most memory that this process has held, in MiB.

  Not getrusage's maxrss: a process starts with that of the one that forked it.
  """
  with open("/proc/self/status") as file:
    (line,) = (line for line in file if line.startswith("VmHWM:"))
  return int(line.split()[1]) / 1024


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("detector", choices=DETECTORS)
  parser.add_argument("--model", default="")
  parser.add_argument("--thresholds", type=float, nargs=3, default=(0.6, 0.7, 0.7))
  parser.add_argument("--min-face", type=float, default=20)
  parser.add_argument("--factor", type=float, default=0.709)
  options = parser.parse_args()
  # Libraries chat on stdout; the answers get a stream of their own.
  answers = os.fdopen(os.dup(1), "w", buffering=1)
  os.dup2(2, 1)
  detector = DETECTORS[options.detector](options)
  answers.write("{}\n")
  for line in sys.stdin:
    request = json.loads(line)
    if request.get("report"):
      answers.write(json.dumps({"peak_memory_mib": peak_memory()}) + "\n")
      continue
    photo = read_photo(request["path"], request["as"])
    start, cpu_start = time.perf_counter(), time.process_time()
    boxes, scores, points = detector.detect(photo)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    answer = {
      "seconds": seconds,
      "cpu_seconds": cpu_seconds,
      "boxes": boxes.tolist(),
      "scores": scores.tolist(),
      "points": points.tolist(),
    }
    answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
  main()
