"""A model is compared with the last blessed one of its kind before it, never with itself."""

import dataclasses
import json
import pathlib
import shutil

import ml_metadata as mlmd
import pytest
from ml_metadata.proto import metadata_store_pb2 as pb
from tfx.types import standard_artifacts

from components.baseline import CANDIDATE, LastOtherBlessedModel
from taskmix.nets.mtcnn import PNET, RNET
from taskmix.spec import Bound, Column, Net


class Models:
  """A metadata store in memory with models that Trainers wrote."""

  def __init__(self, folder: pathlib.Path):
    self._folder = folder
    config = pb.ConnectionConfig()
    config.fake_database.SetInParent()
    self.store = mlmd.MetadataStore(config)
    self._execution = self.store.put_execution_type(pb.ExecutionType(name="train"))
    self._node = self.store.put_context_type(pb.ContextType(name="node"))

  def write(self, node: str, net: Net | None = None):
    """A model that an execution of the node wrote; of a net if it is given."""
    model = standard_artifacts.Model()
    model.uri = str(self._folder / str(len(list(self._folder.iterdir()))))
    saved = pathlib.Path(model.uri, "Format-Serving")
    (saved / "assets.extra").mkdir(parents=True)
    (saved / "saved_model.pb").write_text("a graph")
    if net:
      (saved / "assets.extra" / "net.json").write_text(json.dumps({"net": json.loads(net.to_json())}))
    model.type_id = self.store.put_artifact_type(model.artifact_type, can_add_fields=True)
    (model.id,) = self.store.put_artifacts([model.mlmd_artifact])
    known = {context.name: context for context in self.store.get_contexts()}
    name = f"demo.{node}"
    context = known.get(name) or pb.Context(type_id=self._node, name=name)
    event = pb.Event(type=pb.Event.OUTPUT, artifact_id=model.id)
    self.store.put_execution(pb.Execution(type_id=self._execution), [(model.mlmd_artifact, event)], [context])
    return model


def _blessing(model: int, *, blessed: bool):
  blessing = standard_artifacts.ModelBlessing()
  blessing.set_int_custom_property("current_model_id", model)
  blessing.set_int_custom_property("blessed", int(blessed))
  return blessing


@pytest.mark.parametrize(
  ("writers", "blessed", "candidate", "baseline"),
  [
    (["pnet"], {}, 1, None),  # the first run
    (["pnet"], {1: True}, 1, None),  # the first run again, from the cache
    (["pnet", "pnet"], {1: True}, 2, 1),
    (["pnet", "pnet"], {1: True, 2: True}, 2, 1),  # the second run again
    (["pnet", "pnet", "pnet"], {1: True, 2: False}, 3, 1),  # the second was refused
    (["pnet", "rnet", "pnet"], {1: True, 2: True}, 3, 1),  # the latest is another net's
    (["rnet", "pnet"], {1: True}, 2, None),
  ],
)
def test_the_baseline_is_the_last_other_blessed_model_of_the_same_trainer(
  writers, blessed, candidate, baseline, tmp_path
):
  models = Models(tmp_path)
  written = [models.write(f"Trainer-{writer}") for writer in writers]
  ids = [model.id for model in written]
  found = LastOtherBlessedModel("Trainer-pnet").resolve_artifacts(
    models.store,
    {
      "model": written,
      "model_blessing": [_blessing(ids[number - 1], blessed=verdict) for number, verdict in blessed.items()],
      CANDIDATE: [written[candidate - 1]],
    },
  )
  assert found
  assert [ids.index(model.id) + 1 for model in found["model"]] == ([] if baseline is None else [baseline])


def _resolve(models: Models, written: list):
  """The baseline of the last of them, where all before it were blessed."""
  found = LastOtherBlessedModel("Trainer-pnet").resolve_artifacts(
    models.store,
    {
      "model": written,
      "model_blessing": [_blessing(model.id, blessed=True) for model in written[:-1]],
      CANDIDATE: [written[-1]],
    },
  )
  assert found
  return found["model"]


_FACE, _BOX, _LANDMARK = PNET.tasks


@pytest.mark.parametrize(
  ("before", "compared"),
  [
    (
      dataclasses.replace(
        PNET, tasks=(dataclasses.replace(_FACE, bounds=(Bound("auc", min=0),)), *PNET.tasks[1:])
      ),
      True,
    ),
    (dataclasses.replace(PNET, input_size=(14, 14, 3)), False),
    (dataclasses.replace(PNET, tasks=(_FACE, _BOX)), False),
    (dataclasses.replace(PNET, context=(*PNET.context, Column("age", "float32"))), False),
    (dataclasses.replace(RNET, input_size=PNET.input_size), True),
  ],
  ids=["other bounds", "another input size", "a task less", "another column", "another backbone"],
)
def test_a_model_that_was_asked_another_question_is_no_baseline(before, compared, tmp_path):
  models = Models(tmp_path)
  written = [models.write("Trainer-pnet", net) for net in (PNET, before, PNET)]
  (found,) = _resolve(models, written)
  assert found is written[1 if compared else 0]


def test_a_model_whose_files_are_gone_is_no_baseline(tmp_path):
  models = Models(tmp_path)
  written = [models.write("Trainer-pnet", PNET) for _ in range(3)]
  shutil.rmtree(written[1].uri)
  assert _resolve(models, written) == [written[0]]
  shutil.rmtree(written[0].uri)
  assert _resolve(models, written) == []
