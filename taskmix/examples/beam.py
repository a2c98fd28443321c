"""The conversion as Beam transforms, for any runner.

    ListUnits ─► CutUnits ─► PlanShards ─► WriteShards ─► reports
     names of     examples    phases and     merged from
     photo lists  to runs     key ranges     runs; sheets

Only names and counts pass between them; photos, crops and runs lie in files of a
work folder that all workers see. Where the runner has one process on one
machine, the work is fanned out to a process a core.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from taskmix.examples import storage
from taskmix.examples.cutting import Cutter, Unit
from taskmix.examples.planning import Planner
from taskmix.examples.pool import cores, fan_out
from taskmix.examples.sheets import OutputWriter
from taskmix.examples.storage import WithOptions
from taskmix.sources.files import join

PROBLEM = "problem.txt"


class ConvertUnits(beam.PTransform):
  """Units to shards and contact sheets; gives the ShardReports and the sheets' paths.

  Args:
    units: what `list_units` gave.
    cut, plan, write: the steps.
    work: folder that all workers see.
    processes: of each fan-out; 0 takes every core of a local, one-process runner
      and 1 elsewhere.
  """

  def __init__(
    self,
    units: Sequence[Unit],
    *,
    cut: Cutter,
    plan: Planner,
    write: OutputWriter,
    work: str,
    processes: int = 0,
  ):
    super().__init__()
    self._units, self._cut, self._plan, self._write = units, cut, plan, write
    self._work, self._processes = work, processes

  def expand(self, input_or_inputs: Any) -> beam.PCollection:
    pipeline = input_or_inputs.pipeline if hasattr(input_or_inputs, "pipeline") else input_or_inputs
    processes = self._processes or local_processes(pipeline.options)
    # Nets search photos in threads: a process each would hold TensorFlow each.
    cutting = 1 if self._cut.mine else processes
    options = pipeline.options.get_all_options(drop_default=True)
    # A fan-out takes all of its work at once; a distributed runner deals it out.
    batches = [tuple(self._units)] if cutting > 1 else [(unit,) for unit in self._units]
    cut, write = WithOptions(self._cut, options), WithOptions(self._write, options)
    reports = (
      pipeline
      | "ListUnits" >> beam.Create(batches, reshuffle=cutting <= 1)
      | "CutUnits" >> beam.ParDo(_FanOut(cut, self._work, cutting))
    )
    tasks = (
      pipeline
      | "OnePlan" >> beam.Create([None], reshuffle=False)
      | "PlanShards" >> beam.ParDo(_Plan(self._plan, self._work), beam.pvalue.AsList(reports))
    )
    if processes > 1:
      batched = tasks | "AllShards" >> beam.Map(tuple)
    else:
      batched = tasks | "EachShard" >> beam.FlatMap(_singles) | "DealShards" >> beam.Reshuffle()
    return batched | "WriteShards" >> beam.ParDo(_FanOut(write, self._work, processes))


def local_processes(options: PipelineOptions) -> int:
  """Processes to fan out to: every core where the runner has one process, else 1."""
  runner = (options.get_all_options().get("runner") or "DirectRunner").rpartition(".")[2]
  if runner not in ("DirectRunner", "SwitchingDirectRunner", "BundleBasedDirectRunner", "FnApiRunner"):
    return 1
  return cores() if options.view_as(DirectOptions).direct_running_mode == "in_memory" else 1


def _singles(tasks: Sequence[Any]) -> list[tuple[Any, ...]]:
  return [(task,) for task in tasks]


class _Reporting(beam.DoFn):
  """Writes down what the user did wrong, for the launcher to raise as it is.

  A runner wraps an exception in words of its own, or only logs it.
  """

  def __init__(self, work: str):
    self._work = work

  def _run(self, results: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    try:
      yield from results()
    except ValueError as error:
      storage.write_bytes(join(self._work, PROBLEM), str(error).encode("utf-8", "surrogateescape"))
      raise


class _FanOut(_Reporting):
  def __init__(self, function: Callable[[Any], Any], work: str, processes: int):
    super().__init__(work)
    self._function, self._processes = function, processes

  def process(self, element: tuple[Any, ...]) -> Iterator[Any]:
    return self._run(lambda: fan_out(self._function, element, processes=min(self._processes, len(element))))


class _Plan(_Reporting):
  def __init__(self, plan: Planner, work: str):
    super().__init__(work)
    self._plan = plan

  def process(self, element: None, reports: Sequence[str]) -> Iterator[Any]:
    return self._run(lambda: iter([self._plan(reports)]))
