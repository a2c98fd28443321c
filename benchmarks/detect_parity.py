"""How nearly our graph with the released weights gives what mtcnn 1.0.0 finds.

    python -m benchmarks.detect_parity [--photos FOLDER...] [--rule greedy]

Both get the same decoded pixels. A box of the peer is matched where one of ours
overlaps it by an IoU of at least 0.95. The last line is JSON: photos, boxes,
ours, matched (share), and over the matched ones score_difference_max and
landmark_distance_median in pixels.
"""

import argparse
import dataclasses
import json
import pathlib
from collections.abc import Sequence

import numpy as np

from benchmarks.detect import chosen, default_folders, find_photos
from benchmarks.detect_peers import Detections, Worker, environment, released_package

MIN_IOU = 0.95


def main(argv: Sequence[str] | None = None) -> None:
  parser = argparse.ArgumentParser(description="Our detections against those of mtcnn 1.0.0.")
  parser.add_argument("--photos", type=pathlib.Path, nargs="*", help="folders; default: devval, and demo/")
  parser.add_argument("--limit", type=int, default=1000, help="at most so many photos, evenly from all")
  parser.add_argument("--rule", help="a rule of suppression other than the peer's")
  arguments = parser.parse_args(argv)
  from taskmix.faces import cascade
  from taskmix.faces.import_weights import released_detector

  convention = cascade.MTCNN_1_0_0
  if arguments.rule:
    convention = dataclasses.replace(convention, suppression=arguments.rule)
  detector = released_detector(package=released_package(), convention=convention)
  peer = Worker("mtcnn", environment("mtcnn"))
  photos = chosen(find_photos(arguments.photos or default_folders()), arguments.limit)
  boxes = ours = 0
  scores: list[float] = []
  distances: list[float] = []
  for photo in photos:
    expected, found = peer.detect(photo, given="pixels"), detector(_pixels(photo))
    boxes, ours = boxes + len(expected.boxes), ours + len(found["boxes"])
    for place, mine in _matched(expected, found["boxes"]):
      scores.append(abs(expected.scores[place] - float(found["scores"][mine])))
      points = np.reshape(expected.points[place], (5, 2))
      distances += np.linalg.norm(points - found["landmarks"][mine], axis=1).tolist()
    missed = {*range(len(expected.boxes))} - {place for place, _ in _matched(expected, found["boxes"])}
    for place in sorted(missed):
      print(
        f"{photo.name}: no match for {np.round(expected.boxes[place], 1)}, score {expected.scores[place]:.4f}"
      )
  peer.close()
  figures = {
    "photos": len(photos),
    "boxes": boxes,
    "ours": ours,
    "matched": round(len(scores) / max(boxes, 1), 5),
    "score_difference_max": round(max(scores, default=0.0), 5),
    "scores_within_0.01": round(float(np.mean(np.array(scores) <= 0.01)), 5) if scores else None,
    "landmark_distance_median": round(float(np.median(distances)), 5) if distances else None,
  }
  print(json.dumps(figures))


def _pixels(photo: pathlib.Path) -> np.ndarray:
  from PIL import Image

  return np.asarray(Image.open(photo).convert("RGB"))


def _matched(expected: Detections, boxes: np.ndarray) -> list[tuple[int, int]]:
  """Places of the peer's boxes that one of ours matches, with ours."""
  from taskmix.faces.geometry import iou_matrix

  if not expected.boxes or not len(boxes):
    return []
  iou = iou_matrix(np.asarray(expected.boxes, np.float32), boxes)
  best = iou.argmax(axis=1)
  return [(place, int(mine)) for place, mine in enumerate(best) if iou[place, mine] >= MIN_IOU]


if __name__ == "__main__":
  main()
