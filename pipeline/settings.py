"""A config's fields by their paths: `--set train.steps=500`, and `--print-config`.

PATH                            what it means
keep_versions                   a field of the Config
gate.examples_per_split         a field of one of its parts
stages.pnet.training.steps      things of which there are several go by their names
stages.pnet.net.tasks.face.loss_weight
stages.*.training.steps         all of them
train.steps, net.phases.eval_share, pnet.train.steps
                                short for stages.*.training, stages.*.net, stages.pnet.training
"""

import dataclasses
import difflib
import json
import typing
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pydantic

from taskmix.fields import dataclass_of, field_names, nearest, told

T = TypeVar("T")

_STAGES, _ALL = "stages", "*"
_SHORT = {"train": "training"}


def apply(config: T, settings: Sequence[str]) -> T:
  """The config with those fields changed.

  Args:
    config: a frozen dataclass of such, of tuples, and of plain values.
    settings: "PATH=VALUE" each; the later ones win.

  Raises:
    ValueError: for a path that leads nowhere, naming the nearest, a value of
      another type, or a config that its own checks refuse.
  """
  if not settings:
    return config
  tree = dataclasses.asdict(config)  # type: ignore[call-overload]
  for setting in settings:
    path, equals, text = setting.partition("=")
    if not equals:
      raise ValueError(f"--set {setting}: write FIELD=VALUE, such as train.steps=500")
    try:
      for found in _find(config, path.strip()):
        _put(tree, found.keys, _parse(found, text))
    except ValueError as error:
      raise ValueError(f"--set {setting}: {error}") from None
  try:
    return pydantic.TypeAdapter(type(config)).validate_python(tree)
  except pydantic.ValidationError as error:
    raise ValueError(f"--set {' '.join(settings)}: {told(error, type(config))}") from None


def lines(config: Any) -> list[str]:
  """PATH=VALUE of every field, as `apply` takes them."""
  return [f"{path}={_text(value)}" for path, value in _leaves(config, ())]


@dataclasses.dataclass(frozen=True)
class _Field:
  """A field that a path leads to: keys into the tree of `asdict`, its type, its own path."""

  keys: tuple[str | int, ...]
  type: Any
  path: str


def _find(config: Any, path: str) -> list[_Field]:
  """Every field that the path means, one or, for `*`, more."""
  segments = [segment for segment in path.split(".") if segment]
  if not segments:
    raise ValueError("no field is named; write FIELD=VALUE, such as train.steps=500")
  fields = list(_walk(config, type(config), _in_full(config, segments), (), config))
  return [dataclasses.replace(field, path=path) for field in fields]


def _in_full(config: Any, segments: list[str]) -> list[str]:
  """The path without its short forms."""
  first, *rest = segments
  names = {field.name for field in dataclasses.fields(config)}
  if first in names or _STAGES not in names:
    full = segments
  elif first in ("train", "training", "net"):
    full = [_STAGES, _ALL, *segments]
  elif first in [stage.net.name for stage in config.stages]:
    full = [_STAGES, first, *rest]
  else:
    full = segments
  at_stage = full[:1] == [_STAGES] and len(full) > 2
  return [*full[:2], _SHORT.get(full[2], full[2]), *full[3:]] if at_stage else full


def _walk(
  value: Any, annotation: Any, segments: list[str], keys: tuple[str | int, ...], config: Any
) -> Iterator[_Field]:
  if not segments:
    yield _Field(keys, annotation, "")
    return
  first, *rest = segments
  if dataclasses.is_dataclass(value):
    hints = typing.get_type_hints(type(value))
    known = field_names(value)
    if first not in known:
      raise ValueError(_unknown(first, segments, value, known, config, at_top=not keys))
    yield from _walk(getattr(value, first), hints[first], rest, (*keys, first), config)
  elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
    names = _names(value)
    if first not in (*names, _ALL):
      raise ValueError(f"there is no {first!r}{nearest(first, names)}")
    for index, item in enumerate(value):
      if first in (_ALL, names[index]):
        yield from _walk(item, type(item), rest, (*keys, index), config)
  else:
    parent = keys[-1] if keys else "the config"
    raise ValueError(f"{parent} is {_text(value) or 'empty'} and has no field {first!r}")


def _unknown(
  name: str, segments: list[str], value: Any, known: list[str], config: Any, *, at_top: bool
) -> str:
  what = f"{type(value).__name__} has no field {name!r}"
  if at_top:
    wanted = ".".join(segments)
    ends = [path for path in _short_paths(config) if path.endswith(f".{segments[-1]}")]
    close = [] if difflib.get_close_matches(name, known) else _short_paths(config)
    if near := ends or difflib.get_close_matches(wanted, close, n=1):
      return f"{what}; did you mean {near[0]}?"
  return what + nearest(name, known)


def _short_paths(config: Any) -> list[str]:
  """Paths of fields, the shortest form of each, those of the training first."""
  full = [path for path, _ in _leaves(config, ())]
  if not hasattr(config, _STAGES):
    return full
  paths = {}
  for path in full:
    first, *rest = path.split(".")
    if first == _STAGES:
      paths[".".join(("train" if rest[1] == "training" else rest[1], *rest[2:]))] = rest[1] != "training"
    else:
      paths[path] = 2
  return sorted(paths, key=lambda path: paths[path])


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
  if dataclasses.is_dataclass(value):
    for field in dataclasses.fields(value):
      yield from _leaves(getattr(value, field.name), (*path, field.name))
  elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
    for name, item in zip(_names(value), value, strict=True):
      yield from _leaves(item, (*path, name))
  else:
    yield ".".join(path), value


def _names(items: Sequence[Any]) -> list[str]:
  """What each of several is called: its own name if no other has it, else its place."""
  own = [_name(item) for item in items]
  return [name if own.count(name) == 1 and "." not in name else str(place) for place, name in enumerate(own)]


def _name(item: Any) -> str:
  for attribute in ("name", "metric", "column"):
    if isinstance(name := getattr(item, attribute, None), str):
      return name
  return getattr(getattr(item, "net", None), "name", "")


def _put(tree: Any, keys: tuple[str | int, ...], value: Any) -> None:
  *way, last = keys
  for key in way:
    if isinstance(tree[key], tuple):
      tree[key] = list(tree[key])
    tree = tree[key]
  tree[last] = value


def _parse(field: _Field, text: str) -> Any:
  """The value of `text` as the field's type; raises ValueError if it is none."""
  if text in ("none", "null") and _is_optional(field.type):
    return None
  value: Any = text
  if text[:1] in ("[", "{") and field.type is not str:
    value = _json(text)
  elif _is_tuple(field.type):
    value = [each.strip() for each in text.split(",")] if text else []
  part = dataclass_of(field.type)
  if part and value and text[:1] not in ("[", "{"):
    first = field_names(part)[0]
    raise ValueError(f"it has fields of its own: give one, such as {field.path}.{first}=..., or JSON")
  try:
    return pydantic.TypeAdapter(field.type).validate_python(value)
  except pydantic.ValidationError as error:
    why = f" ({told(error, part)})" if part else ""
    raise ValueError(f"{text!r} is not {_wanted(field.type)}{why}") from None


def _json(text: str) -> Any:
  try:
    return json.loads(text)
  except json.JSONDecodeError as error:
    raise ValueError(f"{text} is no JSON: {error}") from None


def _text(value: Any) -> str:
  if isinstance(value, (tuple, list)):
    plain = all(isinstance(each, str) and each and each[0] != "[" and "," not in each for each in value)
    return ",".join(value) if plain else json.dumps(value)
  if value is None:
    return "none"
  return str(value).lower() if isinstance(value, bool) else str(value)


def _wanted(annotation: Any) -> str:
  """A type in words."""
  words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
  if annotation in words:
    return words[annotation]
  if typing.get_origin(annotation) is typing.Literal:
    return f"one of {', '.join(map(repr, typing.get_args(annotation)))}"
  if _is_tuple(annotation):
    return "a list a,b,c (or in JSON)"
  parts = [_wanted(each) for each in typing.get_args(annotation) if each is not type(None)]
  return " or ".join([*parts, *(["none"] if _is_optional(annotation) else [])])


def _is_optional(annotation: Any) -> bool:
  return type(None) in typing.get_args(annotation)


def _is_tuple(annotation: Any) -> bool:
  return typing.get_origin(annotation) is tuple
