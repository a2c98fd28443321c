"""Your own photos: one folder with WIDER-style boxes and a landmark CSV.

    taskmix run --config faces --data DIR

DIR holds `bbx_gt.txt` (WIDER FACE text: every face of every photo), and
`landmarks.csv` (image, box, five points); image paths in both are relative to
DIR. A tenth of the photos, chosen by the hash of the picture, evaluates.
"""

import dataclasses

from pipeline.config import Config
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Conversion, Source, Training

SOURCES = (
  Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
  Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
)

CONFIG = Config(
  name="faces",
  net=dataclasses.replace(PNET, sources=SOURCES),
  training=Training(batch_size=896, steps=4000),
  conversion=Conversion(),
  data=".",
)
