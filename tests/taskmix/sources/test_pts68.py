import json

import numpy as np
import pytest

from taskmix.sources import AnnotationError, landmark_csv, pts68


def _face():
  """68 points, counted from 0; all that matter are set by hand."""
  points = np.full((68, 2), [50.0, 60.0])
  points[36:42] = [[30, 40], [33, 38], [36, 38], [39, 40], [36, 42], [33, 42]]
  points[42:48] = points[36:42] + np.array([30, 1])
  points[30] = [49, 58]
  points[48], points[54] = [35, 75], [65, 76]
  points[8] = [50, 100]
  return points


FIVE = [[34.5, 40], [64.5, 41], [49, 58], [35, 75], [65, 76]]


def _pts(points):
  rows = "\n".join(f"{x:.6f} {y:.6f}" for x, y in points)
  return f"version: 1\nn_points:  {len(points)}\n{{\n{rows}\n}}\n"


def test_pts_files_count_from_one(tmp_path):
  (tmp_path / "helen").mkdir()
  (tmp_path / "helen/a_1.pts").write_text(_pts(_face() + 1))
  (image,) = pts68.read(str(tmp_path), "images")
  assert (image.image_id, image.path) == ("helen/a_1.jpg", "images/helen/a_1.jpg")
  assert image.landmarks.tolist() == [FIVE]
  # x from 30 to 69 (48's eye corner), y from 38 to 100, and 0.2 * 62 above.
  np.testing.assert_allclose(image.boxes, [[30, 38 - 12.4, 69, 100]], rtol=1e-6)


def test_where_pixels_start_is_a_setting(tmp_path):
  (tmp_path / "a.pts").write_text(_pts(_face()))
  (image,) = pts68.read(str(tmp_path / "a.pts"), "images", extension=".png", first_pixel=0)
  assert image.image_id == "a.png"
  assert image.landmarks.tolist() == [FIVE]


def test_json_takes_one_face_or_several(tmp_path):
  path = tmp_path / "points.json"
  face = _face().tolist()
  path.write_text(json.dumps({"one.jpg": face, "two.jpg": [face, face], "none.jpg": []}))
  # A photo without points is no photo of this format.
  with pytest.raises(AnnotationError, match=r"points\.json: photo 'none\.jpg': expected 68 points"):
    list(pts68.read(str(path), "images"))
  path.write_text(json.dumps({"one.jpg": face, "two.jpg": [face, face]}))
  images = list(pts68.read(str(path), "images"))
  assert [len(image.boxes) for image in images] == [1, 2]
  assert images[0].landmarks.tolist() == [FIVE]


@pytest.mark.parametrize(("name", "photos"), [("afw", 337), ("helen_train", 870)])
def test_real_faces_agree_with_their_five_point_rows(shared_data, name, photos):
  folder = shared_data / "ibug"
  images = list(pts68.read(str(folder / f"{name}_68points.json"), str(folder)))
  rows = {image.image_id: image for image in landmark_csv.read(str(folder / f"{name}_landmarks.csv"), "")}
  assert len(images) == photos == len(rows)
  for image in images:
    np.testing.assert_allclose(image.landmarks, rows[image.image_id].landmarks, atol=0.011)
    np.testing.assert_allclose(image.boxes, rows[image.image_id].boxes, atol=0.011)


def test_another_mark_up_is_named(tmp_path):
  (tmp_path / "a.pts").write_text(_pts(_face()[:51]))
  with pytest.raises(AnnotationError, match=r"a\.pts:2: n_points is '51'"):
    list(pts68.read(str(tmp_path), ""))


def test_a_folder_without_pts_files(tmp_path):
  with pytest.raises(AnnotationError, match=r"no \.pts files here or below"):
    list(pts68.read(str(tmp_path), ""))
