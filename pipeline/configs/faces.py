"""Your own photos: one folder with WIDER-style boxes and a landmark CSV.

    taskmix run --config faces --data DIR

DIR holds `bbx_gt.txt` (WIDER FACE text: every face of every photo), and
`landmarks.csv` (image, box, five points); image paths in both are relative to
DIR. A tenth of the photos, chosen by the hash of the picture, evaluates.

Time: the conversion takes a second for some 15 to 30 photos a net, the training an
hour and a half on two cores (80 s, 12 and 70 minutes for P-, R- and O-Net at 50.8, 5.8 and 0.9
steps/s, docs/benchmarks/train.md). Memory: 2.9 GiB for few photos, and what the
examples take, up to train.memory_budget_mib. Expect: the face accuracies of Zhang et
al. 2016, table I - 94.6, 95.4 and 95.4 % - for thousands of varied photos, less for fewer;
below 80 % the run stops.
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
