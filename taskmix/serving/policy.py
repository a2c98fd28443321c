"""What a model must hold before it is pushed; plain settings, light to import."""

import dataclasses
from typing import Literal

import pydantic

# The checks, by the name that a policy or a report calls them.
CHECKS = {
  "operations": "the graph computes, and touches no file, no Python and no other machine",
  "load": "a clean process loads the model and replays its warm-up requests",
  "answers": "answers to real requests equal the Trainer's, over gRPC and REST",
  "finite": "no answer holds NaN or infinity",
  "bad_requests": "bad requests are refused as the client's fault, and the next good one is answered",
  "unasked": "every signature was asked",
  "load_seconds": "from the server's start to its readiness",
  "answer_seconds": "median time of an answer to a request of one example, over gRPC",
  "memory_mib": "the server's peak resident memory",
}

# Measured on a machine that may be busy: another try may end otherwise.
MEASURED = ("load_seconds", "answer_seconds", "memory_mib")


@dataclasses.dataclass(frozen=True)
class ServingPolicy:
  """How a model is asked before it is pushed, and what refuses it.

  Attributes:
    examples: real examples, spread over the eval splits, in the requests.
    large_batch: examples of the largest request; real ones, repeated.
    warm_up: warm-up requests a signature that are put into the pushed model.
    tolerance: answers a and b are equal if |a - b| <= tolerance * (1 + |b|).
      float32 kernels of other batch sizes differ by some 1e-6; give 1e-2 for a
      model that computes in 16 bits.
    load_seconds, answer_seconds, memory_mib: the budgets; see CHECKS.
    deadline_seconds: of one request, after which it counts as unanswered.
    warn: checks of CHECKS that are reported and let through.
    server: "loopback" asks our own; "auto" asks in addition the real one, where
      a tensorflow_model_server is on the path or Docker has `docker_image`.
    docker_image: never pulled by the check.
  """

  __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

  examples: int = 32
  large_batch: int = 256
  warm_up: int = 2
  tolerance: float = 1e-4
  load_seconds: float = 120.0
  answer_seconds: float = 1.0
  memory_mib: int = 4096
  deadline_seconds: float = 60.0
  warn: tuple[str, ...] = ("unasked",)
  server: Literal["auto", "loopback"] = "auto"
  docker_image: str = "tensorflow/serving:2.16.1"

  def __post_init__(self):
    for name in ("examples", "large_batch", "warm_up"):
      if getattr(self, name) < 1:
        raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")
    for name in ("load_seconds", "answer_seconds", "memory_mib", "deadline_seconds"):
      if getattr(self, name) <= 0:
        raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
    if self.tolerance < 0:
      raise ValueError(f"tolerance must be 0 or more, not {self.tolerance}")
    unknown = sorted(set(self.warn) - set(CHECKS))
    if unknown:
      raise ValueError(f"no serving check {', '.join(unknown)}; there is {', '.join(CHECKS)}")
