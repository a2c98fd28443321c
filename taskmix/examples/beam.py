"""The conversion as Beam transforms, for any runner.

    ListUnits ─► CutUnits ─► PlanShards ─► WriteShards ─► reports
     names of     examples    phases and     merged from
     photo lists  to runs     key ranges     runs; sheets

Only names and counts pass between them; photos, crops and runs lie in files of a
work folder that all workers see. Where the runner has one process on one
machine, one transform takes all four steps, with a process a core: handing them
from one to the next would take Beam longer than planning the shards.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions

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
    processes: on this machine; 0 takes every core of a local, one-process runner
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
    options = pipeline.options.get_all_options(drop_default=True)
    cut, plan = WithOptions(self._cut, options), self._plan
    write = WithOptions(self._write, options)
    if processes > 1:
      # Nets search photos in threads: a process each would hold TensorFlow each.
      cutting = 1 if self._cut.mine else processes

      def steps(units: Sequence[Unit]) -> Iterator[Any]:
        reports = list(fan_out(cut, units, processes=min(cutting, len(units))))
        yield from fan_out(write, plan(reports), processes=processes)

      units = pipeline | "ListUnits" >> beam.Create([tuple(self._units)], reshuffle=False)
      return units | "ConvertHere" >> self._do(steps)
    reports = (
      pipeline | "ListUnits" >> beam.Create(self._units) | "CutUnits" >> self._do(lambda unit: [cut(unit)])
    )
    return (
      pipeline
      | "OnePlan" >> beam.Create([None], reshuffle=False)
      | "PlanShards" >> self._do(lambda _, paths: plan(paths), beam.pvalue.AsList(reports))
      | "DealShards" >> beam.Reshuffle()
      | "WriteShards" >> self._do(lambda task: [write(task)])
    )

  def _do(self, function: Callable[..., Iterable[Any]], *side_inputs: Any) -> beam.ParDo:
    return beam.ParDo(_Reporting(function, self._work), *side_inputs)


def local_processes(options: PipelineOptions) -> int:
  """Processes to fan out to: every core where the runner has one process, else 1."""
  runner = (options.view_as(StandardOptions).runner or "DirectRunner").rpartition(".")[2]
  if runner not in ("DirectRunner", "SwitchingDirectRunner", "BundleBasedDirectRunner", "FnApiRunner"):
    return 1
  return cores() if options.view_as(DirectOptions).direct_running_mode == "in_memory" else 1


class _Reporting(beam.DoFn):
  """Calls a function, and writes down what the user did wrong, for the launcher to raise as it is.

  A runner wraps an exception in words of its own, or only logs it.
  """

  def __init__(self, function: Callable[..., Iterable[Any]], work: str):
    self._function, self._work = function, work

  def process(self, element: Any, *side_inputs: Any) -> Iterator[Any]:
    try:
      yield from self._function(element, *side_inputs)
    except ValueError as error:
      storage.write_bytes(join(self._work, PROBLEM), str(error).encode("utf-8", "surrogateescape"))
      raise
