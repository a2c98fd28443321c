"""Which findings stop a run, which only warn, and which pass unsaid."""

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping

import pydantic

from taskmix.gates.findings import Finding, Severity
from taskmix.spec import Net

OWN_TYPES: Mapping[str, str] = {
  "DATA_MISSING": "TFDV saw no example in a split",
  "EMPTY_SPLIT": "a split of the net's mixture holds no example",
  "SAME_PICTURE_IN_TWO_PHASES": "photos with the same pixels stand in train and in eval",
  "NEAR_DUPLICATE_IN_TWO_PHASES": "photos that look the same (re-saved, resized) stand in train and in eval",
  "PHOTO_IN_TWO_PHASES": "examples with one image_id stand in train and in eval",
  "PHOTO_IN_WRONG_PHASE": "examples of a photo stand in another phase than photos.jsonl says",
  "PHOTO_UNLISTED": "examples of a photo that photos.jsonl does not list",
  "MANIFEST_MISSING": "the examples come without manifest.json or photos.jsonl, so shards cannot be checked "
  "against it, nor photos that look the same be found",
  "SHARD_MISSING": "a shard that the manifest lists is not there",
  "SHARD_UNLISTED": "a file among the shards that the manifest does not list",
  "SHARD_CHANGED": "a shard's size or SHA-256 is not the manifest's",
  "SHARD_COUNT": "a shard holds another number of examples than the manifest says",
  "SHARD_DAMAGED": "a shard cannot be read to its end",
  "EXAMPLE_UNREADABLE": "a record is no tf.Example with the net's columns",
  "KIND_NOT_OF_SPLIT": "an example's kind is not the one that its split is named after",
  "NOT_FINITE": "NaN or infinity in a column",
  "BOX_WITHOUT_AREA": "the face's box has no width or no height",
  "BOX_OUT_OF_REACH": "the face's box does not touch the crop, or is further out than its IoU allows",
  "IOU_OUTSIDE_KIND": "the IoU is outside of the range that makes the kind",
  "IOU_NOT_OF_BOX": "the IoU column is not the IoU of the crop with the face's box",
  "LABEL_NOT_OF_KIND": "the face label is not the one that the kind stands for",
  "EYES_SWAPPED": "the left eye lies right of the right eye, seen with the mouth below",
  "POINT_OUTSIDE_CROP": "a landmark lies outside the crop",
  "POINT_OUTSIDE_FACE": "a landmark lies outside the face's box",
  "DRIFT": "a column's values have moved since the last blessed run by more than the policy's `drift`",
  "SKEW": "a column's values differ between train and eval by more than the policy's `skew`",
}
"""The types of finding that TFDV has not, and what each says."""


@functools.cache
def types() -> frozenset[str]:
  """Every type that a policy may name: TFDV's AnomalyInfo.Type and ours."""
  from tensorflow_metadata.proto.v0 import anomalies_pb2

  return frozenset({*anomalies_pb2.AnomalyInfo.Type.keys(), *OWN_TYPES})


@dataclasses.dataclass(frozen=True)
class Limit:
  """How far the values of a column may move.

  Attributes:
    column: of the net, but the image.
    divergence: Jensen-Shannon, 0 (the same distribution) to 1 (nothing in common).
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  column: str
  divergence: float

  def __post_init__(self):
    if not 0 < self.divergence <= 1:
      raise ValueError(f"limit of {self.column!r}: divergence must be in (0, 1], not {self.divergence}")


@dataclasses.dataclass(frozen=True)
class GatePolicy:
  """Which findings stop the run, and how much is looked at.

  Attributes:
    warn: types, such as "SCHEMA_NEW_COLUMN" of TFDV's AnomalyInfo.Type or
      "EYES_SWAPPED" of `OWN_TYPES`, that are reported and let through.
    allow: types that are not even reported. All others stop the run.
    examples_per_split: examples of a split whose columns are checked against each
      other, drawn evenly from its shards; a split with fewer is checked whole.
      Phases, counts and checksums are always checked over everything.
    pictured: examples in the picture of a finding; 0 draws none.
    drift: columns compared with the last blessed run's, split by split; none
      without such a run.
    skew: columns compared between train and eval, kind by kind.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  warn: tuple[str, ...] = ()
  allow: tuple[str, ...] = ()
  examples_per_split: int = 100_000
  pictured: int = 24
  drift: tuple[Limit, ...] = ()
  skew: tuple[Limit, ...] = ()

  def __post_init__(self):
    for name in (*self.warn, *self.allow):
      _require_type(name)
    both = sorted({*self.warn} & {*self.allow})
    if both:
      raise ValueError(f"{', '.join(both)}: either warned of or allowed, not both; remove it from one")
    for name in ("examples_per_split", "pictured"):
      if getattr(self, name) < 0:
        raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)}")

  def severity(self, finding_type: str) -> Severity:
    if finding_type in self.allow:
      return "allow"
    return "warn" if finding_type in self.warn else "stop"

  def judge(self, findings: Iterable[Finding]) -> list[Finding]:
    """The findings with their severity; without those that are allowed."""
    judged = (dataclasses.replace(finding, severity=self.severity(finding.type)) for finding in findings)
    return [finding for finding in judged if finding.severity != "allow"]


def require_columns(policy: GatePolicy, net: Net) -> None:
  """Raises ValueError, with the nearest column, if a limit is on one that the net has not."""
  known = [column.name for column in net.columns if column.dtype != "uint8"]
  for limit in (*policy.drift, *policy.skew):
    if limit.column not in known:
      near = difflib.get_close_matches(limit.column, known, n=1)
      hint = f"; did you mean {near[0]}?" if near else ""
      raise ValueError(
        f"a gate's limit is on {limit.column!r}; the net {net.name!r} has {', '.join(known)}{hint}"
      )


def _require_type(name: str) -> None:
  """Raises ValueError, with the nearest type, if there is none of that name."""
  if name in types():
    return
  near = difflib.get_close_matches(name.upper(), sorted(types()), n=1, cutoff=0.5)
  hint = f"did you mean {near[0]}?" if near else f"ours are {', '.join(OWN_TYPES)}"
  raise ValueError(
    f"a gate has no finding of the type {name!r}; {hint} "
    "(Types are those of taskmix.gates.policy.OWN_TYPES and of TFDV's AnomalyInfo.Type)"
  )
