"""What is wrong with the fields of a dataclass, in words; unknown names with the nearest known."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Sequence
from typing import Any

import pydantic


def nearest(name: str, known: Sequence[str]) -> str:
  """ "; did you mean X?" where one is near, and the known names where none is."""
  near = difflib.get_close_matches(name, known, n=1)
  return f"; did you mean {near[0]}?" if near else f"; there is {', '.join(known)}"


def told(error: pydantic.ValidationError, cls: Any) -> str:
  """What pydantic found of a `cls`, in a sentence a finding.

  "training: Training has no field 'stepz'; did you mean steps?"
  """
  return "; ".join(dict.fromkeys(_finding(found, cls) for found in error.errors()))


def dataclass_of(annotation: Any) -> Any:
  """The dataclass that a type is, may be, or is a tuple of; None for a plain type."""
  if dataclasses.is_dataclass(annotation):
    return annotation
  if typing.get_origin(annotation) in (typing.Union, types.UnionType, tuple):
    found = [each for each in typing.get_args(annotation) if dataclasses.is_dataclass(each)]
    return found[0] if found else None
  return None


def dataclasses_below(cls: Any) -> dict[str, Any]:
  """Name -> dataclass, of all that a `cls` is made of."""
  found = {cls.__name__: cls}
  for annotation in typing.get_type_hints(cls).values():
    part = dataclass_of(annotation)
    if part is not None and part.__name__ not in found:
      found |= dataclasses_below(part)
  return found


def field_names(cls: Any) -> list[str]:
  return [field.name for field in dataclasses.fields(cls)]


def _finding(found: Any, cls: Any) -> str:
  message, where = found["msg"], [str(part) for part in found["loc"]]
  if found["type"] == "unexpected_keyword_argument":
    *way, name = where
    owner = _owner(cls, way)
    what = f"{owner.__name__} has no field {name!r}{nearest(name, field_names(owner))}"
    return f"{'.'.join(way)}: {what}" if way else what
  if found["type"] == "value_error":
    # Our own checks, which name what they are of.
    return message.removeprefix("Value error, ")
  return f"{'.'.join(where)}: {message}" if where else message


def _owner(cls: Any, way: Sequence[str]) -> Any:
  """The dataclass at the end of the way, over fields and places in tuples."""
  for step in way:
    if step in field_names(cls):
      cls = dataclass_of(typing.get_type_hints(cls)[step]) or cls
  return cls
