"""Every reader on damaged, odd and malicious copies of a list that is fine.

A list gives its photos or an AnnotationError that names the file and, where
there is one, the line. What passes is written down here, case by case.
"""

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from taskmix.sources import (
  AnnotatedImage,
  AnnotationError,
  celeba,
  cifar10,
  fddb,
  info17,
  landmark_csv,
  point_list,
  pts68,
  retinaface,
  voc,
  wider_face,
)

_FACE68 = [[x, 2 * x] for x in range(10, 78)]


@dataclasses.dataclass(frozen=True)
class Format:
  """A list that is fine, and how to read and to spoil it.

  Attributes:
    file: its name.
    text: two photos, the first named a/1.jpg where the format names photos.
    read: (path of the file) -> the images.
    number: a number on the line `line` that occurs once.
    name: how the first photo is written; "" if the file's own name is it.
    counted: what the format counts, so that a cut cannot pass: its "photos", the
      "faces" of each photo (a cut between two photos passes), or "nothing" (a
      cut between two faces passes).
    repeated: a copy in which the first photo comes twice, and whether that
      gives one photo with all faces ("gathered") or an error ("refused").
  """

  file: str
  text: str
  read: Callable[[str], Iterator[AnnotatedImage]]
  number: str
  line: int | None
  name: str = "a/1.jpg"
  counted: str = "photos"
  repeated: str = "refused"


def _lines(*lines: str) -> str:
  return "\n".join(lines) + "\n"


FORMATS = {
  "wider_face": Format(
    "bbx_gt.txt",
    _lines("a/1.jpg", "1", "10 20 37 40 0 0 0 0 0 0", "b/2.jpg", "0", "0 0 0 0 0 0 0 0 0 0"),
    lambda path: wider_face.read(path, "root"),
    number="37",
    line=3,
    counted="faces",
  ),
  "fddb": Format(
    "ellipses.txt",
    _lines("a/1", "1", "37 20 0.5 100 90  1", "b/2", "1", "30 20 0.5 100 90  1"),
    lambda path: fddb.read(path, "root"),
    number="37",
    line=3,
    name="a/1",
    counted="faces",
  ),
  "retinaface": Format(
    "label.txt",
    _lines("# a/1.jpg", "37 20 30 40 " + "5 6 0.0 " * 5 + "0.8", "# b/2.jpg"),
    lambda path: retinaface.read(path, "root"),
    number="37",
    line=2,
    counted="nothing",
  ),
  "cnn_facepoint": Format(
    "trainImageList.txt",
    _lines("a/1.jpg 37 161 92 169" + " 100.5 101.5" * 5, "b/2.jpg 84 161 92 169" + " 100.5 101.5" * 5),
    lambda path: point_list.read(path, "root"),
    number="37",
    line=1,
    counted="nothing",
    repeated="gathered",
  ),
  "mtfl": Format(
    "training.txt",
    _lines(" a/1.jpg 37" + " 100.5" * 9 + " 1 2 2 3", " b/2.jpg 90" + " 100.5" * 9 + " 1 2 2 3"),
    lambda path: point_list.read(path, "root", "mtfl"),
    number="37",
    line=1,
    counted="nothing",
    repeated="gathered",
  ),
  "landmark_csv": Format(
    "landmarks.csv",
    _lines("a/1.jpg,37,20,100,110" + ",60.5,70.5" * 5, "b/2.jpg,10,20,100,110" + ",60.5,70.5" * 5),
    lambda path: landmark_csv.read(path, "root"),
    number="37",
    line=1,
    counted="nothing",
    repeated="gathered",
  ),
  "celeba": Format(
    "list_bbox_celeba.txt",
    _lines("2", "image_id x_1 y_1 width height", "a/1.jpg  37 20 30 40", "b/2.jpg  10 20 30 40"),
    lambda path: celeba.read(os.path.dirname(path), "root", landmarks=""),
    number="37",
    line=3,
  ),
  "pts68": Format(
    "1.pts",
    _lines("version: 1", "n_points:  68", "{", "37.5 20", *(["10 20"] * 67), "}"),
    lambda path: pts68.read(path, "root"),
    number="37.5",
    line=4,
    name="",
  ),
  "pts68_json": Format(
    "points.json",
    json.dumps({"a/1.jpg": [[37.5, 1], *_FACE68[1:]], "b/2.jpg": _FACE68}).replace("37.5", "3.75e1"),
    lambda path: pts68.read(path, "root"),
    number="3.75e1",
    line=None,
  ),
  "voc": Format(
    "1.xml",
    _lines(
      "<annotation><filename>a/1.jpg</filename>",
      "<object><name>face</name>",
      "<bndbox> <xmin>37</xmin> <ymin>2</ymin> <xmax>101</xmax> <ymax>102</ymax> </bndbox>",
      "</object></annotation>",
    ),
    lambda path: voc.read(path, "root"),
    number="37",
    line=3,
  ),
}

SPACED = [name for name in FORMATS if name not in ("landmark_csv", "pts68_json", "voc")]
NAMED = [name for name in FORMATS if FORMATS[name].name]


@pytest.fixture(params=FORMATS)
def form(request) -> Format:
  return FORMATS[request.param]


@pytest.fixture
def write(tmp_path):
  """(format, bytes) -> path of a file that holds them, under the format's name."""

  def to_file(form: Format, data: bytes) -> str:
    path = tmp_path / form.file
    path.write_bytes(data)
    return str(path)

  return to_file


def _facts(images) -> list:
  return [(image.image_id, image.boxes.tolist(), np.nan_to_num(image.landmarks).tolist()) for image in images]


def _where(path: str, line: int | None) -> str:
  """A pattern for the start of a message."""
  return "^" + re.escape(path) + (r"(:\d+)?: " if line is None else f":{line}: ")


@pytest.fixture
def facts(form, write):
  return _facts(form.read(write(form, form.text.encode())))


def test_the_list_itself_is_fine(facts, form):
  assert len(facts) == (1 if form.file in ("1.pts", "1.xml") else 2)
  assert facts[0][1]


def test_windows_line_ends_change_nothing(form, write, facts):
  assert _facts(form.read(write(form, form.text.replace("\n", "\r\n").encode()))) == facts


def test_a_byte_order_mark_changes_nothing(form, write, facts):
  assert _facts(form.read(write(form, b"\xef\xbb\xbf" + form.text.encode()))) == facts


@pytest.mark.parametrize("form", [FORMATS[name] for name in SPACED], ids=SPACED)
def test_tabs_and_trailing_blanks_change_nothing(form, write, facts):
  spoiled = form.text.replace("# ", "#\t").replace(" ", "\t").replace("\n", " \t\n")
  assert _facts(form.read(write(form, spoiled.encode()))) == facts


def test_blank_lines_at_the_end_and_a_missing_line_end_change_nothing(form, write, facts):
  assert _facts(form.read(write(form, form.text.encode() + b"\n \n"))) == facts
  assert _facts(form.read(write(form, form.text.strip().encode()))) == facts


@pytest.mark.parametrize(
  "data", [b"", b"\n", b"\xef\xbb\xbf", b" \r\n \r\n"], ids=["no bytes", "blank", "mark", "blanks"]
)
def test_an_empty_file_is_an_error(form, write, data):
  path = write(form, data)
  with pytest.raises(AnnotationError, match=re.escape(path)):
    list(form.read(path))


def test_a_missing_file_is_an_error(form, tmp_path):
  path = str(tmp_path / "nowhere" / form.file)
  with pytest.raises(AnnotationError, match=re.escape(path) + ": no such"):
    list(form.read(path))


def test_a_list_cut_off_anywhere_gives_its_beginning_or_an_error(form, write, facts):
  data = form.text.encode()
  for size in range(len(data.rstrip())):
    path = write(form, data[:size])
    kept = _facts_or_error(form, path)
    if isinstance(kept, AnnotationError):
      assert str(kept).startswith(path)
    elif form.counted != "nothing":
      # 0.5 cut to 0. is a number still: no format guards against that.
      inside_a_number = data[size - 1 : size + 1].isalnum() or data[size - 1 : size] == b"."
      between_photos = form.counted == "faces" and kept == facts[: len(kept)]
      assert inside_a_number or between_photos, f"nothing was said of a cut after {data[:size][-20:]!r}"


def _facts_or_error(form, path):
  images = _images_or_error(form, path)
  return images if isinstance(images, AnnotationError) else _facts(images)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e300", "1e7", "many", "0x10", ""])
def test_what_is_no_pixel_is_an_error_that_names_the_line(form, write, value):
  path = write(form, form.text.replace(form.number, value, 1).encode())
  with pytest.raises(AnnotationError, match=_where(path, form.line) if value != "" else re.escape(path)):
    list(form.read(path))


def test_a_number_more_is_an_error_that_names_the_line(form, write):
  separator = "," if form.file.endswith((".csv", ".json")) else " "
  path = write(form, form.text.replace(form.number, form.number + separator + "5", 1).encode())
  with pytest.raises(AnnotationError, match=_where(path, form.line)):
    list(form.read(path))


@pytest.mark.parametrize("name", ["wider_face", "fddb", "celeba"])
@pytest.mark.parametrize("count", ["0", "3", "-1", "1.5", "one", "99999999999999999999", ""])
def test_a_wrong_count_is_an_error(name, count, write):
  form = FORMATS[name]
  lines = form.text.split("\n")
  at = 0 if name == "celeba" else 1
  lines[at] = count
  path = write(form, "\n".join(lines).encode())
  with pytest.raises(AnnotationError, match=_where(path, None)):
    list(form.read(path))


@pytest.mark.parametrize("form", [FORMATS[name] for name in NAMED], ids=NAMED)
@pytest.mark.parametrize(
  "name",
  [
    "../1.jpg",
    "a/../../1.jpg",
    "..",
    "/etc/passwd",
    r"..\1.jpg",
    r"C:\1.jpg",
    "gs://bucket/1.jpg",
    "./.",
    "a\0.jpg",
  ],
)
def test_a_path_out_of_the_root_is_an_error(form, write, name):
  written = name.replace("\\", "\\\\").replace("\0", "\\u0000") if form.file.endswith(".json") else name
  path = write(form, form.text.replace(form.name, written, 1).encode())
  with pytest.raises(AnnotationError, match=re.escape(path)):
    list(form.read(path))


@pytest.mark.parametrize(
  "form", [FORMATS[name] for name in NAMED if name != "voc"], ids=lambda form: form.file
)
def test_names_that_are_not_utf_8_keep_their_bytes(form, write):
  path = write(
    form, form.text.replace(form.name, "N\n").encode().replace(b"N\n", form.name.encode() + b"\xe9\xff")
  )
  image = next(iter(form.read(path)))
  # Under Linux, the name of the very file that the list means.
  assert os.fsencode(image.path).startswith(b"root/" + form.name.encode() + b"\xe9\xff")


def test_xml_that_is_not_utf_8_is_an_error_unless_it_says_so(write):
  form = FORMATS["voc"]
  data = form.text.encode().replace(b"a/1", b"a/\xe9")
  path = write(form, data)
  with pytest.raises(AnnotationError, match=_where(path, 1) + "no XML"):
    list(form.read(path))
  (image,) = form.read(write(form, b'<?xml version="1.0" encoding="iso-8859-1"?>' + data))
  assert image.image_id == "a/é.jpg"


def test_backslashes_separate_folders(write):
  for name in NAMED:
    form = FORMATS[name]
    written = form.name.replace("/", "\\\\" if form.file.endswith(".json") else "\\")
    images = list(form.read(write(form, form.text.replace(form.name, written, 1).encode())))
    assert images[0].image_id == "a/1.jpg", name


@pytest.mark.parametrize("name", [name for name in NAMED if name != "voc"])
def test_a_photo_listed_twice_is_gathered_or_refused(name, write):
  form = FORMATS[name]
  second = form.name.replace("a/1", "b/2")
  path = write(form, form.text.replace(second, form.name).encode())
  if form.repeated == "gathered":
    (image,) = form.read(path)
    assert (image.image_id, len(image.boxes)) == ("a/1.jpg", 2)
  else:
    with pytest.raises(
      AnnotationError, match=re.escape(path) + r".*(listed on line \d+ already|there twice)"
    ):
      list(form.read(path))


def test_deep_brackets_are_an_error(write):
  path = write(FORMATS["pts68_json"], b"[" * 100_000)
  with pytest.raises(AnnotationError, match=re.escape(path)):
    list(pts68.read(path, ""))


def _only_images_or_the_documented_error(form: Format, data: bytes) -> None:
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, form.file)
    with open(path, "wb") as file:
      file.write(data)
    images = _images_or_error(form, path)
    if isinstance(images, AnnotationError):
      assert path in str(images)
    else:
      assert all(np.isfinite(image.boxes).all() for image in images)
      assert not any(os.path.normpath(image.path).startswith((".", "/")) for image in images if form.name)


def _images_or_error(form, path):
  try:
    return list(form.read(path))
  except AnnotationError as error:
    return error


@pytest.mark.parametrize("name", FORMATS)
@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(data=st.binary(max_size=200))
def test_any_bytes_give_images_or_the_documented_error(name, data):
  _only_images_or_the_documented_error(FORMATS[name], data)


@pytest.mark.parametrize("name", FORMATS)
@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(data=st.data())
def test_any_damage_gives_images_or_the_documented_error(name, data):
  text = FORMATS[name].text.encode()
  start = data.draw(st.integers(0, len(text)))
  length = data.draw(st.integers(0, 12))
  pieces = st.sampled_from(
    [b"nan", b"-1", b"\n", b"\r", b"\0", b"..", b"/", b" ", b'"', b",", b"#", b"{", b"\xff", b"9" * 400]
  )
  inserted = data.draw(st.one_of(st.binary(max_size=8), st.lists(pieces, max_size=4).map(b"".join)))
  _only_images_or_the_documented_error(FORMATS[name], text[:start] + inserted + text[start + length :])


@pytest.mark.parametrize(
  "form",
  [
    Format("x.tfrecord", "", lambda path: info17.read(path, ""), "", None, name=""),
    Format("data_batch_1.bin", "", lambda path: cifar10.read(os.path.dirname(path), ""), "", None, name=""),
    Format("data_batch_1", "", lambda path: cifar10.read(os.path.dirname(path), ""), "", None, name=""),
  ],
  ids=["info17", "cifar10 binary", "cifar10 pickle"],
)
@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(data=st.binary(max_size=200))
def test_any_bytes_in_a_binary_file_give_images_or_the_documented_error(form, data):
  _only_images_or_the_documented_error(form, data)
