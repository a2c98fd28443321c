import dataclasses
import pickle

import pytest

from taskmix.examples import listing
from taskmix.nets.mtcnn import PNET
from taskmix.sources.files import read_bytes
from taskmix.spec import Source

SOURCE = Source("boxes", "wider_face", "list.txt", ".", kinds=("neg", "pos", "part"))
NET = dataclasses.replace(PNET, sources=(SOURCE,))


def _write(folder, photos: int) -> None:
  (folder / "list.txt").write_text("".join(f"{i}.jpg\n1\n1 2 30 40 0 0 0 0 0 0\n" for i in range(photos)))


def test_units_hold_every_photo_once_in_order(tmp_path):
  _write(tmp_path, 100)
  units = list(listing.list_units(NET, data_root=str(tmp_path), folder=str(tmp_path)))
  names = [image.image_id for unit in units for image in pickle.loads(read_bytes(unit.path, unit.span))]
  assert names == [f"{i}.jpg" for i in range(100)]
  assert [unit.first for unit in units] == [0, 24, 48, 72, 96]
  assert [unit.photos for unit in units] == [24, 24, 24, 24, 4]


def test_units_grow_so_that_a_large_set_is_no_heap_of_files():
  assert [listing.unit_size(number) for number in (0, 63, 64, 128, 10**6)] == [24, 24, 48, 96, 1024]


def test_a_fingerprint_changes_with_an_annotation_or_a_photo(tmp_path):
  _write(tmp_path, 3)
  (tmp_path / "0.jpg").write_bytes(b"a")
  first = listing.source_fingerprint(NET, str(tmp_path))
  assert listing.source_fingerprint(NET, str(tmp_path)) == first
  (tmp_path / "0.jpg").write_bytes(b"ab")
  second = listing.source_fingerprint(NET, str(tmp_path))
  _write(tmp_path, 2)
  assert len({first, second, listing.source_fingerprint(NET, str(tmp_path))}) == 3


def test_a_net_without_sources_says_what_to_do(tmp_path):
  with pytest.raises(ValueError, match="net 'pnet' has no sources; give it some"):
    list(listing.list_units(PNET, data_root=str(tmp_path), folder=str(tmp_path)))
