"""A config is an experiment's record: its docstring says how to run it and what to expect."""

import importlib

import pytest

from pipeline.configs import config_names


@pytest.mark.parametrize("name", config_names())
def test_a_config_tells_its_command_time_memory_and_result(name):
  told = importlib.import_module(f"pipeline.configs.{name}").__doc__ or ""
  assert f"    taskmix run --config {name}" in told
  assert [word for word in ("time", "memory", "expect:") if word not in told.lower()] == []
