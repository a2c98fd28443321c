"""Runs of the command `taskmix` on a few drawn photos, in seconds each."""

import pathlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

SIDE = 180
TRAIN, EVAL = 10, 4

CONFIG = '''
"""A P-Net on drawn faces; `STEPS` and `BOUNDS` are the test's."""
import dataclasses
from pipeline.config import Config, Stage
from taskmix.evaluation import EvaluationPolicy
from taskmix.gates import GatePolicy, Limit
from taskmix.nets.mtcnn import PNET
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import Bound, Conversion, CropRecipe, Phases, Source, Training

face, *others = PNET.tasks
CONFIG = Config(
  name="drawn",
  stages=(
    Stage(
      dataclasses.replace(
        PNET,
        tasks=(
          dataclasses.replace(face, bounds=(Bound("accuracy", **BOUND),)),
          *(dataclasses.replace(task, bounds=()) for task in others),
        ),
        sources=(
          Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
          Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
        ),
        phases=Phases(eval_share=0, eval_images=EVAL_PHOTOS),
        recipe=CropRecipe(random_negatives=20, tries_per_face=10, landmark_shifts=4),
      ),
      Training(batch_size=56, **TRAINING),
    ),
  ),
  conversion=Conversion(**CONVERSION),
  gate=GatePolicy(**GATE),
  evaluation=EvaluationPolicy(**EVALUATION),
  serving=ServingPolicy(**{"server": "loopback", "large_batch": 16, "examples": 8, **SERVING}),
)
'''


@pytest.fixture(scope="session")
def draw_photos() -> Callable[[pathlib.Path], pathlib.Path]:
  """Draws the photos and their annotations into a new folder."""
  return _draw_photos


def _draw_photos(folder: pathlib.Path) -> pathlib.Path:
  folder.mkdir()
  boxes, points = [], ["image,x1,y1,x2,y2,lex,ley,rex,rey,nx,ny,lmx,lmy,rmx,rmy"]
  for number in range(TRAIN + EVAL):
    name = f"{number:02d}.jpg"
    rng = np.random.default_rng(number)
    noise = rng.integers(0, 256, (6, 6, 3), np.uint8)
    photo = Image.fromarray(noise).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    faces = [_draw_face(photo, rng, place) for place in range(2)]
    photo.filter(ImageFilter.GaussianBlur(0.5)).save(folder / name, quality=90)
    boxes += [name, str(len(faces)), *(f"{x} {y} {w} {w} 0 0 0 0 0 0" for x, y, w in faces)]
    for x, y, w in faces:
      marks = [(0.3, 0.35), (0.7, 0.35), (0.5, 0.55), (0.35, 0.75), (0.65, 0.75)]
      values = [x, y, x + w, y + w, *(value for a, b in marks for value in (x + a * w, y + b * w))]
      points.append(",".join([name, *(f"{value:.2f}" for value in values)]))
  (folder / "bbx_gt.txt").write_text("\n".join(boxes) + "\n")
  (folder / "landmarks.csv").write_text("\n".join(points) + "\n")
  return folder


def _draw_face(photo: Image.Image, rng: np.random.Generator, place: int) -> tuple[int, int, int]:
  """A bright disc with eyes and a mouth in the photo's left or right half; its box as x, y, side."""
  side = int(rng.integers(26, 84))
  x, y = place * SIDE // 2 + 3, int(rng.integers(2, SIDE - side - 2))
  draw = ImageDraw.Draw(photo)
  draw.ellipse((x, y, x + side, y + side), fill=(235, 215, 190))
  for a, b, r in ((0.3, 0.35, 0.09), (0.7, 0.35, 0.09)):
    draw.ellipse(
      (x + (a - r) * side, y + (b - r) * side, x + (a + r) * side, y + (b + r) * side), fill=(30, 20, 20)
    )
  draw.line((x + 0.35 * side, y + 0.75 * side, x + 0.65 * side, y + 0.75 * side), (150, 40, 40), 3)
  return x, y, side


@pytest.fixture(scope="session")
def write_config() -> Callable[..., pathlib.Path]:
  """write_config(path, training={"steps": 20}, bound={"min": 0}, ...) writes the config there."""

  def write(path: pathlib.Path, **settings: dict) -> pathlib.Path:
    defaults = {
      "training": {"steps": 20, "checkpoint_every": 10, "steps_per_execution": 5},
      "bound": {"min": 0.0},
      "conversion": {},
      "gate": {},
      "evaluation": {},
      "serving": {},
    }
    text = CONFIG.replace("EVAL_PHOTOS", repr(tuple(f"{TRAIN + number:02d}.jpg" for number in range(EVAL))))
    for name, value in {**defaults, **settings}.items():
      text = text.replace(f"**{name.upper()}", f"**{value!r}")
    path.write_text(text)
    return path

  return write
