"""Your own photos: one folder with WIDER-style boxes and a landmark CSV.

    taskmix run --config faces --data DIR

DIR holds `bbx_gt.txt` (WIDER FACE text: every face of every photo), and
`landmarks.csv` (image, box, five points); image paths in both are relative to
DIR. A tenth of the photos, chosen by the hash of the picture, evaluates.
"""

import dataclasses

from pipeline.config import Config, Stage
from taskmix.nets.mtcnn import ONET, PNET, RNET
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import Net, Source, Training

SOURCES = (
  Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
  Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
)


def _stage(net: Net, *, batch_size: int, steps: int) -> Stage:
  return Stage(dataclasses.replace(net, sources=SOURCES), Training(batch_size=batch_size, steps=steps))


CONFIG = Config(
  name="faces",
  stages=(
    _stage(PNET, batch_size=896, steps=4000),
    _stage(RNET, batch_size=448, steps=4000),
    _stage(ONET, batch_size=448, steps=4000),
  ),
  data=".",
  # Of whole photos, so fewer and slower than of crops.
  serving=ServingPolicy(large_batch=8, answer_seconds=5.0),
)
