"""WIDER FACE's boxes and three landmark sets: the cascade from scratch.

    taskmix run --config wider_face --data ../shared/data

The data folder holds `wider/` (WIDER FACE, its lists split into train and devval),
`ibug/` (300-W: helen and afw) and `lfw_net_80px/` (CNN_FacePoint's LFW and NET
photos), each with five-point CSV files. devval evaluates and is never trained on.

Time: the training takes an hour on two cores (4, 14 and 36 minutes for P-, R- and O-Net at
the steps/s of docs/benchmarks/train.md), conversion and search for hard examples hours for
the whole set (docs/scale.md). Memory: 2.9 GiB, and what the
examples take, up to train.memory_budget_mib. Expect: at the released detector's settings,
an average precision of 0.5 or more on devval, or nothing is pushed.
"""

import dataclasses

from pipeline.config import Config, Stage
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.nets.mtcnn import ONET, PNET, RNET
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import CropRecipe, Net, Phases, Source, Training

_WIDER = "wider/WIDER_train/images"
_BOXES = ("neg", "pos", "part")

SOURCES = (
  Source("wider_train", "wider_face", "wider/wider_face_train_bbx_gt.txt", _WIDER, _BOXES, phase="train"),
  Source("wider_devval", "wider_face", "wider/wider_face_devval_bbx_gt.txt", _WIDER, _BOXES, phase="eval"),
  Source("helen", "landmark_csv", "ibug/helen_train_landmarks.csv", "ibug", ("landmark",)),
  Source("afw", "landmark_csv", "ibug/afw_landmarks.csv", "ibug", ("landmark",)),
  Source("lfw", "landmark_csv", "lfw_net_80px/lfw_5590_landmarks.csv", "lfw_net_80px", ("landmark",)),
  Source("net", "landmark_csv", "lfw_net_80px/net_7876_landmarks.csv", "lfw_net_80px", ("landmark",)),
)

# Of the landmark sets, whose photos have no phase of their own.
PHASES = Phases(eval_share=0.05)

AUGMENT = ("mirror", "brightness", "contrast", "hue")


def stage(net: Net, *, batch_size: int, steps: int, init_weights: str = "", rate: float = 1e-3) -> Stage:
  """A net of the cascade on these sources."""
  return Stage(
    dataclasses.replace(net, sources=SOURCES, phases=PHASES, recipe=CropRecipe(landmark_shifts=6)),
    Training(
      batch_size=batch_size,
      steps=steps,
      learning_rate=rate,
      augment=AUGMENT,
      init_weights=init_weights,
    ),
  )


CONFIG = Config(
  name="wider_face",
  stages=(
    stage(PNET, batch_size=896, steps=12_000),
    stage(RNET, batch_size=448, steps=5_000),
    stage(ONET, batch_size=448, steps=2_000),
  ),
  detection=DetectionPolicy(min_ap=0.5),
  serving=ServingPolicy(large_batch=8, answer_seconds=5.0),
  data="../shared/data",
)
