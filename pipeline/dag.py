"""The pipeline as TFX components: assembly only.

Importing this imports TFX (tens of seconds), so the command line does it late.
"""

import hashlib
import importlib
import pathlib

from tfx.components import (
  Evaluator,
  ExampleValidator,
  StatisticsGen,
  Trainer,
  Transform,
)
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.common.resolver import Resolver
from tfx.orchestration import metadata
from tfx.orchestration import pipeline as tfx_pipeline
from tfx.proto import trainer_pb2, transform_pb2
from tfx.types import standard_artifacts
from tfx.types.channel import Channel

import taskmix
from components.baseline import LastOtherBlessedModel
from components.crop_example_gen.component import CropExampleGen
from components.example_gate.blessed import LastBlessedStatistics
from components.example_gate.component import ExampleGate
from components.model_pusher.component import ModelPusher
from components.serving_check.component import ServingCheck
from pipeline.config import REPOSITORY, Config
from pipeline.folders import RunFolder
from taskmix import evaluation, keys
from taskmix.spec import Net, split_name, to_json


def create_pipeline(config: Config, *, data: str, folder: RunFolder) -> tfx_pipeline.Pipeline:
  """The whole run of `config`, from annotated photos to a pushed SavedModel.

  Args:
    config: the net and every setting.
    data: absolute path of the data folder.
    folder: where metadata, artifacts, checkpoints and pushed models go.

  Raises:
    ValueError: if the data folder or the net's schema is not there.
  """
  net = config.net
  examples = CropExampleGen(net=net, conversion=config.conversion, data_root=data)
  statistics = StatisticsGen(examples=examples.outputs["examples"])
  schema = ImportSchemaGen(schema_file=str(schema_path(net)))
  validator = ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])
  blessed_statistics = last_blessed_statistics() if config.gate.drift else None
  gate = ExampleGate(
    examples.outputs["examples"],
    statistics=statistics.outputs["statistics"],
    anomalies=validator.outputs["anomalies"],
    net=net,
    policy=config.gate,
    blessed_statistics=blessed_statistics.outputs["statistics"] if blessed_statistics else None,
    reports=str(folder.root / "reports"),
  )
  train_splits = [split_name("train", kind) for kind in net.mixture.names]
  eval_splits = [split_name("eval", kind) for kind in net.mixture.names]
  custom_config = {"net": net.to_json(), "code": code_fingerprint(net)}
  transform = Transform(
    examples=examples.outputs["examples"],
    schema=schema.outputs["schema"],
    preprocessing_fn="taskmix.transform.preprocessing_fn",
    splits_config=transform_pb2.SplitsConfig(analyze=train_splits, transform=[*train_splits, *eval_splits]),
    custom_config=custom_config,
    # StatisticsGen has described the same columns already.
    disable_statistics=True,
  )
  transform.add_upstream_node(gate)
  trainer = Trainer(
    run_fn="taskmix.model.training.run_fn",
    examples=transform.outputs["transformed_examples"],
    transform_graph=transform.outputs["transform_graph"],
    schema=schema.outputs["schema"],
    train_args=trainer_pb2.TrainArgs(splits=train_splits),
    eval_args=trainer_pb2.EvalArgs(splits=eval_splits),
    custom_config={
      **custom_config,
      "training": to_json(config.training),
      "checkpoint_dir": str(folder.checkpoints / net.name),
    },
  )
  baseline = Resolver(
    strategy_class=LastOtherBlessedModel,
    model=Channel(type=standard_artifacts.Model),
    model_blessing=Channel(type=standard_artifacts.ModelBlessing),
    candidate=trainer.outputs["model"],
  ).with_id("latest_blessed_model")
  evaluator = Evaluator(
    examples=examples.outputs["examples"],
    example_splits=eval_splits,
    model=trainer.outputs["model"],
    baseline_model=baseline.outputs["model"],
    eval_config=evaluation.eval_config(net),
    schema=schema.outputs["schema"],
  )
  serving = ServingCheck(
    trainer.outputs["model"], examples.outputs["examples"], name=net.name, policy=config.serving
  )
  pusher = ModelPusher(
    trainer.outputs["model"],
    name=net.name,
    push_directory=str(folder.serving / net.name),
    model_blessing=evaluator.outputs["blessing"],
    infra_blessing=serving.outputs["blessing"],
    evaluation=evaluator.outputs["evaluation"],
    net=net,
    lineage={"config": config.name},
    keep=config.keep_versions,
  )
  return tfx_pipeline.Pipeline(
    pipeline_name=config.name,
    pipeline_root=str(folder.artifacts),
    metadata_connection_config=metadata.sqlite_metadata_connection_config(str(folder.metadata)),
    enable_cache=True,
    components=[
      examples,
      statistics,
      schema,
      validator,
      *([blessed_statistics] if blessed_statistics else []),
      gate,
      transform,
      trainer,
      baseline,
      evaluator,
      serving,
      pusher,
    ],
  )


def last_blessed_statistics() -> Resolver:
  """The node that finds what the gate measures drift from."""
  return Resolver(
    strategy_class=LastBlessedStatistics,
    config={"statistics_gen": "StatisticsGen", "evaluator": "Evaluator"},
    statistics=Channel(type=standard_artifacts.ExampleStatistics),
    blessing=Channel(type=standard_artifacts.ModelBlessing),
  ).with_id("blessed_statistics")


def schema_path(net: Net) -> pathlib.Path:
  """The curated schema of `net`.

  Raises:
    ValueError: if it is not there, with the command that writes it.
  """
  path = REPOSITORY / "schemas" / f"{net.name}.pbtxt"
  if not path.is_file():
    raise ValueError(f"no schema {path}: write it with `taskmix schema --write`, then review it")
  return path


def code_fingerprint(net: Net) -> str:
  """A hash of the code that Transform and Trainer run, so that edited code never meets a stale cache.

  It covers every module of taskmix and the module of the net's backbone.
  """
  package = pathlib.Path(taskmix.__file__).parent
  backbone = importlib.import_module(net.backbone.partition(":")[0]).__file__
  files = sorted({*package.rglob("*.py"), *([pathlib.Path(backbone)] if backbone else [])})
  contents = (hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() for path in files)
  return f"{keys.stable_hash(*contents):016x}"
