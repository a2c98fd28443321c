"""What a gate saw, and the message of a run that it stopped."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, Literal

from taskmix.examples.codec import Sample
from taskmix.sources.files import open_binary

Severity = Literal["stop", "warn", "allow"]

# What a message names of a finding; its report names NAMED.
SHOWN, NAMED = 5, 100


@dataclasses.dataclass(frozen=True)
class Finding:
  """One thing that a gate saw, as often as it saw it.

  Attributes:
    type: one of `taskmix.gates.policy.types()`.
    split: where; "" is the whole conversion.
    feature: the column; "" is none in particular.
    description: what is wrong, for a person.
    count: how often.
    names: the first NAMED of what is wrong: examples, photos, files.
    severity: by the policy.
    picture: path of a picture of the examples; "" where there is none.
  """

  type: str
  split: str
  feature: str
  description: str
  count: int = 1
  names: tuple[str, ...] = ()
  severity: Severity = "stop"
  picture: str = ""

  def __str__(self) -> str:
    places = [f"split {self.split}"] * bool(self.split) + [f"feature {self.feature}"] * bool(self.feature)
    lines = [f"{', '.join(places) or 'the conversion'}: {self.type}: {self.description}"]
    lines += [f"    {name}" for name in self.names[:SHOWN]]
    if self.names and self.count > SHOWN:
      lines.append(f"    and {self.count - SHOWN:,} more")
    if self.picture:
      lines.append(f"    picture: {self.picture}")
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Example:
  """One example of a conversion.

  Attributes:
    split, shard: the folder's split and the file's name.
    index: of the record in the file, from 0.
    image_id: the photo that it comes from.
  """

  split: str
  shard: str
  index: int
  image_id: str

  def __str__(self) -> str:
    return f"{self.split}/{self.shard} record {self.index} ({self.image_id})"


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
  """A finding, and the first examples of it with all their columns.

  Attributes:
    finding: as it is reported.
    samples: for a picture.
  """

  finding: Finding
  samples: tuple[tuple[Example, Sample], ...] = ()


class GateError(ValueError):
  """A gate stopped the run; the message is its findings, fit to be shown alone.

  Attributes:
    where: folder of the gate's report; "" where it has none.
  """

  def __init__(self, message: str, *, where: str = ""):
    super().__init__(message)
    self.where = where


def raise_on_stop(gate: str, findings: Iterable[Finding], where: str) -> None:
  """Raises GateError if any finding stops the run.

  Args:
    gate: the component's name, for the message.
    findings: what it saw.
    where: the folder of the full report.
  """
  stops = [finding for finding in findings if finding.severity == "stop"]
  if stops:
    lines = "\n".join("  " + str(finding).replace("\n", "\n  ") for finding in stops)
    raise GateError(
      f"{gate} stopped the run: {len(stops)} finding{'s' * (len(stops) > 1)}\n{lines}\n"
      f"  Mend the data, or the schema if the data is right; to let a type of finding pass, name it "
      f"in the config's GatePolicy. The full report: {where}",
      where=where,
    )


def read_report(path: str) -> list[Finding]:
  """The findings of a gate's `report.json`, as `as_json` wrote them."""
  with open_binary(path) as file:
    return [Finding(**{**fields, "names": tuple(fields["names"])}) for fields in json.loads(file.read())]


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
  """The findings as the report holds them."""
  return [dataclasses.asdict(finding) for finding in findings]
