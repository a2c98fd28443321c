"""Whether workers elsewhere, and Kubeflow, would understand a config."""

import pytest

from pipeline.config import load_config
from pipeline.doctor import far

pytestmark = pytest.mark.pipeline


def test_the_demo_is_understood_by_workers_and_by_kubeflow(handful):
  config = load_config("demo", ["net.phases.eval_images="])
  checks = list(far.checks(config, handful))
  states = {check.name: check.state for check in checks}
  assert states == {"worker imports": "ok", "Kubeflow": "ok"}, checks
