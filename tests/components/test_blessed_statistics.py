"""The statistics to compare with are found by lineage, over several runs and nets."""

import ml_metadata as mlmd
import pytest
from ml_metadata.proto import metadata_store_pb2 as pb
from tfx.types import standard_artifacts

from components.example_gate.blessed import LastBlessedStatistics

STRATEGY = LastBlessedStatistics(statistics_gen="StatisticsGen", evaluator="Evaluator")


class Lineage:
  """A metadata store in memory, and what its executions read and wrote."""

  def __init__(self):
    config = pb.ConnectionConfig()
    config.fake_database.SetInParent()
    self.store = mlmd.MetadataStore(config)
    self._execution = self.store.put_execution_type(pb.ExecutionType(name="step"))
    self._node = self.store.put_context_type(pb.ContextType(name="node"))
    self.candidates: dict[str, list] = {"statistics": [], "blessing": []}

  def examples(self) -> int:
    return self._put(standard_artifacts.Examples()).id

  def statistics(self, examples: int, node: str = "StatisticsGen"):
    return self._written("statistics", standard_artifacts.ExampleStatistics(), examples, node)

  def blessing(self, examples: int, *, blessed: bool, node: str = "Evaluator"):
    artifact = standard_artifacts.ModelBlessing()
    artifact.set_int_custom_property("blessed", int(blessed))
    return self._written("blessing", artifact, examples, node)

  def resolved(self) -> list[int]:
    found = STRATEGY.resolve_artifacts(self.store, self.candidates)
    return [artifact.id for artifact in found["statistics"]]

  def _put(self, artifact):
    type_id = self.store.put_artifact_type(artifact.artifact_type, can_add_fields=True)
    artifact.mlmd_artifact.type_id = type_id
    (artifact.id,) = self.store.put_artifacts([artifact.mlmd_artifact])
    return artifact

  def _written(self, key: str, artifact, examples: int, node: str):
    """The artifact, written by an execution of `node` that read the examples."""
    self._put(artifact)
    known = [context for context in self.store.get_contexts() if context.name == f"demo.{node}"]
    context = known[0] if known else pb.Context(type_id=self._node, name=f"demo.{node}")
    read = pb.Artifact(id=examples, type_id=self.store.get_artifacts_by_id([examples])[0].type_id)
    pairs = [
      (read, pb.Event(type=pb.Event.INPUT, artifact_id=examples)),
      (artifact.mlmd_artifact, pb.Event(type=pb.Event.OUTPUT, artifact_id=artifact.id)),
    ]
    self.store.put_execution(pb.Execution(type_id=self._execution), pairs, [context])
    self.candidates[key].append(artifact)
    return artifact.id


@pytest.fixture
def lineage() -> Lineage:
  return Lineage()


def test_before_the_first_blessing_there_is_nothing_to_compare_with(lineage):
  examples = lineage.examples()
  lineage.statistics(examples)
  lineage.blessing(examples, blessed=False)
  assert lineage.resolved() == []


def test_a_refused_run_leaves_the_last_blessed_one_as_the_baseline(lineage):
  first, second = lineage.examples(), lineage.examples()
  wanted = lineage.statistics(first)
  lineage.blessing(first, blessed=True)
  lineage.statistics(second)
  lineage.blessing(second, blessed=False)
  assert lineage.resolved() == [wanted]


def test_the_newest_blessing_counts(lineage):
  first, second = lineage.examples(), lineage.examples()
  lineage.statistics(first)
  lineage.blessing(first, blessed=True)
  wanted = lineage.statistics(second)
  lineage.blessing(second, blessed=True)
  assert lineage.resolved() == [wanted]


def test_what_other_components_wrote_does_not_count(lineage):
  ours, theirs = lineage.examples(), lineage.examples()
  wanted = lineage.statistics(ours)
  lineage.statistics(ours, node="Transform")
  lineage.blessing(ours, blessed=True)
  lineage.statistics(theirs, node="StatisticsGen.onet")
  lineage.blessing(theirs, blessed=True, node="Evaluator.onet")
  assert lineage.resolved() == [wanted]
