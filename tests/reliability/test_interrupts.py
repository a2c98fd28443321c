"""Ctrl-C outside of a pipeline."""

import os
import pathlib
import signal
import subprocess
import sys
import time

TASKMIX = pathlib.Path(sys.executable).with_name("taskmix")


def test_a_conversion_that_is_interrupted_leaves_nothing_and_says_so(tmp_path, draw_photos, write_config):
  data, config = draw_photos(tmp_path / "data"), write_config(tmp_path / "drawn.py")
  command = [str(TASKMIX), "convert", str(tmp_path / "out"), "--config", str(config), "--data", str(data)]
  # Crops enough for it not to be over before the signal, however busy the machine is.
  command += ["--set", "net.recipe.random_negatives=100000"]
  # A group of its own, as a terminal makes one: its workers get the signal too.
  process = subprocess.Popen(
    command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
  )
  deadline = time.monotonic() + 120
  while not (tmp_path / "out.partial").is_dir():
    assert process.poll() is None and time.monotonic() < deadline
    time.sleep(0.01)
  os.killpg(process.pid, signal.SIGINT)
  _, stderr = process.communicate(timeout=60)
  assert process.returncode == 130, stderr
  assert stderr.splitlines()[-1] == "Interrupted."
  assert not (tmp_path / "out").exists()
  assert not (tmp_path / "out.partial").exists()
