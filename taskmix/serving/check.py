"""Is this SavedModel fit to be served? A clean process is asked, and its answers compared.

The model is assembled as it would be pushed (warm-up file included), published
into a scratch folder by the code that publishes it for good, loaded by a server
in a process without taskmix, and asked over gRPC and REST with real requests
and bad ones.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from taskmix.serving import launch, questions, reference, versions, warm_up
from taskmix.serving.client import Client, GrpcClient, Refusal, RestClient, rest_can_carry
from taskmix.serving.operations import forbidden_operations
from taskmix.serving.policy import MEASURED, ServingPolicy
from taskmix.serving.questions import Question
from taskmix.serving.signatures import Signature, read_signatures
from taskmix.serving.warm_up import Answer

# A minute of JSON would check the parser, not the model.
_REST_VALUES = 4_000_000

# Timed requests: enough for a median on a busy machine.
_TIMED = 21


@dataclasses.dataclass(frozen=True)
class Finding:
  """One thing that is wrong.

  Attributes:
    check: of policy.CHECKS.
    severity: "stop" refuses the model; "warn" does not.
    server: the kind of server that showed it; "" for the model's own files.
    detail: what, with the numbers.
  """

  check: str
  severity: str
  server: str
  detail: str

  def __str__(self) -> str:
    return f"{self.check}{f' ({self.server})' if self.server else ''}: {self.detail}"


@dataclasses.dataclass(frozen=True)
class Report:
  """What a check came to.

  Attributes:
    findings: what is wrong; none if all is well.
    asked: signature -> requests answered or refused as they should be.
    measured: server -> load_seconds, answer_seconds, memory_mib.
  """

  findings: tuple[Finding, ...]
  asked: Mapping[str, int]
  measured: Mapping[str, Mapping[str, float]]

  @property
  def stops(self) -> list[Finding]:
    return [finding for finding in self.findings if finding.severity == "stop"]

  @property
  def blessed(self) -> bool:
    return not self.stops

  @property
  def depends_on_the_machine(self) -> bool:
    """Whether it was refused by budgets alone, so that another try may end otherwise."""
    return bool(self.stops) and all(finding.check in MEASURED for finding in self.stops)

  def to_json(self) -> str:
    return json.dumps({"blessed": self.blessed, **dataclasses.asdict(self)}, indent=2, sort_keys=True) + "\n"

  @classmethod
  def from_json(cls, text: str) -> "Report":
    content = json.loads(text)
    findings = tuple(Finding(**finding) for finding in content["findings"])
    return cls(findings, content["asked"], content["measured"])


def read_report(folder: str | os.PathLike) -> Report:
  """The report that ServingCheck left in its artifact."""
  return Report.from_json(pathlib.Path(folder, "report.json").read_text())


@dataclasses.dataclass(frozen=True)
class _Material:
  """What requests are made of."""

  examples: Sequence[bytes]
  photos: Sequence[bytes]
  constants: Mapping[str, Any]

  def inputs(self, signature: Signature) -> tuple[dict[str, np.ndarray] | None, bool]:
    """What fills the signature, None if nothing does, and whether that is photos."""
    for make, material in ((questions.from_photos, self.photos), (questions.from_examples, self.examples)):
      if material:
        inputs = make(signature, material, constants=self.constants)
        if inputs is not None:
          return inputs, material is self.photos
    return None, False


@dataclasses.dataclass(frozen=True)
class _Paper:
  """The examination: every question, and the answers of those that have one."""

  good: list[Question]
  answers: list[Answer]
  bad: list[Question]

  @property
  def quick(self) -> Question:
    """One example, to time with and to ask between others."""
    return self.good[0]


class _Judge:
  """Collects findings of one kind of server, each check's severity by the policy."""

  def __init__(self, policy: ServingPolicy, server: str):
    self.policy = policy
    self.server = server
    self.findings: list[Finding] = []
    self.asked: dict[str, int] = {}

  def fault(self, check: str, detail: str) -> None:
    severity = "warn" if check in self.policy.warn else "stop"
    finding = Finding(check, severity, self.server, detail)
    if finding not in self.findings:
      self.findings.append(finding)

  def passed(self, question: Question) -> None:
    self.asked[question.signature] = self.asked.get(question.signature, 0) + 1

  def budget(self, check: str, value: float, unit: str) -> None:
    bound = getattr(self.policy, check)
    if value > bound:
      self.fault(check, f"{value:.3g} {unit}, and the budget is {bound:g} {unit}")


def check_model(
  model: str | os.PathLike,
  pushed: str | os.PathLike,
  *,
  examples: Sequence[bytes] = (),
  photos: Sequence[bytes] = (),
  constants: Mapping[str, Any] | None = None,
  policy: ServingPolicy | None = None,
  name: str = "model",
) -> Report:
  """Assembles the pushed form of a model, has it served, and asks it.

  Args:
    model: the SavedModel as the Trainer, or the assembler, wrote it.
    pushed: folder to be made: what would be pushed.
    examples: real serialized tf.Examples, as before Transform.
    photos: real JPEG or PNG files, for models that take photos.
    constants: values of inputs that neither fills, by the input's name, such as
      a detector's thresholds.
    policy: budgets, and what only warns.
    name: of the model.

  Raises:
    ValueError: if there is nothing real to ask with.
  """
  policy = policy or ServingPolicy()
  if not examples and not photos:
    raise ValueError("the serving check needs real examples or photos to ask the model about, and got none")
  judge = _Judge(policy, "")
  try:
    for operation in forbidden_operations(model):
      judge.fault("operations", f"the graph {operation}; a model that answers requests has no need to")
    if any(finding.severity == "stop" for finding in judge.findings):
      return Report(tuple(judge.findings), {}, {})
    paper = _paper(pathlib.Path(model), _Material(examples, photos, constants or {}), policy, judge)
    assemble(model, pushed, paper.good, answers=paper.answers, policy=policy, name=name)
    recorded = warm_up.read_warm_up(pushed)
  except ValueError as error:
    judge.fault("load", str(error))
    return Report(tuple(judge.findings), {}, {})
  findings, asked, measured = list(judge.findings), {}, {}
  for kind in launch.server_kinds(policy):
    judge = _Judge(policy, kind)
    measured[kind] = _examine(pathlib.Path(pushed), paper, recorded, judge, name)
    findings += judge.findings
    for signature, count in judge.asked.items():
      asked[signature] = asked.get(signature, 0) + count
  return Report(tuple(findings), asked, measured)


def assemble(
  model: str | os.PathLike,
  pushed: str | os.PathLike,
  good: Sequence[Question],
  *,
  answers: Sequence[Answer],
  policy: ServingPolicy,
  name: str = "model",
) -> None:
  """Copies the model and adds a warm-up file, unless it brought its own.

  Args:
    model: the SavedModel.
    pushed: the folder to be made.
    good: requests; the first few of each signature become its warm-up.
    answers: paired with `good`.
    policy: how many.
    name: of the model.
  """
  shutil.copytree(model, pushed, dirs_exist_ok=True)
  if pathlib.Path(pushed, warm_up.WARM_UP).exists():
    return
  chosen: list[tuple[Question, Answer]] = []
  for question, answer in zip(good, answers, strict=True):
    if sum(question.signature == other.signature for other, _ in chosen) < policy.warm_up:
      chosen.append((question, answer))
  warm_up.write_warm_up(
    pushed, [question for question, _ in chosen], answers=[answer for _, answer in chosen], name=name
  )


def _paper(
  model: pathlib.Path,
  material: _Material,
  policy: ServingPolicy,
  judge: _Judge,
) -> _Paper:
  good, bad = [], []
  for signature in read_signatures(model).values():
    inputs, from_photos = material.inputs(signature)
    if inputs is None:
      judge.fault(
        "unasked",
        f"signature {signature.name!r} was not asked: nothing that was given fills "
        f"{', '.join(signature.needed)}",
      )
      continue
    batched = questions.is_batched(signature)
    good += questions.real_questions(signature.name, inputs, large_batch=policy.large_batch, batched=batched)
    bad += questions.bad_questions(signature, inputs, photos=from_photos)
  if not good:
    raise ValueError(f"no signature of {model} can be asked about what was given")
  bad.append(questions.stray_question(good[0].inputs))
  return _Paper(good, reference.answers(model, good), bad)


def _examine(
  pushed: pathlib.Path,
  paper: _Paper,
  recorded: list[tuple[Question, Answer]],
  judge: _Judge,
  name: str,
) -> dict[str, float]:
  """Has one kind of server serve and answer; returns what was measured."""
  measured: dict[str, float] = {}
  with tempfile.TemporaryDirectory(prefix="taskmix-check-") as scratch:
    base = pathlib.Path(scratch, name)
    versions.publish(pushed, base, record=versions.Record(model=name))
    try:
      with launch.serving(base, judge.server, name=name, policy=judge.policy) as server:
        measured["load_seconds"] = server.start_seconds
        judge.budget("load_seconds", server.start_seconds, "s")
        clients = [GrpcClient(server.grpc, name), RestClient(server.rest, name)]
        try:
          _ask_everything(clients, paper, recorded, judge, server)
          if server.alive:
            measured["answer_seconds"] = _median_seconds(clients[0], paper.quick, judge)
            judge.budget("answer_seconds", measured["answer_seconds"], "s")
          peak = server.peak_mib()
          if peak is not None:
            measured["memory_mib"] = peak
            judge.budget("memory_mib", peak, "MiB")
        finally:
          for client in clients:
            client.close()
    except launch.NotServed as error:
      judge.fault("load", str(error))
    except launch.NotReadyInTime as error:
      judge.fault("load_seconds", str(error))
  return measured


def _ask_everything(
  clients: Sequence[Client],
  paper: _Paper,
  recorded: list[tuple[Question, Answer]],
  judge: _Judge,
  server: launch.Server,
) -> None:
  """Good questions, the Trainer's recorded ones, bad ones, and a good one once more."""
  known = [*zip(paper.good, paper.answers, strict=True), *((q, answer) for q, answer in recorded if answer)]
  for client, question, answer in _pairs(clients, known):
    _ask_good(client, question, answer, judge)
  for client in clients:
    for question in paper.bad:
      _ask_bad(client, question, judge)
      if not server.alive:
        judge.fault("bad_requests", f"the server died of {_what(client, question)}: {server.last_words()}")
        return
    _ask_good(client, paper.quick, paper.answers[0], judge, check="bad_requests")


def _pairs(
  clients: Sequence[Client], known: Sequence[tuple[Question, Answer]]
) -> Iterator[tuple[Client, Question, Answer]]:
  """Every question by every client that can carry it and its answer."""
  for question, answer in known:
    for client in clients:
      values = sum(value.size for value in question.inputs.values() if value.dtype != object)
      if client.form == "gRPC" or (rest_can_carry(answer) and values <= _REST_VALUES):
        yield client, question, answer


def _ask(client: Client, question: Question, judge: _Judge) -> dict[str, np.ndarray]:
  return client.ask(
    question.signature, question.inputs, timeout=judge.policy.deadline_seconds, rows=question.rows
  )


def _ask_good(
  client: Client, question: Question, expected: Answer, judge: _Judge, *, check: str = "answers"
) -> None:
  try:
    got = _ask(client, question, judge)
  except Refusal as refusal:
    after = "" if check == "answers" else " after the bad requests"
    judge.fault(check, f"{_what(client, question)} got no answer{after}: {refusal}")
    return
  if set(got) == {""}:
    got = dict.fromkeys(expected, got[""])
  difference = _difference(got, expected, judge.policy.tolerance)
  if difference:
    judge.fault(check, f"{_what(client, question)}: {difference}")
  for name in _not_finite(got):
    judge.fault("finite", f"{_what(client, question)}: output {name!r} holds NaN or infinity")
  if not difference:
    judge.passed(question)


def _ask_bad(client: Client, question: Question, judge: _Judge) -> None:
  try:
    _ask(client, question, judge)
  except Refusal as refusal:
    if refusal.client_fault:
      judge.passed(question)
    else:
      judge.fault(
        "bad_requests", f"{_what(client, question)} was not refused as the client's fault but with {refusal}"
      )
    return
  if question.expect == "refusal":
    judge.fault("bad_requests", f"{_what(client, question)} was answered, and should have been refused")
  else:
    judge.passed(question)


def _median_seconds(client: Client, question: Question, judge: _Judge) -> float:
  seconds = []
  for _ in range(_TIMED):
    begin = time.monotonic()
    # A refusal was reported where answers were compared; its time still counts.
    with contextlib.suppress(Refusal):
      _ask(client, question, judge)
    seconds.append(time.monotonic() - begin)
    if sum(seconds) > _TIMED * judge.policy.answer_seconds:
      break
  return statistics.median(seconds)


def _empty_in_json(have: np.ndarray, want: np.ndarray) -> bool:
  """Whether both hold nothing, and JSON, which cannot say how nothing is shaped, lost the last sides."""
  return not want.size and not have.size and want.shape[: have.ndim] == have.shape


def _difference(got: Answer, expected: Answer, tolerance: float) -> str:
  """How two answers differ, in words; "" if they are equal."""
  if set(got) != set(expected):
    return f"outputs {', '.join(sorted(got))}, and the Trainer's model has {', '.join(sorted(expected))}"
  for name, want in sorted(expected.items()):
    have = got[name]
    if _empty_in_json(have, want):
      continue
    if have.shape != want.shape:
      return f"output {name!r} has shape {have.shape}, and the Trainer's {want.shape}"
    if want.dtype.kind == "f" and have.dtype.kind in "iuf":
      close = np.isclose(have, want, rtol=tolerance, atol=tolerance, equal_nan=True)
      if not close.all():
        worst = float(np.nanmax(np.abs(np.where(close, 0, have - want)), initial=0))
        return (
          f"output {name!r} differs from the Trainer's by up to {worst:.3g} in {int((~close).sum())} of "
          f"{close.size} values; the tolerance is {tolerance:g}"
        )
    elif not np.array_equal(have, want):
      return f"output {name!r} differs from the Trainer's"
  return ""


def _not_finite(answer: Answer) -> list[str]:
  return [name for name, value in answer.items() if value.dtype.kind == "f" and not np.isfinite(value).all()]


def _what(client: Client, question: Question) -> str:
  return f"{question.about} to {question.signature!r} over {client.form}"
