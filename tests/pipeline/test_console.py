"""What libraries say does not get between a command's lines."""

import os
import pathlib
import re

import pytest

from pipeline.console import quiet_libraries


def test_what_libraries_say_is_kept_off_and_forgotten_when_all_goes_well(capfd):
  with quiet_libraries():
    os.write(2, b"W0000 some C++ library\n")
  os.write(2, b"after\n")
  assert capfd.readouterr().err == "after\n"


def test_the_file_stays_when_something_fails(capfd):
  def fail():
    with quiet_libraries():
      os.write(2, b"W0000 some C++ library\n")
      raise ValueError("no")

  with pytest.raises(ValueError, match="no"):
    fail()
  told = re.fullmatch(r"What the libraries said: (.*)\n", capfd.readouterr().err)
  assert told
  path = pathlib.Path(told[1])
  assert path.read_text() == "W0000 some C++ library\n"
  path.unlink()
