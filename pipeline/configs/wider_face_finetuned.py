"""The released MTCNN weights, trained on with WIDER FACE's boxes and three landmark sets.

    pip install taskmix[import]
    taskmix import-weights released
    taskmix run --config wider_face_finetuned --data ../shared/data

The data is that of `wider_face`. The released weights are looked for in the folder
`released` below the one in which the command is started; --set pnet.train.init_weights=FILE
(and rnet, onet) names others. The released detector is the reference that the evaluation
draws beside this one.

Time: 37 minutes on two cores. Memory: as `wider_face`. Expect: an average precision on
devval of 0.878, the released detector's is 0.874 (docs/benchmarks/wider.md); below that
nothing is pushed.
"""

import dataclasses

from pipeline.configs import wider_face
from pipeline.configs.wider_face import stage
from taskmix.nets.mtcnn import ONET, PNET, RNET

CONFIG = dataclasses.replace(
  wider_face.CONFIG,
  name="wider_face_finetuned",
  stages=(
    # At 1e-4 the first two nets, which saw all of WIDER FACE before, lose faces to the few photos here.
    stage(PNET, batch_size=896, steps=1_000, rate=1e-5, init_weights="released/pnet.weights.h5"),
    stage(RNET, batch_size=448, steps=500, rate=1e-5, init_weights="released/rnet.weights.h5"),
    stage(ONET, batch_size=448, steps=1_000, rate=1e-4, init_weights="released/onet.weights.h5"),
  ),
  detection=dataclasses.replace(wider_face.DETECTION, min_share_of_reference=1.0),
  reference="released/detector",
)
