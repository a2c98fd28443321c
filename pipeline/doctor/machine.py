"""What any run needs of the machine."""

import importlib.metadata
import os
import pathlib
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping

from pipeline.doctor.check import Check, at_least, guarded
from pipeline.folders import RunFolder

# GiB. The demo's run takes 2.9 at the most; a full disk costs more than a look.
_MEMORY_NEED, _MEMORY_GOOD = 2.0, 4.0
_DISK_NEED, _DISK_GOOD = 1.0, 10.0

# What listens where, if it is started as its own pages say.
_PORTS = {6006: "TensorBoard", 8081: "Flink", 8099: "a Beam job server", 8500: "TF Serving, gRPC"}


_AWS = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN")


def checks(folder: RunFolder, *, lock: pathlib.Path) -> Iterator[Check]:
  """Every check of the machine.

  Args:
    folder: of the run.
    lock: requirements.lock, of a checkout.
  """
  yield interpreter()
  yield libc(platform.libc_ver())
  yield from guarded("versions", lambda: [versions(lock)], remedy="make setup")
  yield cores()
  yield from guarded("memory", lambda: [memory()], remedy="look at /proc/meminfo")
  yield disk("disk of runs", folder.root, remedy="free some space, or give another disk's folder with --runs")
  yield disk("temporary disk", pathlib.Path(os.environ.get("TMPDIR", "/tmp")), remedy="set TMPDIR elsewhere")
  yield writable(folder.root)
  yield gpu()
  yield tool(
    "Docker",
    ["docker", "info", "--format", "{{.ServerVersion}}"],
    r"([\d.]+)",
    "docker.io",
    "only Kubeflow's image, and asking the real TF Serving, need it",
  )
  yield tool(
    "Java",
    ["java", "-version"],
    r'version "([\d._]+)',
    "openjdk-17-jre-headless",
    "only Flink's job server needs it",
  )
  yield from credentials(os.environ, pathlib.Path.home())
  yield from ports()


def interpreter() -> Check:
  found = f"Python {platform.python_version()} at {sys.executable}"
  if sys.version_info[:2] != (3, 10):
    return Check("interpreter", "error", found, "TFX needs Python 3.10: make setup finds one, or says how")
  return Check("interpreter", "ok", found)


def libc(version: tuple[str, str]) -> Check:
  """Args: version: of `platform.libc_ver`."""
  name, number = version
  found = f"{platform.system()} {platform.machine()}, {name or 'no glibc'} {number}".rstrip()
  try:
    enough = name == "glibc" and tuple(map(int, number.split("."))) >= (2, 35)
  except ValueError:
    enough = False
  remedy = "" if enough else "TFX's wheels want Linux with glibc 2.35 or later, such as Debian 12"
  return Check("system", "ok" if enough else "warning", found, remedy)


def versions(lock: pathlib.Path) -> Check:
  """The packages of the lock that are needed to run; those of tests and tools may be missing."""
  if not lock.is_file():
    return Check(
      "versions", "warning", f"no {lock}: versions cannot be compared", "run from a checkout of taskmix"
    )
  wanted = _locked(lock.read_text())
  runtime = lock.parent / "kubeflow" / lock.name
  needed = _locked(runtime.read_text()) if runtime.is_file() else wanted
  have = {name: _installed(name) for name in wanted}
  missing = [name for name in needed if not have.get(name)]
  others = [
    f"{name} {have[name]}, not {version}"
    for name, version in wanted.items()
    if have[name] not in (None, version)
  ]
  if missing:
    return Check("versions", "error", f"missing: {_some(missing)}", "make setup")
  if others:
    found = f"{len(others)} of {len(wanted)} are not the lock's: {_some(others)}"
    return Check("versions", "warning", found, "make setup (delete .venv first, if it stays so)")
  return Check("versions", "ok", f"all {sum(map(bool, have.values()))} are the lock's")


def _locked(text: str) -> dict[str, str]:
  """Package -> version."""
  return dict(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^\s;]+)", text, re.MULTILINE))


def _installed(name: str) -> str | None:
  try:
    return importlib.metadata.version(name)
  except importlib.metadata.PackageNotFoundError:
    return None


def _some(names: list[str], most: int = 4) -> str:
  return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def cores() -> Check:
  count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
  return Check("cores", "ok", f"{count}")


def memory() -> Check:
  """What is free, and no more than a container may have."""
  import psutil

  free = psutil.virtual_memory().available
  limit = pathlib.Path("/sys/fs/cgroup/memory.max")
  if limit.is_file() and (text := limit.read_text().strip()).isdigit():
    used = int(pathlib.Path("/sys/fs/cgroup/memory.current").read_text())
    free = min(free, int(text) - used)
  gib = free / 2**30
  return at_least(
    "memory",
    gib,
    need=_MEMORY_NEED,
    good=_MEMORY_GOOD,
    found=f"{gib:.1f} GiB free",
    remedy="close other programs, or lower --set train.batch_size and --set train.memory_budget_mib",
  )


def disk(name: str, folder: pathlib.Path, *, remedy: str) -> Check:
  """Free space where `folder` is, or will be."""
  there = next(each for each in (folder, *folder.resolve().parents) if each.exists())
  gib = shutil.disk_usage(there).free / 2**30
  found = f"{gib:.1f} GiB free at {there}"
  return at_least(name, gib, need=_DISK_NEED, good=_DISK_GOOD, found=found, remedy=remedy)


def writable(folder: pathlib.Path) -> Check:
  there = next(each for each in (folder, *folder.resolve().parents) if each.exists())
  if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
    return Check("run folder", "error", f"{there} cannot be written", "give another folder with --runs")
  return Check("run folder", "ok", f"{folder}{'' if folder.exists() else ', to be made'}")


def gpu() -> Check:
  """NVIDIA's, and whether TensorFlow has its libraries."""
  if not shutil.which("nvidia-smi"):
    return Check("GPU", "ok", "none: training is on the processor")
  query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
  told = _output(query)
  if told is None:
    return Check("GPU", "warning", "nvidia-smi fails", "look at the driver; training is on the processor")
  names = "; ".join(line.strip() for line in told.splitlines() if line.strip())
  if not _installed("nvidia-cudnn-cu12"):
    return Check("GPU", "warning", f"{names}, but TensorFlow lacks CUDA", "pip install 'taskmix[gpu]'")
  return Check("GPU", "ok", names)


def tool(name: str, command: list[str], pattern: str, package: str, need: str) -> Check:
  """A program that only a part of taskmix needs.

  Args:
    name: to show.
    command: that prints its version.
    pattern: whose first group finds the version in what is printed.
    package: Debian's.
    need: who needs it.
  """
  if not shutil.which(command[0]):
    return Check(name, "warning", f"not here; {need}", f"apt-get install {package}")
  told = _output(command)
  found = re.search(pattern, told or "")
  if not found:
    remedy = "start its service, or mend its rights"
    return Check(name, "warning", f"`{command[0]} {command[1]}` fails; {need}", remedy)
  return Check(name, "ok", found[1])


def _output(command: list[str]) -> str | None:
  """Both streams; None if the command fails."""
  try:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
  except (OSError, subprocess.TimeoutExpired):
    return None
  return None if done.returncode else done.stdout + done.stderr


def credentials(environment: Mapping[str, str], home: pathlib.Path) -> Iterator[Check]:
  """Whether there are any; none is read."""
  named = environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
  google = home / ".config" / "gcloud" / "application_default_credentials.json"
  if named and not pathlib.Path(named).is_file():
    found = f"GOOGLE_APPLICATION_CREDENTIALS names {named}, which is not there"
    yield Check("Google credentials", "error", found, "correct the variable, or unset it")
  else:
    where = "GOOGLE_APPLICATION_CREDENTIALS" if named else str(google) if google.is_file() else ""
    yield _present("Google credentials", where, "gs:// and Dataflow", "gcloud auth application-default login")
  where = next((name for name in _AWS if environment.get(name)), "")
  aws = home / ".aws" / "credentials"
  yield _present("AWS credentials", where or (str(aws) if aws.is_file() else ""), "s3://", "aws configure")
  cluster = pathlib.Path(environment.get("KUBECONFIG") or home / ".kube" / "config")
  where = str(cluster) if cluster.is_file() else ""
  yield _present("Kubernetes credentials", where, "submitting to a cluster", "see docs/kubeflow.md")


def _present(name: str, where: str, need: str, remedy: str) -> Check:
  # None is the usual state of a machine that trains alone, and no fault.
  return Check(name, "ok", f"present: {where}" if where else f"none; only {need} would need them: {remedy}")


def ports() -> Iterator[Check]:
  """A free one for the ServingCheck, and what others would listen on."""
  try:
    with socket.create_server(("127.0.0.1", 0)):
      pass
    yield Check("ports", "ok", "the ServingCheck finds a free one")
  except OSError as error:
    remedy = "the ServingCheck starts a server on 127.0.0.1: let this user do so"
    yield Check("ports", "error", f"none can be had: {error}", remedy)
  for port, owner in _PORTS.items():
    with socket.socket() as probe:
      probe.settimeout(0.2)
      if probe.connect_ex(("127.0.0.1", port)) == 0:
        remedy = f"give {owner} another port, where you start one"
        yield Check(f"port {port}", "warning", f"taken; {owner} would listen there", remedy)
