"""WIDER FACE's boxes and three landmark sets: the cascade from scratch.

    taskmix run --config wider_face --data ../shared/data

The data folder holds `wider/` (WIDER FACE, its lists split into train and devval),
`ibug/` (300-W: helen and afw) and `lfw_net_80px/` (CNN_FacePoint's LFW and NET
photos), each with five-point CSV files. devval evaluates and is never trained on.

Time: of the 963 WIDER photos of a development set and 7,357 with landmarks, 74 minutes on
two cores that had other work; conversion and search for hard examples take hours for the
whole of WIDER FACE (docs/scale.md). Memory: 2.9 GiB, and what the examples take, up to
train.memory_budget_mib. Expect: an average precision on devval of 0.746, 0.853 of the
released detector's (docs/benchmarks/wider.md); below 0.5 nothing is pushed.
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


# P-Net sees every place of a photo; the nets behind it only what it lets through, so
# they learn from its false alarms, and from few crops that no net takes for a face.
_ANYWHERE = CropRecipe(landmark_shifts=3)
_BEHIND = dataclasses.replace(_ANYWHERE, random_negatives=15, near_negatives=3, mined_negatives=100)


def stage(net: Net, *, batch_size: int, steps: int, init_weights: str = "", rate: float = 1e-3) -> Stage:
  """A net of the cascade on these sources."""
  recipe = _ANYWHERE if net is PNET else _BEHIND
  return Stage(
    dataclasses.replace(net, sources=SOURCES, phases=PHASES, recipe=recipe),
    Training(
      batch_size=batch_size,
      steps=steps,
      learning_rate=rate,
      augment=AUGMENT,
      init_weights=init_weights,
    ),
  )


# Nets that learn from hard examples are sparing with high scores: at the policy's own
# thresholds their curves end at a precision of 0.6 to 0.8, and what comes after counts as missed.
DETECTION = DetectionPolicy(min_ap=0.5, thresholds=(0.3, 0.3, 0.1))

CONFIG = Config(
  name="wider_face",
  stages=(
    stage(PNET, batch_size=896, steps=12_000),
    stage(RNET, batch_size=448, steps=5_000),
    stage(ONET, batch_size=448, steps=1_500),
  ),
  detection=DETECTION,
  serving=ServingPolicy(large_batch=8, answer_seconds=5.0),
  data="../shared/data",
)
