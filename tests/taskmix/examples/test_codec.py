"""The codec against tf.train.Example, which it must equal byte for byte."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from taskmix.examples import codec
from taskmix.spec import Column

COLUMNS = (
  Column("kind", "string"),
  Column("image", "uint8", (2, 1, 3)),
  Column("face", "int64"),
  Column("landmarks", "float32", (2, 2)),
)
BATCH = {
  "kind": ["pos", "landmark"],
  "image": np.arange(12, dtype=np.uint8).reshape(2, 2, 1, 3),
  "face": np.array([1, -300]),
  "landmarks": np.array([[[0, 1], [2, 3]], [[-0.5, np.inf], [1e-9, 7]]], np.float32),
}


def oracle(columns, batch, row: int) -> bytes:
  """What TensorFlow serializes."""
  tf = pytest.importorskip("tensorflow")
  feature = {}
  for column in columns:
    value = batch[column.name] if isinstance(batch[column.name], str | bytes) else batch[column.name][row]
    if column.dtype in ("uint8", "string"):
      value = value.tobytes() if column.dtype == "uint8" else value.encode()
      feature[column.name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    elif column.dtype == "int64":
      feature[column.name] = tf.train.Feature(int64_list=tf.train.Int64List(value=np.ravel(value).tolist()))
    else:
      feature[column.name] = tf.train.Feature(float_list=tf.train.FloatList(value=np.ravel(value).tolist()))
  example = tf.train.Example(features=tf.train.Features(feature=feature))
  return example.SerializeToString(deterministic=True)


def test_a_scalar_is_these_very_bytes():
  # Worked out by hand from example.proto: Features > Entry > key "a", Feature > Int64List > 3.
  (record,) = codec.encode((Column("a", "int64"),), {"a": np.array([3])})
  assert record.hex(" ") == "0a 0c 0a 0a 0a 01 61 12 05 1a 03 0a 01 03"


def test_records_are_what_tensorflow_serializes():
  records = codec.encode(COLUMNS, BATCH)
  assert records == [oracle(COLUMNS, BATCH, 0), oracle(COLUMNS, BATCH, 1)]


def test_the_order_of_the_columns_does_not_matter():
  reordered = {name: BATCH[name] for name in reversed(BATCH)}
  assert codec.encode(COLUMNS[::-1], reordered) == codec.encode(COLUMNS, BATCH)


def test_tensorflow_parses_a_batch():
  tf = pytest.importorskip("tensorflow")
  parsed = tf.io.parse_example(codec.encode(COLUMNS, BATCH), codec.feature_spec(COLUMNS))
  assert parsed["kind"].numpy().tolist() == [b"pos", b"landmark"]
  pixels = tf.reshape(tf.io.decode_raw(parsed["image"], tf.uint8), (-1, 2, 1, 3))
  np.testing.assert_array_equal(pixels, BATCH["image"])
  np.testing.assert_array_equal(parsed["face"], [1, -300])
  np.testing.assert_array_equal(parsed["landmarks"], BATCH["landmarks"])


def test_decode_gives_the_values_back():
  for row, record in enumerate(codec.encode(COLUMNS, BATCH)):
    values = codec.decode(COLUMNS, record)
    assert values["kind"] == BATCH["kind"][row]
    assert values["image"].dtype == np.uint8
    for name in ("image", "face", "landmarks"):
      np.testing.assert_array_equal(values[name], BATCH[name][row])


def test_decode_reads_what_tensorflow_wrote_unpacked_or_in_another_order():
  tf = pytest.importorskip("tensorflow")
  example = tf.train.Example()
  for name in ("z", "a"):
    example.features.feature[name].int64_list.value.extend([1, -1, 1 << 40])
  values = codec.decode((Column("a", "int64", (3,)),), example.SerializeToString())
  assert values["a"].tolist() == [1, -1, 1 << 40]


def test_one_string_stands_for_every_row():
  repeated = codec.encode(COLUMNS, {**BATCH, "kind": ["pos", "pos"]})
  assert codec.encode(COLUMNS, {**BATCH, "kind": "pos"}) == repeated


def test_a_file_name_that_is_no_utf8_keeps_its_bytes():
  columns = (Column("image_id", "string"),)
  name = b"photos/\xff\xe9.jpg"
  (record,) = codec.encode(columns, {"image_id": [name.decode("utf-8", "surrogateescape")]})
  assert codec.decode_features(record)["image_id"] == ("bytes", [name])


def test_no_rows_are_no_records():
  empty = {"kind": [], **{name: BATCH[name][:0] for name in ("image", "face", "landmarks")}}
  assert codec.encode(COLUMNS, empty) == []


@pytest.mark.parametrize(
  ("changes", "problem"),
  [
    ({"face": np.array([[1], [2]])}, r"column 'face' has the shape \(2,\), not \(2, 1\)"),
    ({"landmarks": np.zeros((2, 4), np.float32)}, r"column 'landmarks' has the shape \(2, 2, 2\)"),
    ({"image": np.zeros((2, 2, 1, 3))}, "column 'image' is uint8, not float64"),
    ({"face": np.array([1])}, "columns of different lengths: .*'face': 1"),
  ],
)
def test_a_wrong_column_is_named(changes, problem):
  with pytest.raises(ValueError, match=problem):
    codec.encode(COLUMNS, {**BATCH, **changes})


def test_a_missing_column_is_named():
  with pytest.raises(ValueError, match="no values for the column landmarks; the batch has kind, image, face"):
    codec.encode(COLUMNS, {name: BATCH[name] for name in ("kind", "image", "face")})


def test_decode_names_the_column_that_differs():
  record = codec.encode(COLUMNS, BATCH)[0]
  with pytest.raises(ValueError, match="no column 'age' in the example; it has face, image, kind, landmarks"):
    codec.decode((Column("age", "int64"),), record)
  with pytest.raises(ValueError, match="'face' is float32, but the example holds int64"):
    codec.decode((Column("face", "float32"),), record)
  for column in (Column("landmarks", "float32", (5,)), Column("image", "uint8", (9, 9, 3))):
    with pytest.raises(ValueError, match=column.name):
      codec.decode((column,), record)


def test_what_is_no_example_is_told():
  record = codec.encode(COLUMNS, BATCH)[0]
  for broken in (record[:-1], b"\xff" * 20, b"no example", b"\x08\x01"):
    with pytest.raises(ValueError, match=r"not a tf\.Example"):
      codec.decode(COLUMNS, broken)


def _column(name: str, dtype: Any, shape: tuple[int, ...]) -> Column:
  return Column(name, dtype, () if dtype == "string" else shape)


_SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
_COLUMNS = st.lists(
  st.tuples(
    st.from_regex(r"[a-z][a-z0-9_]{0,140}", fullmatch=True),
    st.sampled_from(["uint8", "int64", "float32", "string"]),
    _SHAPES,
  ),
  min_size=1,
  max_size=4,
  unique_by=lambda column: column[0],
).map(lambda rows: [_column(*row) for row in rows])


@st.composite
def _batches(draw):
  columns, rows = draw(_COLUMNS), draw(st.integers(1, 4))
  batch = {}
  for column in columns:
    if column.dtype == "string":
      batch[column.name] = draw(st.lists(st.text(max_size=200), min_size=rows, max_size=rows))
    else:
      elements = st.floats(width=32, allow_nan=False) if column.dtype == "float32" else None
      array = npst.arrays(column.dtype, (rows, *column.shape), elements=elements)
      batch[column.name] = draw(array)
  return columns, batch, rows


@settings(max_examples=60, deadline=None)
@given(_batches())
def test_any_batch_equals_tensorflow_and_comes_back(drawn):
  columns, batch, rows = drawn
  records = codec.encode(columns, batch)
  assert records == [oracle(columns, batch, row) for row in range(rows)]
  for row, record in enumerate(records):
    values = codec.decode(columns, record)
    for column in columns:
      if column.dtype == "string":
        assert values[column.name] == batch[column.name][row]
      else:
        np.testing.assert_array_equal(values[column.name], batch[column.name][row])
