"""What was blessed is found again, by steps that ask a folder instead of metadata."""

import pathlib

import pytest
from tfx.types import standard_artifacts

from components.blessed_store import executor


@pytest.fixture
def store(tmp_path):
  """Runs of the store's executors against one folder."""
  return Store(tmp_path)


class Store:
  def __init__(self, folder: pathlib.Path):
    self._folder, self.path = folder, folder / "blessed"

  def _model(self, name: str) -> standard_artifacts.Model:
    model = standard_artifacts.Model()
    model.uri = str(self._folder / name)
    file = self._folder / name / "Format-Serving" / "saved_model.pb"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(name)
    return model

  def _statistics(self, name: str) -> standard_artifacts.ExampleStatistics:
    statistics = standard_artifacts.ExampleStatistics()
    statistics.uri, statistics.split_names = str(self._folder / f"{name}-statistics"), '["train-neg"]'
    file = pathlib.Path(statistics.uri, "Split-train-neg", "FeatureStats.pb")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(name)
    return statistics

  def remember(self, name: str, *, blessed: bool = True, keep: int = 2) -> None:
    blessing = standard_artifacts.ModelBlessing()
    blessing.set_int_custom_property("blessed", int(blessed))
    inputs = {
      "model": [self._model(name)],
      "blessing": [blessing],
      "statistics": [self._statistics(name)],
    }
    executor.Remember().Do(inputs, {}, {"folder": str(self.path), "keep": keep})

  def last_model(self, candidate: str) -> tuple[str, bool]:
    """What the found model's file says, and whether it is marked absent."""
    found = standard_artifacts.Model()
    found.uri = str(self._folder / "out" / candidate)
    executor.LastModel().Do(
      {"candidate": [self._model(candidate)]}, {"model": [found]}, {"folder": str(self.path)}
    )
    file = pathlib.Path(found.uri, "Format-Serving", "saved_model.pb")
    absent = found.get_int_custom_property(executor.ABSENT) == 1
    return (file.read_text() if file.exists() else ""), absent

  def last_statistics(self) -> standard_artifacts.ExampleStatistics:
    found = standard_artifacts.ExampleStatistics()
    found.uri = str(self._folder / "out" / "statistics")
    executor.LastStatistics().Do({}, {"statistics": [found]}, {"folder": str(self.path)})
    return found


def test_before_the_first_blessing_there_is_none(store):
  assert store.last_model("a") == ("", True)
  assert store.last_statistics().get_int_custom_property(executor.ABSENT) == 1


def test_the_last_blessed_model_is_found(store):
  store.remember("a")
  store.remember("b")
  assert store.last_model("c") == ("b", False)


def test_a_model_is_never_compared_with_itself(store):
  store.remember("a")
  assert store.last_model("a") == ("", True)
  store.remember("b")
  assert store.last_model("b") == ("a", False)


def test_a_refused_model_is_not_remembered(store):
  store.remember("a")
  store.remember("b", blessed=False)
  assert store.last_model("c") == ("a", False)


def test_statistics_come_with_their_splits(store):
  store.remember("a")
  found = store.last_statistics()
  assert found.split_names == '["train-neg"]'
  assert pathlib.Path(found.uri, "Split-train-neg", "FeatureStats.pb").read_text() == "a"


def test_a_repeated_step_adds_nothing_and_old_entries_go(store):
  for name in ("a", "a", "b", "c"):
    store.remember(name)
  assert executor.entries(str(store.path)) == [2, 3]
  assert sorted(path.name for path in store.path.iterdir()) == ["2", "3"]


def test_what_a_killed_step_left_does_not_count(store):
  store.remember("a")
  (store.path / "2" / "model").mkdir(parents=True)
  assert store.last_model("c") == ("a", False)
  store.remember("b")
  assert executor.entries(str(store.path)) == [1, 3]
