"""Annotated photos to sharded tf.Examples: one call, or one command.

OUTPUT.partial/            while it runs; a killed run leaves only this
  units/ spill/ output/
OUTPUT/                    appears whole at the end
  manifest.json photos.jsonl quarantine.jsonl contact_sheets/pos.png ...
  Split-train-neg/data_tfrecord-00000-of-00004 ...
"""

import contextlib
import dataclasses
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from taskmix import progress
from taskmix.examples import manifest, planning, pool, storage
from taskmix.examples.cutting import Cutter, Unit
from taskmix.examples.listing import annotation_digest, list_units
from taskmix.examples.manifest import Manifest, ShardReport
from taskmix.examples.sheets import OutputWriter, SheetWriter
from taskmix.examples.writing import ShardWriter
from taskmix.sources.files import is_remote, join, read_bytes, use_options
from taskmix.spec import PHASES, Conversion, Net, split_parts


def convert(
  net: Net,
  *,
  data_root: str,
  output: str,
  conversion: Conversion = Conversion(),  # noqa: B008 - frozen
  beam_args: Sequence[str] = (),
  processes: int = 0,
  on_progress: Callable[["Progress"], None] | None = None,
) -> Manifest:
  """Converts all sources of `net`.

  Args:
    net: with its sources.
    data_root: folder that the sources' paths start from; local, gs://, s3://.
    output: folder to make; one that exists must be empty.
    conversion: settings; with the net and the data, they decide every byte.
    beam_args: Beam's own flags, `--runner` among them; none runs here.
    processes: on a local runner; 0 is one a core. Changes no byte.
    on_progress: called about twice a second while it runs.

  Returns:
    The manifest, as it lies in the output.

  Raises:
    ValueError: for settings, annotations or photos that cannot be converted; the
      message says which and what to do.
  """
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions

  from taskmix.examples.beam import local_processes

  options = PipelineOptions(list(beam_args))
  use_options(options.get_all_options(drop_default=True))
  steps = Conversions(net, data_root=data_root, output=output, conversion=conversion)
  with pool.kept_warm(processes or local_processes(options)), steps:
    with steps.problems(), steps.progress(on_progress), beam.Pipeline(options=options) as pipeline:
      steps.add_to(pipeline, processes=processes)
    return steps.finish()


class Conversions:
  """One conversion in three steps, for a caller who brings the Beam pipeline.

      with Conversions(net, data_root=..., output=..., conversion=...) as steps:
        with steps.problems(), beam.Pipeline() as pipeline:
          steps.add_to(pipeline)
        manifest = steps.finish()

  Entering lists the photos, on the launcher, so that a malformed annotation file
  is told at once. Arguments as of `convert`, and `mine` as of `Cutter`.
  """

  def __init__(
    self,
    net: Net,
    *,
    data_root: str,
    output: str,
    conversion: Conversion,
    mine: Callable[[Any], Any] | None = None,
  ):
    self.net, self.conversion, self.mine = net, conversion, mine
    self.data_root, self.output = data_root.rstrip("/"), output.rstrip("/")
    self.work = f"{self.output}.partial"
    self._units: list[Unit] = []

  def __enter__(self) -> "Conversions":
    _require_free(self.output)
    # What a killed run left. Runs into one output at once are the caller's mistake.
    storage.remove_tree(self.work)
    for folder in (self._folder("units"), self._folder("spill"), self._folder("output")):
      storage.make_folder(folder)
    try:
      self._units = list(list_units(self.net, data_root=self.data_root, folder=self._folder("units")))
    except BaseException as error:
      storage.remove_tree(self.work)
      if isinstance(error, OSError) and error.filename is None:
        # A write that fails names no file.
        raise OSError(error.errno, os.strerror(error.errno or 0), self.output) from error
      raise
    return self

  def __exit__(self, kind: object, *error: object) -> None:
    if kind is not None:
      pool.end_all()
    storage.remove_tree(self.work)

  def add_to(self, pipeline: Any, *, processes: int = 0) -> None:
    """Adds the transforms to a pipeline that the caller runs."""
    from taskmix.examples.beam import ConvertUnits

    _ = pipeline | "Convert" >> ConvertUnits(
      self._units,
      cut=Cutter(self.net, self.conversion, self._folder("spill"), self.mine),
      plan=planning.Planner(self.net, self.conversion, self.work, self._folder("output")),
      write=OutputWriter(
        ShardWriter(self._folder("output"), self._folder("spill"), self.conversion.compression),
        SheetWriter(self.net, self._folder("output")),
      ),
      work=self.work,
      processes=processes,
    )

  @contextlib.contextmanager
  def problems(self) -> Iterator[None]:
    """Raises a user's mistake that a worker met as the ValueError that it was, a full disk as its OSError."""
    try:
      yield
    except Exception as error:
      from taskmix.examples.beam import PROBLEM

      path = join(self.work, PROBLEM)
      if not storage.exists(path):
        # Beam raises what its workers met as the text of a RuntimeError.
        if told := re.search(r"OSError: \[Errno (\d+)\]", str(error)):
          number = int(told[1])
          raise OSError(number, os.strerror(number), self.output) from error
        raise
      raise ValueError(read_bytes(path).decode("utf-8", "surrogateescape")) from error

  @contextlib.contextmanager
  def progress(self, report: Callable[["Progress"], None] | None) -> Iterator[None]:
    """Calls `report` about twice a second, from a thread."""
    if report is None:
      yield
      return
    done, started = threading.Event(), time.monotonic()
    total = sum(unit.photos for unit in self._units)

    def watch() -> None:
      while not done.wait(0.5):
        report(Progress(self._photos_done(), total, time.monotonic() - started))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
      yield
    finally:
      done.set()
      thread.join()

  def finish(self) -> Manifest:
    """Writes the manifest and publishes the output."""
    output = self._folder("output")
    result = self._manifest(output)
    storage.write_bytes(join(output, manifest.MANIFEST), result.to_json().encode())
    storage.publish(output, self.output, last=manifest.MANIFEST)
    return result

  def _folder(self, name: str) -> str:
    return join(self.work, name)

  def _photos_done(self) -> int:
    files = {path.rpartition("/")[2] for path in storage.list_files(self._folder("spill"))}
    return sum(unit.photos for unit in self._units if f"{unit.name}.report" in files)

  def _manifest(self, output: str) -> Manifest:
    spill = self._folder("spill")
    shards = sorted(_read_reports(spill), key=lambda shard: (self.net.splits.index(shard.split), shard.name))
    counts = dict.fromkeys(self.net.splits, 0)
    for shard in shards:
      counts[shard.split] += shard.examples
    entries = manifest.read_quarantine(output)
    bad_photos = sum(entry["face"] is None for entry in entries)
    photos, sources, faces = self._photo_counts(output, spill)
    return Manifest(
      net=dataclasses.asdict(self.net),
      conversion=dataclasses.asdict(self.conversion),
      counts=counts,
      shards=tuple(shards),
      photos={**photos, "quarantined": bad_photos},
      faces={"all": faces, "quarantined": len(entries) - bad_photos},
      quarantine=manifest.quarantine_counts(entry["reason"] for entry in entries),
      sources=sources,
      software=_software(),
    )

  def _photo_counts(self, output: str, spill: str) -> tuple[dict[str, int], dict[str, dict], int]:
    """Photos by phase, what is known of each source, and annotated faces."""
    _, phases, prints = manifest.read_photos(output)
    sources = {
      source.name: {
        "format": source.format,
        "photos": sum(unit.photos for unit in self._units if unit.source == source.name),
        "annotations_sha256": annotation_digest(source, self.data_root),
      }
      for source in self.net.sources
    }
    faces = sum(planning.read_report(join(spill, f"{unit.name}.report")).faces for unit in self._units)
    photos = {phase: phases.count(phase) for phase in PHASES}
    photos["all"] = sum(unit.photos for unit in self._units)
    photos["same_content"] = len(prints) - len(set(prints.content.tolist()))
    return photos, sources, faces


@dataclasses.dataclass(frozen=True)
class Progress:
  """How far a conversion is.

  Attributes:
    done, total: photos cut.
    seconds: since it began.
  """

  done: int
  total: int
  seconds: float

  @property
  def rate(self) -> float:
    """Photos a second so far."""
    return self.done / self.seconds if self.seconds > 0 else 0.0

  @property
  def told(self) -> progress.Progress:
    """For those who listen."""
    return progress.Progress(self.done, self.total, "photos", self.rate)

  @property
  def text(self) -> str:
    """ "cut 320 of 1,070 photos, 98 a second, 8 s left"."""
    if self.done >= self.total:
      return f"cut {self.total:,} photos, {self.rate:.0f} a second; writing shards"
    left = f"{(self.total - self.done) / self.rate:.0f} s left" if self.done else "starting"
    return f"cut {self.done:,} of {self.total:,} photos, {self.rate:.0f} a second, {left}"


def convert_command(
  net: Net,
  *,
  data: str,
  output: str,
  conversion: Conversion = Conversion(),  # noqa: B008 - frozen
  runner: str = "DirectRunner",
  beam_args: Sequence[str] = (),
  overwrite: bool = False,
  say: Callable[[str], None] = print,
) -> Manifest:
  """`taskmix convert`: converts, with progress, and says what came of it.

  Args:
    net: with its sources.
    data, output: folders; local, gs://, s3://.
    conversion: settings.
    runner: Beam's name of a runner.
    beam_args: Beam's own flags, passed on as they are.
    overwrite: remove a finished conversion at `output` first.
    say: takes a line of text.

  Raises:
    ValueError: as `convert`.
  """
  if overwrite and storage.exists(join(output, manifest.MANIFEST)):
    storage.remove_tree(output)
  last = [""]

  def on_progress(progress: Progress) -> None:
    if progress.text != last[0]:
      last[0] = progress.text
      say(progress.text)

  started = time.monotonic()
  result = convert(
    net,
    data_root=data,
    output=output,
    conversion=conversion,
    beam_args=[f"--runner={runner}", *beam_args],
    on_progress=on_progress,
  )
  for line in summary(result):
    say(line)
  say(f"{output}: finished in {time.monotonic() - started:.1f} s")
  return result


def summary(result: Manifest) -> Iterator[str]:
  """What a conversion came to, a line each."""
  photos, faces = result.photos, result.faces
  yield (
    f"{photos['all']:,} photos ({photos['same_content']:,} of them the same as another): "
    f"{photos['train']:,} train, {photos['eval']:,} eval, "
    f"{photos['quarantined']:,} quarantined; {faces['quarantined']:,} of {faces['all']:,} faces left out"
  )
  for split, count in result.counts.items():
    shards = sum(shard.split == split for shard in result.shards)
    yield f"  {split:<16} {count:>10,} examples in {shards} shard{'s' if shards > 1 else ''}"
  for reason, count in result.quarantine.items():
    yield f"  left out: {count:,} x {reason}"


def require_kinds(counts: dict[str, int]) -> None:
  """Raises ValueError if a train split is empty: no mixture can be drawn from it."""
  empty = [split for split, count in counts.items() if not count and split_parts(split)[0] == "train"]
  if empty:
    raise ValueError(f"no example in {', '.join(empty)}: check the sources' kinds and the recipe")


def _read_reports(folder: str) -> Iterator[ShardReport]:
  for path in storage.list_files(folder):
    if path.endswith(".shard"):
      yield ShardReport(**json.loads(read_bytes(path)))


def _require_free(output: str) -> None:
  if storage.exists(join(output, manifest.MANIFEST)):
    raise ValueError(f"{output} holds a finished conversion already; remove it, or choose another folder")
  if not is_remote(output) and os.path.isdir(output) and os.listdir(output):
    raise ValueError(f"{output} is not empty and holds no conversion; choose another folder")


def _software() -> dict[str, str]:
  import cv2
  import numpy as np

  import taskmix

  return {"taskmix": taskmix.__version__, "numpy": np.__version__, "opencv": cv2.__version__}
