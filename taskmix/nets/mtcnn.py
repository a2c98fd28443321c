"""The three nets of MTCNN (Zhang et al. 2016, arXiv 1604.02878).

Each learns three tasks from crops that label only some of them: face or not
from negatives and positives, the box from positives and part faces, the five
points from landmark crops; 3:1:1:2 in every batch.
"""

import dataclasses

from taskmix.faces import geometry
from taskmix.spec import (
  Bound,
  Cascade,
  Column,
  CropRecipe,
  Loss,
  Mixture,
  Net,
  SampleKind,
  Task,
)

# Section II-C: part faces reach from 0.4 to 0.65, positives lie above; between
# 0.3 and 0.4 there is no sample.
MIXTURE = Mixture(
  (
    SampleKind("neg", 3, 0.0, 0.3, closed="left"),
    SampleKind("pos", 1, 0.65, 1.0, closed="right"),
    SampleKind("part", 1, 0.4, 0.65, closed="both"),
    SampleKind("landmark", 2),
  )
)

FACE = Task(
  name="face",
  target=Column("face", "int64", classes=("background", "face")),
  kinds=("neg", "pos"),
  loss=Loss("softmax_cross_entropy", keep_hardest=0.7),
  metrics=("accuracy", "auc"),
  bounds=(Bound("accuracy", min=0.80, max_worsening=0.03),),
)

# (face - crop) / crop side as x1, y1, x2, y2: 0 is a perfect crop. A long face whose IoU
# with the crop is a part's least reaches out of it by up to 1.5 of its sides.
_REACH = geometry.largest_offset(min(kind.min_iou for kind in MIXTURE.kinds if kind.min_iou))
BOX = Task(
  name="box",
  target=Column("box_offsets", "float32", (4,), low=-_REACH, high=_REACH, geometry="box"),
  kinds=("pos", "part"),
  loss=Loss("mean_squared_error"),
  loss_weight=0.5,
  metrics=("mean_absolute_error",),
  bounds=(Bound("mean_absolute_error", max=0.2, max_worsening=0.02),),
  standardize=True,
)

# (point - crop's corner) / crop side: left eye, right eye, nose, left and right
# mouth corner, each x, y; 0..1 inside the crop.
LANDMARK = Task(
  name="landmark",
  target=Column("landmarks", "float32", (10,), low=-1.0, high=2.0, geometry="points"),
  kinds=("landmark",),
  loss=Loss("mean_squared_error"),
  loss_weight=0.5,
  metrics=("mean_absolute_error",),
  bounds=(Bound("mean_absolute_error", max=0.2, max_worsening=0.02),),
  standardize=True,
)

# Where each crop comes from: for gates, slices and reports. Photo pixels. A crop
# that touches no face has face_size 0, and no kind but the negatives is cut from
# faces under the recipe's 20: the first slice is the backgrounds.
CONTEXT = (
  Column("crop", "float32", (4,)),
  Column("iou", "float32", low=0.0, high=1.0),
  Column("face_size", "float32", low=0.0, slices=(20.0, 40.0, 80.0)),
)


def _net(name: str, side: int, landmark_weight: float) -> Net:
  return Net(
    name=name,
    input_size=(side, side, 3),
    backbone=f"taskmix.model.backbones:{name}",
    tasks=(FACE, BOX, dataclasses.replace(LANDMARK, loss_weight=landmark_weight)),
    mixture=MIXTURE,
    recipe=CropRecipe(),
    context=CONTEXT,
  )


# Section II-C: the landmark weight is 0.5 in P-Net and R-Net, 1 in O-Net.
PNET = _net("pnet", 12, 0.5)
RNET = _net("rnet", 24, 0.5)
ONET = _net("onet", 48, 1.0)

MTCNN = Cascade("mtcnn", (PNET, RNET, ONET))
