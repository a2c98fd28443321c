"""What the pool's tests have its children do: a module that a child can import by its name."""

import os
import signal
import time


def double(number: int) -> int:
  print("what a library prints does not get between the answers")
  return 2 * number


def whoami(_: int) -> int:
  time.sleep(0.05)
  return os.getpid()


def refuse_three(number: int) -> int:
  if number == 3:
    raise ValueError("three is not allowed")
  return number


class AwkwardError(Exception):
  """Cannot be rebuilt from its message alone."""

  def __init__(self, first, second):
    super().__init__(f"{first} and {second}")


def raise_awkward(_: int) -> int:
  raise AwkwardError("this", "that")


def die(number: int) -> int:
  if number == 2:
    os.kill(os.getpid(), signal.SIGKILL)
  return number
