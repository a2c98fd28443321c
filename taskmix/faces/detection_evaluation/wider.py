"""The official lists of WIDER FACE's validation photos: easy, medium and hard.

Each setting counts some of the faces and ignores the rest; the AP of a setting is
that of `match(rule="wider", inclusive=True)` and `precision_recall(steps=1000)`;
`evaluate(official=True)` does so.
"""

import pathlib

import numpy as np

from taskmix.faces.detection_evaluation.matching import Faces

WIDER_SETTINGS = ("easy", "medium", "hard")
WIDER_STEPS = 1000


def read_val_lists(folder: str | pathlib.Path, setting: str) -> dict[str, Faces]:
  """The truth of the validation photos in one setting.

  Args:
    folder: holds `wider_face_val.mat` and `wider_<setting>_val.mat`, of the
      dataset's eval_tools.
    setting: "easy", "medium" or "hard".

  Returns:
    image id, "event/photo.jpg" -> Faces; those that the setting leaves out are
    ignored.

  Raises:
    ValueError: on an unknown setting.
  """
  import scipy.io

  if setting not in WIDER_SETTINGS:
    raise ValueError(f"no setting {setting!r}; there is {', '.join(WIDER_SETTINGS)}")
  folder = pathlib.Path(folder)
  faces = scipy.io.loadmat(str(folder / "wider_face_val.mat"))
  counted = scipy.io.loadmat(str(folder / f"wider_{setting}_val.mat"))["gt_list"]
  truth = {}
  for event, (name,) in enumerate(faces["event_list"]):
    for photo, (file,) in enumerate(faces["file_list"][event, 0]):
      boxes = faces["face_bbx_list"][event, 0][photo, 0].astype(np.float32).reshape(-1, 4)
      # x, y, width, height.
      boxes = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
      ignore = np.ones(len(boxes), bool)
      # Counted from 1, as MATLAB does.
      ignore[counted[event, 0][photo, 0].ravel().astype(int) - 1] = False
      truth[f"{name[0]}/{file[0]}.jpg"] = Faces(boxes, ignore)
  return truth
