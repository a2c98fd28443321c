"""A cascade's own components, each killed in the middle of its work and the run repeated.

What stands between them, from statistics to the Evaluator, is killed in
test_runs.py; here untrained nets and their blessings are imported instead, so
that a run takes seconds.
"""

import pathlib

import pytest

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(900)]

COMPONENTS = (
  "CropExampleGen-pnet",
  "ModelGate-pnet",
  "HardExampleGen-rnet",
  "ModelGate-rnet",
  "CascadeAssembler",
  "ServingCheck",
  "DetectionEvaluator",
  "ModelPusher",
)

CONFIG = """
import dataclasses
from pipeline.config import Config, Stage
from taskmix.faces.detection_evaluation.policy import DetectionPolicy
from taskmix.faces.mining import Mining
from taskmix.nets.mtcnn import PNET, RNET
from taskmix.serving.policy import ServingPolicy
from taskmix.spec import Conversion, CropRecipe, Phases, Source, Training


def stage(net):
  net = dataclasses.replace(
    net,
    sources=(
      Source("boxes", "wider_face", "bbx_gt.txt", ".", kinds=("neg", "pos", "part")),
      Source("points", "landmark_csv", "landmarks.csv", ".", kinds=("landmark",)),
    ),
    phases=Phases(eval_share=0, eval_images=("12.jpg", "13.jpg")),
    recipe=CropRecipe(random_negatives=5, mined_negatives=20),
  )
  return Stage(net, Training(batch_size=7, steps=1))


CONFIG = Config(
  "cascade",
  stages=(stage(PNET), stage(RNET)),
  conversion=Conversion(shards=1),
  # Untrained nets give about a half to everything.
  mining=Mining((0.4, 0.4, 0.4), min_face=60.0),
  detection=DetectionPolicy(min_face=60.0),
  serving=ServingPolicy(server="loopback", large_batch=4, examples=2),
)
"""

# The stages' nets and blessings from files; the components under test are the DAG's own.
PREPARED = """
from tfx.dsl.components.common.importer import Importer
from tfx.types import standard_artifacts

from components.model_gate.component import ModelGate
from pipeline import dag, summary
from pipeline.config import node_id

summarise = summary.summarise
summary.summarise = lambda nets, steps, **rest: summarise((), steps, **rest)
dag.code_fingerprint = lambda net: "the same"


def add_to(self, nodes, before):
  def add(component):
    nodes.append(component.with_id(node_id(component.id, self.net)))
    return component

  def prepared(name, artifact, **properties):
    importer = Importer(f"FOLDER/{self.net.name}/{name}", artifact, custom_properties=properties)
    nodes.append(importer.with_id(node_id(name, self.net)))
    return importer.outputs["result"]

  generator = add(self._example_gen(before))
  model = prepared("model", standard_artifacts.Model)
  blessing = prepared("blessing", standard_artifacts.ModelBlessing, blessed=1)
  evaluation = prepared("evaluation", standard_artifacts.ModelEvaluation)
  gate = add(ModelGate(blessing, evaluation, net=self.net))
  # As by the Trainer between them.
  gate.add_upstream_node(generator)
  made = {"model": model, "evaluation": evaluation, "blessing": blessing}
  made["examples"] = generator.outputs["examples"]
  return dag._Trained(self.net, made, gate)


dag._Stage.add_to = add_to
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> pathlib.Path:
  """The folder with a model and a blessing of each net."""
  from taskmix.model import serving
  from taskmix.model.build import build
  from taskmix.nets.mtcnn import PNET, RNET

  folder = tmp_path_factory.mktemp("prepared")
  for net in (PNET, RNET):
    serving.export(str(folder / net.name / "model" / "Format-Serving"), net, model=build(net))
    (folder / net.name / "blessing").mkdir()
    (folder / net.name / "blessing" / "BLESSED").touch()
    (folder / net.name / "evaluation").mkdir()
  return folder


def test_every_component_of_a_cascade_killed_in_the_middle_and_the_run_repeated(
  taskmix, draw_photos, prepared, tmp_path
):
  from taskmix.serving import versions

  config, serving = tmp_path / "cascade.py", tmp_path / "runs" / "cascade" / "serving" / "detector"
  config.write_text(CONFIG)
  data = draw_photos(tmp_path / "data")

  def run(**request):
    arguments = ("run", "--config", config, "--data", data, "--runs", tmp_path / "runs")
    ended = taskmix(*arguments, set_up=PREPARED.replace("FOLDER", str(prepared)), **request)
    assert "Traceback" not in ended.stdout + ended.stderr, ended
    return ended

  for number, component in enumerate(COMPONENTS):
    killed = run(kill=component, watched=[str(serving)])
    assert killed.code == -9, killed
    # Nothing that was done is done again, and what was killed last time ended well.
    before = set(COMPONENTS[: number - 1]) if number else set()
    assert before <= set(killed.cached), killed
    assert set(killed.ran) & set(COMPONENTS) <= {COMPONENTS[number - 1]}, killed
    assert not serving.is_dir() or versions.list_versions(serving) == []
  whole = run()
  assert whole.code == 0, whole
  assert set(whole.ran) & set(COMPONENTS) == {"ModelPusher"}, whole
  (version,) = versions.list_versions(serving)
  assert version.record and versions.digest(version.path) == version.record.digest
  assert f"Pushed:  {version.path}" in whole.stdout
  assert [path.name for path in serving.iterdir() if path.name.startswith(".taskmix-")] == []
