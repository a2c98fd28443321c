"""Images, resources and places of the steps."""

import pathlib

import pytest

from pipeline.kubeflow.settings import Kubeflow, Resources, Volume
from pipeline.runners import load_runner

REPOSITORY = pathlib.Path(__file__).parent.parent.parent


def test_the_id_wins_over_the_class_and_both_over_the_rest():
  settings = Kubeflow(
    resources=(Resources("Trainer", cpus=8, gpus=1), Resources("Trainer-onet", cpus=16, gpus=2))
  )
  assert settings.resources_of("Trainer-onet").cpus == 16
  assert settings.resources_of("Trainer-pnet").cpus == 8
  assert settings.resources_of("ModelPusher").cpus == 1


def test_only_steps_with_a_gpu_take_the_gpu_image():
  settings = Kubeflow(image="i", gpu_image="g", resources=(Resources("Trainer", gpus=1),))
  assert settings.image_of("Trainer-pnet") == "g"
  assert settings.image_of("Transform-pnet") == "i"
  assert Kubeflow(image="i", resources=(Resources("Trainer", gpus=1),)).image_of("Trainer-pnet") == "i"


@pytest.mark.parametrize(
  ("wrong", "message"),
  [
    (lambda: Kubeflow(pipeline_root="/volume"), "must be gs://, s3:// or minio://"),
    (lambda: Kubeflow(state="s3://bucket"), "must be a folder of a volume, or gs://"),
    (lambda: Kubeflow(retries=-1), "retries must be 0 or more"),
    (lambda: Resources("Trainer", cpus=0), "must be positive"),
    (lambda: Volume("claim", "relative"), "path must be absolute"),
  ],
)
def test_settings_that_cannot_be_are_refused(wrong, message):
  with pytest.raises(ValueError, match=message):
    wrong()


def test_the_example_of_the_documentation_is_a_runner():
  runner = load_runner(str(REPOSITORY / "kubeflow" / "cluster.json"))
  assert runner.kubeflow.resources_of("Trainer-pnet").gpus == 1
