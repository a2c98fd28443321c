"""Contact sheets of a finished conversion, from its own shards: what training will read."""

import itertools
from collections.abc import Iterator

from taskmix.examples import codec
from taskmix.examples.codec import Sample
from taskmix.examples.manifest import Manifest
from taskmix.examples.sharding import read_records, split_folder
from taskmix.faces.contact_sheet import write_contact_sheets
from taskmix.sources.files import join, open_binary
from taskmix.spec import IMAGE, IMAGE_ID, KIND, Net, split_name

FOLDER = "contact_sheets"


def write_sheets(net: Net, output: str, result: Manifest, *, per_kind: int = 40) -> list[str]:
  """Writes contact_sheets/<kind>.png below `output`; returns the paths.

  A shard is a random sample of its split, so the first records of the first
  train shard stand for the kind.
  """
  samples = itertools.chain.from_iterable(
    itertools.islice(_samples(net, output, result, split_name("train", kind)), per_kind)
    for kind in net.mixture.names
  )
  totals = {kind: result.counts[split_name("train", kind)] for kind in net.mixture.names}
  return write_contact_sheets(samples, join(output, FOLDER), net=net, totals=totals, per_kind=per_kind)


def _samples(net: Net, output: str, result: Manifest, split: str) -> Iterator[Sample]:
  for shard in result.shards:
    if shard.split == split:
      path = join(output, split_folder(split), shard.name)
      with open_binary(path) as file:
        for record in read_records(file, path):
          values = codec.decode(net.columns, record)
          yield Sample(values.pop(IMAGE), values.pop(KIND), values.pop(IMAGE_ID), values)
