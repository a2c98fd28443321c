"""What the doctor finds of a machine, with its remedy."""

import json
import socket

import pytest

from pipeline.doctor import machine
from pipeline.doctor.check import Check, failed, guarded


def _lock(tmp_path, *lines):
  path = tmp_path / "requirements.lock"
  path.write_text("# made by hand\n" + "".join(f"{line}\n    # via taskmix\n" for line in lines))
  return path


def test_versions_that_are_the_locks_are_fine(tmp_path):
  lock = _lock(tmp_path, f"pytest=={pytest.__version__}")
  assert machine.versions(lock) == Check("versions", "ok", "all 1 are the lock's")


def test_another_version_is_a_warning_and_a_missing_package_an_error(tmp_path):
  other = machine.versions(_lock(tmp_path, "pytest==0.1"))
  assert other.state == "warning"
  assert f"pytest {pytest.__version__}, not 0.1" in other.found
  missing = machine.versions(_lock(tmp_path, "no-such-package==1.0"))
  assert (missing.state, missing.remedy) == ("error", "make setup")


def test_a_package_that_only_tests_need_may_be_missing(tmp_path):
  lock = _lock(tmp_path, "no-such-package==1.0")
  (tmp_path / "kubeflow").mkdir()
  (tmp_path / "kubeflow" / "requirements.lock").write_text("")
  assert machine.versions(lock).state == "ok"


@pytest.mark.parametrize(
  ("version", "state"),
  [(("glibc", "2.36"), "ok"), (("glibc", "2.31"), "warning"), (("", ""), "warning")],
)
def test_an_old_libc_is_told(version, state):
  assert machine.libc(version).state == state


def test_a_full_disk_is_an_error_with_its_remedy(tmp_path, monkeypatch):
  monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 2**29}))
  check = machine.disk("disk", tmp_path / "not" / "there", remedy="free some")
  assert check == Check("disk", "error", f"0.5 GiB free at {tmp_path}", "free some")


def test_credentials_are_told_as_present_or_not_and_never_read(tmp_path):
  present = tmp_path / "key.json"
  present.write_text("secret")
  present.chmod(0)
  environment = {"GOOGLE_APPLICATION_CREDENTIALS": str(present), "AWS_PROFILE": "mine"}
  checks = list(machine.credentials(environment, tmp_path))
  assert [check.state for check in checks] == ["ok"] * 3
  assert checks[0].found == "present: GOOGLE_APPLICATION_CREDENTIALS"
  assert checks[1].found == "present: AWS_PROFILE"
  assert checks[2].found.startswith("none")
  assert "secret" not in str(checks)


def test_credentials_that_point_nowhere_are_an_error(tmp_path):
  environment = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "gone.json")}
  first, *_ = machine.credentials(environment, tmp_path)
  assert first.state == "error"
  assert "gone.json" in first.found


def test_a_port_that_is_taken_is_named(monkeypatch):
  with socket.create_server(("127.0.0.1", 0)) as server:
    monkeypatch.setattr(machine, "_PORTS", {server.getsockname()[1]: "Flink"})
    free, taken = machine.ports()
  assert free.state == "ok"
  assert taken.state == "warning"
  assert "Flink would listen there" in taken.found


def test_a_tool_that_is_not_there_or_fails_is_a_warning():
  gone = machine.tool("Java", ["no-such-java"], r"(\d)", "openjdk", "only Flink needs it")
  assert (gone.state, gone.remedy) == ("warning", "apt-get install openjdk")
  assert machine.tool("False", ["false", "now"], r"(\d)", "x", "nobody needs it").state == "warning"
  assert machine.tool("Echo", ["echo", "version 7"], r"version (\d)", "x", "y") == Check("Echo", "ok", "7")


def test_a_check_that_cannot_be_made_is_an_error():
  def broken():
    raise KeyError("x")

  (check,) = guarded("memory", broken, remedy="look")
  assert check == Check("memory", "error", "KeyError('x')", "look")
  assert failed([check])


def test_the_line_of_a_check_ends_with_the_remedy():
  assert str(Check("disk", "error", "full", "free some")) == "error    disk: full\n         free some"
  assert json.loads(json.dumps(vars(Check("disk", "ok", "fine"))))["state"] == "ok"
