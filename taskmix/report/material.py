"""What a report is made from: the artifacts of a run, and what its runner tells."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from taskmix.evaluation import EvaluationPolicy
from taskmix.spec import Net, Training, from_json


@dataclasses.dataclass(frozen=True)
class NetPlaces:
  """Folders of a net's artifacts; "" where its components did not come to them."""

  examples: str = ""
  statistics: str = ""
  anomalies: str = ""
  gate_report: str = ""
  model: str = ""
  model_run: str = ""
  evaluation: str = ""
  blessing: str = ""


@dataclasses.dataclass(frozen=True)
class Places:
  """Folders of a run's artifacts; "" where there are none.

  Attributes:
    nets: in the order of the stages.
    detector: the assembled Model.
    detection: the DetectionEvaluator's evaluation.
    serving: the ServingCheck's blessing.
    pushed: the version that was pushed.
  """

  nets: tuple[NetPlaces, ...]
  detector: str = ""
  detection: str = ""
  serving: str = ""
  pushed: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
  """What was to be run, as the pipeline tells its last component.

  Attributes:
    name: of the config.
    config: as plain data: a `pipeline.config.Config`.
    nets: how many of its stages are run.
    data_root: the data folder.
    dag: component -> those that it waits for, in the order of the run.
  """

  name: str
  config: Mapping[str, Any]
  nets: int
  data_root: str
  dag: tuple[tuple[str, tuple[str, ...]], ...] = ()

  def stage_net(self, place: int) -> Net:
    return Net.from_json(json.dumps(self.config["stages"][place]["net"]))

  def stage_training(self, place: int) -> Training:
    return from_json(Training, json.dumps(self.config["stages"][place]["training"]))

  @property
  def evaluation_policy(self) -> EvaluationPolicy:
    return from_json(EvaluationPolicy, json.dumps(self.config["evaluation"]))

  @property
  def whole(self) -> bool:
    """Whether the run goes on to a push."""
    return self.nets == len(self.config["stages"])


@dataclasses.dataclass(frozen=True)
class Failure:
  """What ended a run early.

  Attributes:
    component: that failed.
    message: a gate's findings, or the error.
    by_gate: whether a gate stopped the run, and no mistake.
    where: folder of the gate's report; "" for none.
  """

  component: str
  message: str
  by_gate: bool = False
  where: str = ""


@dataclasses.dataclass(frozen=True)
class StepRecord:
  """A component that ended well: "done" or "cached"."""

  component: str
  state: str
  seconds: float


@dataclasses.dataclass(frozen=True)
class Journal:
  """What a runner tells of its run; empty where it tells nothing.

  Attributes:
    run: names the run in its folder.
    started: ISO 8601.
    seconds: so far.
    command: that repeats the run.
    data: the data folder.
    log: the file with what the libraries said.
    steps: in the order in which they ended.
    failure: None while all is well.
  """

  run: str = ""
  started: str = ""
  seconds: float | None = None
  command: str = ""
  data: str = ""
  log: str = ""
  steps: tuple[StepRecord, ...] = ()
  failure: Failure | None = None
