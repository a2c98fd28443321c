import numpy as np
import pytest

from taskmix.sources import AnnotationError, voc

# The form of VOC2012's own files.
XML = """\
<annotation>
	<folder>VOC2012</folder>
	<filename>2008_001009.jpg</filename>
	<size><width>500</width><height>375</height><depth>3</depth></size>
	<object>
		<name>face</name>
		<pose>Frontal</pose>
		<truncated>0</truncated>
		<difficult>0</difficult>
		<bndbox>
			<xmin>1</xmin>
			<ymin>11</ymin>
			<xmax>20</xmax>
			<ymax>40</ymax>
		</bndbox>
	</object>
	<object>
		<name>dog</name>
		<difficult>1</difficult>
		<bndbox><xmax>8</xmax><xmin>5</xmin><ymax>9</ymax><ymin>6</ymin></bndbox>
	</object>
</annotation>
"""


@pytest.fixture
def file(tmp_path):
  path = tmp_path / "Annotations" / "2008_001009.xml"
  path.parent.mkdir()
  path.write_text(XML)
  return path


def test_corners_count_from_one_and_belong_to_the_box(file):
  (image,) = voc.read(str(file.parent), "JPEGImages")
  assert image.path == "JPEGImages/2008_001009.jpg"
  # 20 columns from the first, 30 rows from the eleventh.
  np.testing.assert_array_equal(image.boxes, [[0, 10, 20, 40], [4, 5, 8, 9]])


def test_difficult_objects_are_kept_but_ignored(file):
  (image,) = voc.read(str(file), "JPEGImages")
  assert image.ignore.tolist() == [False, True]


def test_objects_can_be_chosen_by_name(file):
  (image,) = voc.read(str(file), "JPEGImages", label="face")
  assert image.boxes.tolist() == [[0, 10, 20, 40]]


def test_files_of_other_tools_may_count_from_zero(file):
  (image,) = voc.read(str(file), "", label="face", first_pixel=0, inclusive=False)
  assert image.boxes.tolist() == [[1, 11, 20, 40]]


def test_a_photo_without_objects(file):
  file.write_text("<annotation><filename>a.jpg</filename></annotation>")
  (image,) = voc.read(str(file), "")
  assert image.boxes.shape == (0, 4)


@pytest.mark.parametrize(
  "document_type",
  [
    '<!DOCTYPE annotation SYSTEM "http://example.com/x.dtd">',
    '<!DOCTYPE annotation [<!ENTITY file SYSTEM "file:///etc/passwd">]>',
    '<!DOCTYPE annotation [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
  ],
  ids=["external", "file", "growing"],
)
def test_document_types_are_refused(file, document_type):
  file.write_text(f"{document_type}\n" + XML.replace("2008_001009.jpg", "&file;"))
  with pytest.raises(AnnotationError, match=r"2008_001009\.xml:1: a document type \(annotation\) is refused"):
    list(voc.read(str(file), ""))


def test_an_undeclared_entity_is_no_xml(file):
  file.write_text(XML.replace("2008_001009.jpg", "&file;"))
  with pytest.raises(AnnotationError, match=r"2008_001009\.xml:3: no XML: undefined entity"):
    list(voc.read(str(file), ""))


@pytest.mark.parametrize(
  ("old", "new", "line", "problem"),
  [
    ("\t\t\t<ymax>40</ymax>\n", "", 10, "expected 4 numbers"),
    ("<bndbox><xmax>8", "<box><xmax>8", 20, "no XML: mismatched tag"),
    ("<xmin>1<", "<xmin>left<", 10, "not all of 'left 11 20 40' are numbers"),
    ("<filename>2008_001009.jpg</filename>", "", 1, "does not lie below"),
  ],
)
def test_what_is_missing_is_named_with_its_line(file, old, new, line, problem):
  file.write_text(XML.replace(old, new))
  with pytest.raises(AnnotationError, match=rf"2008_001009\.xml:{line}: .*{problem}"):
    list(voc.read(str(file), ""))


def test_two_files_of_one_photo(file):
  (file.parent / "z.xml").write_text(XML)
  with pytest.raises(
    AnnotationError, match=r"z\.xml:1: photo '2008_001009\.jpg' is that of .*2008_001009\.xml"
  ):
    list(voc.read(str(file.parent), ""))
