"""A process that has imported TFX once, and forks a `taskmix` for each request.

Importing takes half a minute, and a test of faults needs dozens of runs. A fork
is a process of its own: it can be killed with -9, interrupted and starved.

Requests come as lines of JSON on stdin, answers go as such to stdout:

    arguments       of the command `taskmix`
    kill            id of the component in which the process kills itself with -9:
                    when its first output file appears, after `kill_after`
                    seconds, or as its work is done, whichever comes first
    watched         folders beside the component's outputs whose files count too
    interrupt_when  a glob: SIGINT goes to the process and its children, as from
                    a terminal, when a path matches that is newer than the fork
    file_size       the largest file in bytes that may be written (RLIMIT_FSIZE)
    set_up          Python that is run first, in the fork
"""

import contextlib
import glob
import json
import os
import pathlib
import resource
import signal
import sys
import tempfile
import threading
import time

_DEADLINE = 600


def main() -> None:
  answers = os.fdopen(os.dup(1), "w", buffering=1)
  os.dup2(2, 1)
  _import_everything()
  print(json.dumps({"threads": len(os.listdir("/proc/self/task"))}), file=answers)
  for line in sys.stdin:
    print(json.dumps(_run(json.loads(line))), file=answers)


def _import_everything() -> None:
  import keras  # noqa: F401
  import tensorflow_model_analysis  # noqa: F401
  import tensorflow_transform.beam  # noqa: F401

  from pipeline import cli, dag, local, run, summary  # noqa: F401
  from taskmix.model import training  # noqa: F401
  from taskmix.serving import check, reference  # noqa: F401


def _run(request: dict) -> dict:
  begin = time.monotonic()
  with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
    child = os.fork()
    if child == 0:
      _become(request, out.fileno(), err.fileno())
    status = _wait(child, request.get("interrupt_when", ""))
    texts = []
    for file in (out, err):
      file.seek(0)
      texts.append(file.read())
  code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
  return {"code": code, "stdout": texts[0], "stderr": texts[1], "seconds": time.monotonic() - begin}


def _become(request: dict, out: int, err: int) -> None:
  """The fork: runs the command and ends."""
  code = 70
  try:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    if request.get("file_size"):
      signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
      resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_size"],) * 2)
    if request.get("kill"):
      _kill_in(request["kill"], request.get("kill_after", 3.0), request.get("watched", []))
    exec(request.get("set_up", ""), {})
    from pipeline import cli

    sys.argv = ["taskmix", *request["arguments"]]
    cli.main()
  except SystemExit as end:
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
  except BaseException:
    import traceback

    traceback.print_exc()
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait(child: int, interrupt_when: str) -> int:
  begin, deadline = time.time(), time.monotonic() + _DEADLINE
  while True:
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
      return status
    if interrupt_when and _newer(interrupt_when, begin):
      os.killpg(child, signal.SIGINT)
      interrupt_when = ""
    if time.monotonic() > deadline:
      os.killpg(child, signal.SIGKILL)
    time.sleep(0.02)


def _newer(pattern: str, moment: float) -> bool:
  for path in glob.glob(pattern):
    with contextlib.suppress(FileNotFoundError):
      if os.path.getmtime(path) > moment:
        return True
  return False


def _kill_in(component: str, seconds: float, watched: list[str]) -> None:
  """Has the process kill itself in the middle of a component's work."""
  from tfx.orchestration.portable import python_executor_operator

  work = python_executor_operator.run_with_executor

  def killed(execution_info, executor):
    if execution_info.pipeline_node.node_info.id != component:
      return work(execution_info, executor)
    folders = [artifact.uri for each in execution_info.output_dict.values() for artifact in each]
    before = {path for folder in watched for path in _files(folder)}
    threading.Thread(target=watch, args=([*folders, *watched], before), daemon=True).start()
    try:
      work(execution_info, executor)
    finally:
      _die()

  def watch(folders: list[str], before: set[str]) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not any(
      path not in before for folder in folders for path in _files(folder)
    ):
      time.sleep(0.002)
    _die()

  python_executor_operator.run_with_executor = killed


def _files(folder: str) -> list[str]:
  # `folder.partial` too: what is written aside.
  roots = glob.glob(f"{glob.escape(folder)}*")
  return [os.path.join(at, name) for root in roots for at, _, names in os.walk(root) for name in names]


def _die() -> None:
  os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
  sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
  main()
