"""The pipeline as TFX components: assembly only.

Importing this imports TFX (tens of seconds), so the command line does it late.
"""

import dataclasses
import hashlib
import importlib
import pathlib
from collections.abc import Sequence
from typing import Any

from tfx.components import (
  Evaluator,
  ExampleValidator,
  StatisticsGen,
  Trainer,
  Transform,
)
from tfx.dsl.components.base.base_node import BaseNode
from tfx.dsl.components.common.resolver import Resolver
from tfx.orchestration import metadata
from tfx.orchestration import pipeline as tfx_pipeline
from tfx.proto import trainer_pb2, transform_pb2
from tfx.types import standard_artifacts
from tfx.types.channel import BaseChannel, Channel

import taskmix
from components.baseline import LastOtherBlessedModel
from components.cascade_assembler.component import CascadeAssembler
from components.crop_example_gen.component import CropExampleGen
from components.detection_evaluator.component import DetectionEvaluator
from components.example_gate.blessed import LastBlessedStatistics
from components.example_gate.component import ExampleGate
from components.hard_example_gen.component import HardExampleGen
from components.import_schema_gen import ImportSchemaGen
from components.model_gate.component import ModelGate
from components.model_pusher.component import ModelPusher
from components.report_gen.component import ReportGen
from components.serving_check.component import ServingCheck
from pipeline.config import Config, node_id, schema_path
from pipeline.folders import DETECTOR, RunFolder
from taskmix import evaluation, keys
from taskmix.examples.listing import sample_photos
from taskmix.faces.cascade import Options
from taskmix.model import starting_weights
from taskmix.report.material import Plan
from taskmix.sources.files import join
from taskmix.spec import Net, Training, split_name, to_json


class MetadataHistory:
  """What was blessed before, as ML Metadata knows it."""

  def statistics(self, net: Net) -> BaseNode:
    """The node that finds what the gate measures drift from: output "statistics"."""
    return _last_blessed_statistics(net)

  def model(self, candidate: BaseChannel, *, producer: str) -> BaseNode:
    """The node that finds what a new model is compared with: output "model"."""
    return _last_other_blessed_model(candidate, producer=producer)

  def remember(
    self, model: BaseChannel, *, producer: str, blessing: BaseChannel, statistics: BaseChannel | None = None
  ) -> list[BaseNode]:
    """Nodes that keep what was blessed; metadata does so by itself."""
    del model, producer, blessing, statistics
    return []


def create_pipeline(
  config: Config,
  *,
  data: str,
  folder: RunFolder,
  through: str = "",
  beam_args: Sequence[str] = (),
  history: MetadataHistory | None = None,
  journal: str = "",
) -> tfx_pipeline.Pipeline:
  """The whole run of `config`, from annotated photos to a pushed SavedModel.

  Args:
    config: the nets and every setting.
    data: absolute path of the data folder.
    folder: where metadata, artifacts, checkpoints and pushed models go.
    through: name of the last net wanted, which leaves out what follows it; ""
      runs everything.
    beam_args: of every Beam component, see `pipeline.runners`.
    history: how steps learn what was blessed before; None asks ML Metadata.
    journal: file in which the runner tells the report of this run; "" for none.

  Raises:
    ValueError: if the data folder or a net's schema is not there.
  """
  history = history or MetadataHistory()
  nodes: list[BaseNode] = []
  trained: list[_Trained] = []
  stages = config.through(through)
  for stage in stages:
    trained.append(_Stage(config, stage.net, stage.training, data, folder, history).add_to(nodes, trained))
  plan = Plan(config.name, dataclasses.asdict(config), nets=len(stages), data_root=data)
  last: dict[str, BaseChannel] = {}
  if len(config.stages) == 1:
    nodes += _push_net(config, trained[0], folder, plan, last)
  elif plan.whole:
    nodes += _push_detector(config, trained, data, folder, history, plan, last)
  nodes.append(
    ReportGen(
      [stage.made for stage in trained],
      plan=dataclasses.replace(plan, dag=tuple((node.id, _waits_for(node)) for node in nodes)),
      **last,
      journal=journal,
      latest=str(folder.report),
    )
  )
  return tfx_pipeline.Pipeline(
    pipeline_name=config.name,
    pipeline_root=str(folder.artifacts),
    metadata_connection_config=metadata.sqlite_metadata_connection_config(str(folder.metadata)),
    enable_cache=True,
    beam_pipeline_args=list(beam_args),
    components=nodes,
  )


@dataclasses.dataclass(frozen=True)
class _Trained:
  """A stage's channels that others read; `passed` is its last gate."""

  net: Net
  made: dict[str, BaseChannel]
  passed: BaseNode | None

  @property
  def examples(self) -> BaseChannel:
    return self.made["examples"]

  @property
  def model(self) -> BaseChannel:
    return self.made["model"]


@dataclasses.dataclass(frozen=True)
class _Stage:
  """The nodes of one net, from photos to its blessing."""

  config: Config
  net: Net
  training: Training
  data: str
  folder: RunFolder
  history: MetadataHistory

  def add_to(self, nodes: list[BaseNode], before: Sequence[_Trained]) -> _Trained:
    """Adds the nodes in their order; `before` are the stages whose nets find hard examples."""

    def add(component: BaseNode) -> Any:
      nodes.append(component.with_id(node_id(component.id, self.net)))
      return component

    net, config = self.net, self.config
    examples = add(self._example_gen(before)).outputs["examples"]
    statistics = add(StatisticsGen(examples=examples)).outputs["statistics"]
    schema = add(ImportSchemaGen(schema_file=str(_schema(config, net)))).outputs["schema"]
    anomalies = add(ExampleValidator(statistics=statistics, schema=schema)).outputs["anomalies"]
    blessed_statistics = add(self.history.statistics(net)) if config.gate.drift else None
    gate = add(
      ExampleGate(
        examples,
        statistics=statistics,
        anomalies=anomalies,
        net=net.unbounded,
        policy=config.gate,
        blessed_statistics=blessed_statistics.outputs["statistics"] if blessed_statistics else None,
        reports=str(self.folder.root / "reports"),
      )
    )
    transform = add(self._transform(examples, schema))
    transform.add_upstream_node(gate)
    training = add(self._trainer(transform, schema)).outputs
    model = training["model"]
    trainer = node_id("Trainer", net)
    baseline = add(self.history.model(model, producer=trainer))
    evaluator = add(
      Evaluator(
        examples=examples,
        example_splits=self._splits("eval"),
        model=model,
        baseline_model=baseline.outputs["model"],
        eval_config=evaluation.eval_config(net, config.evaluation),
        schema=schema,
      )
    )
    blessing, judged = evaluator.outputs["blessing"], evaluator.outputs["evaluation"]
    for memory in self.history.remember(model, producer=trainer, blessing=blessing, statistics=statistics):
      add(memory)
    # A net on its own has the ModelPusher for a gate.
    passed = add(ModelGate(blessing, judged, net=net)) if len(config.stages) > 1 else None
    made = {
      "examples": examples,
      "statistics": statistics,
      "anomalies": anomalies,
      "gate_report": gate.outputs["report"],
      "model": model,
      "model_run": training["model_run"],
      "evaluation": judged,
      "blessing": blessing,
    }
    return _Trained(net, made, passed)

  def _example_gen(self, before: Sequence[_Trained]) -> BaseNode:
    config = self.config
    if not before:
      return CropExampleGen(net=self.net.unbounded, conversion=config.conversion, data_root=self.data)
    mining = HardExampleGen(
      [stage.model for stage in before],
      net=self.net.unbounded,
      conversion=config.conversion,
      mining=config.mining,
      data_root=self.data,
    )
    _after_gates(mining, before)
    return mining

  def _transform(self, examples: BaseChannel, schema: BaseChannel) -> Transform:
    train = self._splits("train")
    return Transform(
      examples=examples,
      schema=schema,
      preprocessing_fn="taskmix.transform.preprocessing_fn",
      splits_config=transform_pb2.SplitsConfig(analyze=train, transform=[*train, *self._splits("eval")]),
      custom_config=self._custom_config(),
      # StatisticsGen has described the same columns already.
      disable_statistics=True,
    )

  def _trainer(self, transform: Transform, schema: BaseChannel) -> Trainer:
    return Trainer(
      run_fn="taskmix.model.training.run_fn",
      examples=transform.outputs["transformed_examples"],
      transform_graph=transform.outputs["transform_graph"],
      schema=schema,
      train_args=trainer_pb2.TrainArgs(splits=self._splits("train")),
      eval_args=trainer_pb2.EvalArgs(splits=self._splits("eval")),
      custom_config={
        **self._custom_config(),
        "training": to_json(self.training),
        # Part of the component's properties, so that other weights under the same name meet no stale cache.
        "start": starting_weights.fingerprint(self.training),
        "checkpoint_dir": str(self.folder.checkpoints / self.net.name),
      },
    )

  def _splits(self, phase: str) -> list[str]:
    return [split_name(phase, kind) for kind in self.net.mixture.names]

  def _custom_config(self) -> dict[str, str]:
    return {"net": self.net.unbounded.to_json(), "code": code_fingerprint(self.net)}


def _push_net(
  config: Config, trained: _Trained, folder: RunFolder, plan: Plan, last: dict[str, BaseChannel]
) -> list[BaseNode]:
  """The check and the push of a net on its own; `last` takes their outputs for the report."""
  net = trained.net
  serving = ServingCheck(trained.model, trained.examples, name=net.name, policy=config.serving)
  pusher = ModelPusher(
    trained.model,
    name=net.name,
    push_directory=str(folder.serving / net.name),
    model_blessing=trained.made["blessing"],
    infra_blessing=serving.outputs["blessing"],
    evaluation=trained.made["evaluation"],
    net=net,
    lineage={"config": config.name},
    keep=config.keep_versions,
    stages=[trained.made],
    plan=plan,
  )
  last |= {"serving": serving.outputs["blessing"], "pushed": pusher.outputs["pushed_model"]}
  return [serving, pusher]


def _push_detector(
  config: Config,
  trained: Sequence[_Trained],
  data: str,
  folder: RunFolder,
  history: MetadataHistory,
  plan: Plan,
  last: dict[str, BaseChannel],
) -> list[BaseNode]:
  """The assembly, the check and the push of a cascade; `last` takes their outputs for the report."""
  first = config.nets[0].unbounded
  assembler = CascadeAssembler(
    [stage.model for stage in trained],
    code=code_fingerprint(first),
    goal=config.goal,
    examples=trained[0].examples,
    net=first,
    data_root=data,
  )
  _after_gates(assembler, trained)
  detector = assembler.outputs["model"]
  baseline = history.model(detector, producer=assembler.id)
  evaluator = DetectionEvaluator(
    detector,
    trained[0].examples,
    net=first,
    data_root=data,
    policy=config.detection,
    baseline_model=baseline.outputs["model"],
    reference=config.reference,
    wider_lists=join(data, config.wider_lists) if config.wider_lists else "",
  )
  serving = ServingCheck(
    detector,
    name=DETECTOR,
    photos=sample_photos(first, data_root=data),
    constants=dataclasses.asdict(Options()),
    policy=config.serving,
  )
  pusher = ModelPusher(
    detector,
    name=DETECTOR,
    push_directory=str(folder.serving / DETECTOR),
    model_blessing=evaluator.outputs["blessing"],
    infra_blessing=serving.outputs["blessing"],
    evaluation=evaluator.outputs["evaluation"],
    lineage={"config": config.name},
    keep=config.keep_versions,
    stages=[stage.made for stage in trained],
    plan=plan,
  )
  memory = history.remember(detector, producer=assembler.id, blessing=evaluator.outputs["blessing"])
  last |= {
    "detector": detector,
    "detection": evaluator.outputs["evaluation"],
    "serving": serving.outputs["blessing"],
    "pushed": pusher.outputs["pushed_model"],
  }
  return [assembler, baseline, evaluator, *memory, serving, pusher]


def _after_gates(node: BaseNode, stages: Sequence[_Trained]) -> None:
  """Lets the node wait for the gates of the nets that it is built on."""
  for stage in stages:
    assert stage.passed
    node.add_upstream_node(stage.passed)


def _waits_for(node: BaseNode) -> tuple[str, ...]:
  """Ids of the nodes whose outputs, or whose end, it needs."""
  given = {each for channel in node.inputs.values() for each in channel.get_data_dependent_node_ids()}
  return tuple(sorted({*given, *(before.id for before in node.upstream_nodes)} - {node.id}))


def _last_blessed_statistics(net: Net) -> Resolver:
  """The node that finds what the gate measures drift from."""
  return Resolver(
    strategy_class=LastBlessedStatistics,
    config={"statistics_gen": node_id("StatisticsGen", net), "evaluator": node_id("Evaluator", net)},
    statistics=Channel(type=standard_artifacts.ExampleStatistics),
    blessing=Channel(type=standard_artifacts.ModelBlessing),
  ).with_id("blessed_statistics")


def _last_other_blessed_model(model: BaseChannel, *, producer: str) -> Resolver:
  """The node that finds what a new model is compared with."""
  return Resolver(
    strategy_class=LastOtherBlessedModel,
    config={"producer": producer},
    model=Channel(type=standard_artifacts.Model),
    model_blessing=Channel(type=standard_artifacts.ModelBlessing),
    candidate=model,
  ).with_id("latest_blessed_model")


def _schema(config: Config, net: Net) -> pathlib.Path:
  """The curated schema of `net`; raises ValueError if it is not there, with the command that writes it."""
  path = schema_path(config, net)
  if not path.is_file():
    raise ValueError(f"no schema {path}: write it with `taskmix schema --write`, then review it")
  return path


def code_fingerprint(net: Net) -> str:
  """A hash of the code that Transform and Trainer run, so that edited code never meets a stale cache.

  It covers every module of taskmix but those of the report, which only looks on, and
  the module of the net's backbone.
  """
  package = pathlib.Path(taskmix.__file__).parent
  modules = {path for path in package.rglob("*.py") if package / "report" not in path.parents}
  backbone = importlib.import_module(net.backbone.partition(":")[0]).__file__
  files = sorted({*modules, *([pathlib.Path(backbone)] if backbone else [])})
  contents = (hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() for path in files)
  return f"{keys.stable_hash(*contents):016x}"
