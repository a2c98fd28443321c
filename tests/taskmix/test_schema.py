import pathlib

import pytest
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2

from taskmix import schema
from taskmix.nets import every_net, mtcnn

SCHEMAS = pathlib.Path(__file__).parents[2] / "schemas"


@pytest.mark.parametrize("net", every_net(), ids=lambda net: net.name)
def test_the_committed_schema_is_the_nets_or_narrower(net):
  found = schema.differences(schema.read_schema(SCHEMAS / f"{net.name}.pbtxt"), net)
  assert not found, f"run `taskmix schema --net {net.name} --write`"


def test_what_is_written_is_read_back(tmp_path):
  schema.write_schema(mtcnn.PNET, tmp_path / "pnet.pbtxt")
  assert schema.read_schema(tmp_path / "pnet.pbtxt") == schema.schema_of(mtcnn.PNET)


def _changed(name: str) -> tuple[schema_pb2.Schema, schema_pb2.Feature]:
  curated = schema.schema_of(mtcnn.PNET)
  (feature,) = [feature for feature in curated.feature if feature.name == name]
  return curated, feature


def test_narrowing_is_no_difference():
  curated, feature = _changed("box_offsets")
  feature.float_domain.min = -0.5
  assert schema.differences(curated, mtcnn.PNET) == ()


def test_widening_is_told():
  curated, feature = _changed("box_offsets")
  feature.float_domain.max = 2.0
  feature.float_domain.disallow_nan = False
  assert schema.differences(curated, mtcnn.PNET) == (
    "box_offsets: max 2.0, the net's is 1.5",
    "box_offsets: disallow_nan is off",
  )


def test_another_type_shape_or_domain_is_told():
  curated, feature = _changed("landmarks")
  feature.type = schema_pb2.INT
  del feature.shape.dim[:]
  assert schema.differences(curated, mtcnn.PNET) == (
    "landmarks: type INT, the net's is FLOAT",
    "landmarks: shape [], the net's is [10]",
  )
  curated, feature = _changed("kind")
  feature.string_domain.value.append("profile")
  assert schema.differences(curated, mtcnn.PNET) == (
    "kind: values ['profile'], the net has ['neg', 'pos', 'part', 'landmark']",
  )


def test_missing_and_extra_features_are_told():
  curated = schema.schema_of(mtcnn.PNET)
  curated.feature[0].name = "picture"
  assert schema.differences(curated, mtcnn.PNET) == (
    "image: the net has this column, the schema lacks it",
    "picture: in the schema, but no column of the net",
  )


def test_a_broken_file_is_named(tmp_path):
  (tmp_path / "bad.pbtxt").write_text("feature {")
  with pytest.raises(ValueError, match=r"bad\.pbtxt: not a schema"):
    schema.read_schema(tmp_path / "bad.pbtxt")


def test_the_command_writes_a_file(tmp_path):
  schema.main(["taskmix.nets.mtcnn:RNET", str(tmp_path / "rnet.pbtxt")])
  assert schema.read_schema(tmp_path / "rnet.pbtxt") == schema.schema_of(mtcnn.RNET)


def _anomalies(pattern: str, tmp_path) -> dict[str, str]:
  statistics = tfdv.generate_statistics_from_tfrecord(pattern, output_path=str(tmp_path / "statistics"))
  found = tfdv.validate_statistics(statistics, schema.schema_of(mtcnn.PNET)).anomaly_info
  return {name: info.description for name, info in found.items()}


def test_tfdv_accepts_the_nets_own_examples(pnet_data, tmp_path):
  assert _anomalies(pnet_data.raw["train-part"], tmp_path) == {}


def test_tfdv_finds_a_value_outside_of_the_net(write_examples, draw, tmp_path):
  columns = draw(mtcnn.PNET, "pos", 20)
  columns["face"][3] = 2
  columns["box_offsets"][5] = 7.0
  pattern = write_examples(mtcnn.PNET.columns, columns, tmp_path / "bad.tfrecord")
  assert set(_anomalies(pattern, tmp_path)) == {"face", "box_offsets"}
