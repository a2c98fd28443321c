"""Photos a second of our detector against mtcnn 1.0.0 and facenet-pytorch 2.6.0.

    python -m benchmarks.detect [--photos FOLDER] [--limit N] [--cores 0,1]

All three run the same released weights with the same thresholds, smallest face
and pyramid factor, each in its own process and environment. Photos are asked for
one at a time and in turn: a photo goes to each detector before the next one is
read, so that whatever else the machine does meets all alike. A request is the
photo's encoded bytes, as a service gets it; decoding is part of the time.

The last line is JSON: photos_per_s, mtcnn_photos_per_s, facenet_photos_per_s,
ratio_faster_peer, and p50, p99, processor time a photo and peak memory of each.
"""

import argparse
import json
import pathlib
import sys
import tempfile
from collections.abc import Sequence

import numpy as np

from benchmarks.detect_peers import Detections, Worker, environment, released_package

REPOSITORY = pathlib.Path(__file__).parent.parent
SUFFIXES = {".jpg", ".jpeg", ".png"}


def main(argv: Sequence[str] | None = None) -> None:
  parser = argparse.ArgumentParser(description="Photos a second, against mtcnn and facenet-pytorch.")
  parser.add_argument("--photos", type=pathlib.Path, nargs="*", help="folders; default: devval, and demo/")
  parser.add_argument("--limit", type=int, default=60, help="at most so many photos, evenly from all")
  parser.add_argument("--rounds", type=int, default=2, help="timed passes over the photos")
  parser.add_argument("--given", choices=("bytes", "pixels"), default="bytes")
  parser.add_argument("--cores", default="", help="for taskset, such as 0,1; default: all")
  parser.add_argument("--model", type=pathlib.Path, help="a saved detector; default: the released weights")
  arguments = parser.parse_args(argv)
  photos = chosen(find_photos(arguments.photos or default_folders()), arguments.limit)
  with tempfile.TemporaryDirectory() as scratch:
    model = arguments.model or saved_release(pathlib.Path(scratch) / "detector")
    workers = {
      "taskmix": Worker("taskmix", sys.executable, ["--model", str(model)], cores=arguments.cores),
      "mtcnn": Worker("mtcnn", environment("mtcnn"), cores=arguments.cores),
      "facenet": Worker("facenet", environment("facenet"), cores=arguments.cores),
    }
    timed = ask_in_turn(list(workers.values()), photos, arguments.rounds, arguments.given)
    memory = {name: worker.close() for name, worker in workers.items()}
  print(f"{len(photos)} photos as {arguments.given}, {arguments.rounds} times each, one at a time")
  print(json.dumps(report(timed, memory, len(photos))))


def default_folders() -> list[pathlib.Path]:
  """WIDER's held-out development photos where they are, and the demo's."""
  wider = REPOSITORY.parent / "shared" / "data" / "wider"
  return [*([wider] if wider.is_dir() else []), REPOSITORY / "demo"]


def find_photos(folders: Sequence[pathlib.Path]) -> list[pathlib.Path]:
  """Photos below the folders, by name; of WIDER's only those of its devval list."""
  photos = []
  for folder in folders:
    listed = folder / "wider_face_devval_bbx_gt.txt"
    if listed.is_file():
      lines = (line.strip() for line in listed.read_text().splitlines())
      photos += [folder / "WIDER_train" / "images" / line for line in lines if line.endswith(".jpg")]
    else:
      photos += sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
  if not photos:
    raise SystemExit(f"no photos ({', '.join(sorted(SUFFIXES))}) below {', '.join(map(str, folders))}")
  return photos


def chosen(photos: list[pathlib.Path], limit: int) -> list[pathlib.Path]:
  """At most `limit` of them, evenly spaced."""
  at = np.linspace(0, len(photos) - 1, min(limit, len(photos))).round().astype(int)
  return [photos[index] for index in at]


def saved_release(folder: pathlib.Path) -> pathlib.Path:
  """Our SavedModel with the released weights."""
  from taskmix.faces.import_weights import released_detector

  released_detector(package=released_package()).save(folder)
  return folder


def ask_in_turn(
  workers: list[Worker], photos: list[pathlib.Path], rounds: int, given: str
) -> dict[str, list[Detections]]:
  """The answers of every timed round, by detector.

  A round that is not timed goes first: graphs are traced and caches filled.
  """
  answers: dict[str, list[Detections]] = {worker.name: [] for worker in workers}
  for turn in range(rounds + 1):
    for index, photo in enumerate(photos):
      # Each goes first as often as the others.
      first = (index + turn) % len(workers)
      for worker in workers[first:] + workers[:first]:
        answer = worker.detect(photo, given=given)
        if turn:
          answers[worker.name].append(answer)
  return answers


def report(answers: dict[str, list[Detections]], memory: dict[str, float], photos: int) -> dict[str, float]:
  """Prints the table; the figures of the last line."""
  print(f"{'':10}{'photos/s':>10}{'p50 ms':>10}{'p99 ms':>10}{'cpu ms':>10}{'peak MiB':>10}{'faces':>8}")
  figures: dict[str, float] = {}
  for name, given in answers.items():
    seconds = [answer.seconds for answer in given]
    rate = len(seconds) / sum(seconds)
    p50, p99 = (1000 * float(np.quantile(seconds, q)) for q in (0.5, 0.99))
    cpu = 1000 * float(np.mean([answer.cpu_seconds for answer in given]))
    faces = sum(len(answer.boxes) for answer in given[:photos])
    print(f"{name:10}{rate:10.2f}{p50:10.1f}{p99:10.1f}{cpu:10.1f}{memory[name]:10.0f}{faces:8d}")
    prefix = "" if name == "taskmix" else f"{name}_"
    figures |= {
      f"{prefix}photos_per_s": round(rate, 3),
      f"{prefix}p50_ms": round(p50, 2),
      f"{prefix}p99_ms": round(p99, 2),
      f"{prefix}cpu_ms": round(cpu, 2),
      f"{prefix}peak_memory_mib": round(memory[name]),
    }
  faster = max(figures["mtcnn_photos_per_s"], figures["facenet_photos_per_s"])
  return figures | {"ratio_faster_peer": round(figures["photos_per_s"] / faster, 3)}


if __name__ == "__main__":
  main()
