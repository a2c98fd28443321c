"""Whether workers elsewhere and Kubeflow would understand the pipeline."""

import pathlib
import tempfile
from collections.abc import Iterator

from pipeline.config import REPOSITORY, Config
from pipeline.doctor.check import Check, guarded


def checks(config: Config, data: pathlib.Path) -> Iterator[Check]:
  """Those that take half a minute."""
  remedy = "what workers run must be in a package that they have: see docs/dataflow.md"
  yield from guarded("worker imports", lambda: [worker_imports(config, data)], remedy=remedy)
  remedy = "taskmix compile-kubeflow --debug tells more; docs/kubeflow.md"
  yield from guarded("Kubeflow", lambda: [kubeflow(config, data)], remedy=remedy)


def worker_imports(config: Config, data: pathlib.Path) -> Check:
  """Has every function of the conversion unpickled where only the staged package is."""
  if not (REPOSITORY / "setup.py").is_file():
    remedy = "run from a checkout of taskmix"
    return Check("worker imports", "warning", "no setup.py, so nothing to stage", remedy)
  import apache_beam as beam

  from pipeline import preflight
  from taskmix.examples.convert import Conversions

  with tempfile.TemporaryDirectory(prefix="taskmix-doctor-") as scratch:
    output = str(pathlib.Path(scratch, "out"))
    net = config.nets[0]
    with Conversions(net, data_root=str(data), output=output, conversion=config.conversion) as steps:
      pipeline = beam.Pipeline()
      steps.add_to(pipeline)
      job = pipeline.to_runner_api()
    package = preflight.build_package(REPOSITORY / "setup.py", pathlib.Path(scratch, "dist"))
    site = pathlib.Path(scratch, "site")
    site.mkdir()
    count = preflight.require_understood(job, package=package, folder=site)
  return Check("worker imports", "ok", f"{count} functions are understood where only {package.name} is")


def kubeflow(config: Config, data: pathlib.Path) -> Check:
  """Compiles the job, for no cluster in particular."""
  from pipeline.kubeflow.compile import compile_job
  from pipeline.runners import load_runner

  job = compile_job(config, runner=load_runner("kubeflow"), data=data)
  steps = len(job["pipelineSpec"]["root"]["dag"]["tasks"])
  return Check("Kubeflow", "ok", f"compiles to a job of {steps} steps")
