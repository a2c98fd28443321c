"""Keyed randomness is the same in every process."""

from taskmix import keys


def test_a_hash_depends_on_where_the_parts_end():
  assert keys.stable_hash("ab", "c") != keys.stable_hash("a", "bc")


def test_a_hash_never_changes():
  # Shards on disk are ordered by it: a change here breaks every re-run.
  assert keys.stable_hash(7, "photos/a.jpg", "neg") == 0xAF4487CE8950C0D3


def test_equal_keys_give_equal_numbers():
  assert (
    keys.keyed_rng(1, "a").integers(0, 1 << 30, 5).tolist()
    == keys.keyed_rng(1, "a").integers(0, 1 << 30, 5).tolist()
  )


def test_the_unit_interval_is_half_open():
  assert keys.unit_interval(0) == 0.0
  assert keys.unit_interval((1 << 64) - 1) < 1.0
