"""Contact sheets of a conversion, drawn from its own examples: what training will read."""

import dataclasses
import io
import itertools
from collections.abc import Iterator

from taskmix.examples import codec
from taskmix.examples.manifest import ShardReport
from taskmix.examples.planning import ShardTask, SheetTask
from taskmix.examples.sharding import read_records
from taskmix.examples.writing import ShardWriter, framed_chunks
from taskmix.sources.files import join
from taskmix.spec import IMAGE, IMAGE_ID, KIND, Net

FOLDER = "contact_sheets"


@dataclasses.dataclass(frozen=True)
class SheetWriter:
  """Draws contact_sheets/<kind>.png, one a kind; picklable.

  A split is in random order, so its first examples stand for the kind.

  Attributes:
    net: whose kinds.
    output: unpublished folder of the result.
  """

  net: Net
  output: str

  def __call__(self, task: SheetTask) -> list[str]:
    """Draws the sheets; returns their paths, none for a kind without examples."""
    # Pillow: 0.1 s that shards need not wait for.
    from taskmix.faces.contact_sheet import write_contact_sheets

    samples = itertools.chain.from_iterable(
      itertools.islice(self._samples(stretch), task.tiles) for stretch in task.stretches.values()
    )
    folder = join(self.output, FOLDER)
    return write_contact_sheets(samples, folder, net=self.net, totals=task.totals, per_kind=task.tiles)

  def _samples(self, stretch: ShardTask) -> Iterator[codec.Sample]:
    for record in read_records(io.BytesIO(b"".join(framed_chunks(stretch)))):
      values = codec.decode(self.net.columns, record)
      yield codec.Sample(values.pop(IMAGE), values.pop(KIND), values.pop(IMAGE_ID), values)


@dataclasses.dataclass(frozen=True)
class OutputWriter:
  """Writes shards and draws sheets, whichever a task asks for; picklable."""

  shards: ShardWriter
  sheets: SheetWriter

  def __call__(self, task: ShardTask | SheetTask) -> ShardReport | list[str]:
    return self.sheets(task) if isinstance(task, SheetTask) else self.shards(task)
