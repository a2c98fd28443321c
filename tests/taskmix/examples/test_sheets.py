import dataclasses

import numpy as np
from PIL import Image

from taskmix.examples.convert import convert
from taskmix.nets.mtcnn import PNET
from taskmix.spec import Conversion, Phases, Source

NET = dataclasses.replace(
  PNET,
  sources=(
    Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
    Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
  ),
  phases=Phases(eval_share=0.2),
)


def test_a_conversion_leaves_a_sheet_a_kind(tmp_path, demo):
  for name, compression in (("plain", "none"), ("gzip", "gzip")):
    manifest = convert(
      NET,
      data_root=str(demo),
      output=str(tmp_path / name),
      conversion=Conversion(compression=compression, shards=2),
      processes=1,
    )
    assert manifest.counts["train-pos"] > 40
  sheets = sorted(path.name for path in (tmp_path / "plain/contact_sheets").iterdir())
  assert sheets == ["landmark.png", "neg.png", "part.png", "pos.png"]
  sheet = np.asarray(Image.open(tmp_path / "plain/contact_sheets/pos.png"))
  # The green of the boxes, on the dark of the margins.
  assert (sheet == [60, 230, 90]).all(axis=-1).sum() > 1000
  for sheet in sheets:
    plain, packed = (tmp_path / name / "contact_sheets" / sheet for name in ("plain", "gzip"))
    assert plain.read_bytes() == packed.read_bytes()
