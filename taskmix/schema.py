"""A net's schema: what TFX demands of every raw example.

`schema_of` derives it from the Net. The committed schemas/<net>.pbtxt starts as
its text and may be curated by hand: narrowed, never widened. `differences`
tells how the two disagree, and a test keeps them together.

    python -m taskmix.schema taskmix.nets.mtcnn:PNET schemas/pnet.pbtxt
"""

import argparse
import importlib
import pathlib
from collections.abc import Sequence

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from taskmix.spec import KIND, Column, Net

_TYPES = {
  "uint8": schema_pb2.BYTES,
  "string": schema_pb2.BYTES,
  "int64": schema_pb2.INT,
  "float32": schema_pb2.FLOAT,
}


def schema_of(net: Net) -> schema_pb2.Schema:
  """The schema of the net's raw examples: exactly `net.columns`, every one dense.

  A uint8 column is one BYTES value. What differs from split to split (which
  kind stands in it) is no business of a schema that all splits share.
  """
  schema = schema_pb2.Schema()
  for column in net.columns:
    schema.feature.append(_feature(column))
    if column.name == KIND:
      schema.feature[-1].string_domain.value.extend(net.mixture.names)
  return schema


def write_schema(net: Net, path: str | pathlib.Path) -> None:
  """Writes `schema_of(net)` as text for review, its folder too; what was curated in it is lost."""
  head = (
    f"# Derived from the net {net.name!r} by `python -m taskmix.schema`. Narrow it by hand; never widen it.\n"
  )
  pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
  pathlib.Path(path).write_text(head + text_format.MessageToString(schema_of(net)))


def read_schema(path: str | pathlib.Path) -> schema_pb2.Schema:
  """The schema in a text file.

  Raises:
    ValueError: if the file is no schema; names it and the line.
  """
  try:
    return text_format.Parse(pathlib.Path(path).read_text(), schema_pb2.Schema())
  except text_format.ParseError as error:
    raise ValueError(f"{path}: not a schema in text form: {error}") from error


def differences(curated: schema_pb2.Schema, net: Net) -> tuple[str, ...]:
  """Where a curated schema is not the net's, or a narrower one; empty if it is."""
  derived = {feature.name: feature for feature in schema_of(net).feature}
  kept = {feature.name: feature for feature in curated.feature}
  found = [f"{name}: the net has this column, the schema lacks it" for name in derived if name not in kept]
  found += [f"{name}: in the schema, but no column of the net" for name in kept if name not in derived]
  for name in derived:
    if name in kept:
      found += [f"{name}: {reason}" for reason in _widened(kept[name], derived[name])]
  return tuple(found)


def _feature(column: Column) -> schema_pb2.Feature:
  feature = schema_pb2.Feature(name=column.name, type=_TYPES[column.dtype])
  feature.presence.min_fraction = 1.0
  feature.presence.min_count = 1
  feature.shape.SetInParent()
  if column.dtype != "uint8":
    feature.shape.dim.extend(schema_pb2.FixedShape.Dim(size=size) for size in column.shape)
  if column.dtype == "int64":
    _int_domain(feature, column)
  elif column.dtype == "float32":
    _float_domain(feature, column)
  return feature


def _int_domain(feature: schema_pb2.Feature, column: Column) -> None:
  if column.classes:
    feature.int_domain.min, feature.int_domain.max = 0, len(column.classes) - 1
    feature.int_domain.is_categorical = True
    return
  if column.low is not None:
    feature.int_domain.min = int(column.low)
  if column.high is not None:
    feature.int_domain.max = int(column.high)


def _float_domain(feature: schema_pb2.Feature, column: Column) -> None:
  if column.low is not None:
    feature.float_domain.min = column.low
  if column.high is not None:
    feature.float_domain.max = column.high
  feature.float_domain.disallow_nan = True
  feature.float_domain.disallow_inf = True


def _widened(kept: schema_pb2.Feature, derived: schema_pb2.Feature) -> list[str]:
  """How one feature allows more than, or other things than, the derived one."""
  found = []
  if kept.type != derived.type:
    found.append(
      f"type {schema_pb2.FeatureType.Name(kept.type)}, the net's is "
      f"{schema_pb2.FeatureType.Name(derived.type)}"
    )
  if kept.shape != derived.shape or not kept.HasField("shape"):
    sizes = [[dim.size for dim in feature.shape.dim] for feature in (kept, derived)]
    found.append(f"shape {sizes[0]}, the net's is {sizes[1]}")
  if kept.presence.min_fraction < derived.presence.min_fraction:
    found.append(
      f"may be missing: min_fraction {kept.presence.min_fraction}, not {derived.presence.min_fraction}"
    )
  for domain in ("int_domain", "float_domain"):
    found += _wider_range(kept, derived, domain)
  extra = set(kept.string_domain.value) - set(derived.string_domain.value)
  if derived.HasField("string_domain") and (extra or not kept.HasField("string_domain")):
    found.append(f"values {sorted(extra) or 'unlimited'}, the net has {list(derived.string_domain.value)}")
  return found


def _wider_range(kept: schema_pb2.Feature, derived: schema_pb2.Feature, domain: str) -> list[str]:
  limit, limits = getattr(derived, domain), getattr(kept, domain)
  found = []
  if limit.HasField("min") and not (limits.HasField("min") and limits.min >= limit.min):
    found.append(f"min {limits.min if limits.HasField('min') else 'none'}, the net's is {limit.min}")
  if limit.HasField("max") and not (limits.HasField("max") and limits.max <= limit.max):
    found.append(f"max {limits.max if limits.HasField('max') else 'none'}, the net's is {limit.max}")
  for flag in ("disallow_nan", "disallow_inf"):
    if getattr(limit, flag, False) and not getattr(limits, flag):
      found.append(f"{flag} is off")
  return found


def main(arguments: Sequence[str] | None = None) -> None:
  parser = argparse.ArgumentParser(description="Write the schema of a net for review.")
  parser.add_argument("net", help="package.module:NAME of a Net")
  parser.add_argument("path", help="the .pbtxt file to write")
  options = parser.parse_args(arguments)
  module, _, name = options.net.partition(":")
  write_schema(getattr(importlib.import_module(module), name), options.path)


if __name__ == "__main__":
  main()
