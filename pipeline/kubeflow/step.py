"""What every container runs: TFX's entry point, with what reaches it and leaves it put right.

TFX's executors were written for Vertex. Open-source Kubeflow Pipelines differs:

* its launcher copies an artifact `s3://bucket/key` to and from `/s3/bucket/key`
  (likewise minio://), and expects a step to use that; TensorFlow knows neither
  scheme. So the executor is given the local paths, and the URIs are put back in
  what it says. gs:// stays: TensorFlow and Beam read and write it themselves;
* its artifacts may have no names, which TFX's Evaluator looks up;
* a step cannot leave an output out. One that is marked absent is no input.

And run parameters, for what TFX keeps inside JSON: `taskmix_data` fills in {data},
`taskmix_steps` and `taskmix_batch_size` replace the training's.
"""

import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

# Unlike any name of TFX's own, such as run_fn.
RUN_PREFIX = "taskmix_"

# Where a constant has the run's data folder.
DATA = "{data}"

# Also components.blessed_store.executor.ABSENT, which imports TFX.
_ABSENT = "absent"

_SCHEMES = ("s3", "minio")

# Rehearsals have a folder of their own in place of the container's "/".
_ROOT = "TASKMIX_LAUNCHER_ROOT"


def main(arguments: Sequence[str]) -> None:
  """Runs one step; arguments are those of TFX's entry point, and `--step NAME`."""
  mended = list(arguments)
  if "--step" in mended:
    place = mended.index("--step")
    del mended[place : place + 2]
  place = mended.index("--json_serialized_invocation_args") + 1
  invocation = mend(json.loads(mended[place]))
  mended[place] = json.dumps(invocation)

  # Twenty seconds of import that a mistake above is spared.
  from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_run_executor as tfx_entry

  tfx_entry.main(tfx_entry._parse_flags(mended))
  output = pathlib.Path(invocation["outputs"]["outputFile"])
  if "://" not in str(output) and output.is_file():
    output.write_text(json.dumps(restore(json.loads(output.read_text()))))


def mend(invocation: dict[str, Any]) -> dict[str, Any]:
  """Executor input as TFX's executors can use it."""
  inputs = invocation.setdefault("inputs", {})
  present = {}
  for key, artifacts in inputs.get("artifacts", {}).items():
    kept = [each for each in artifacts.get("artifacts", []) if not each.get("metadata", {}).get(_ABSENT)]
    if kept:
      present[key] = {"artifacts": [_mended(each) for each in kept]}
  inputs["artifacts"] = present
  outputs = invocation.setdefault("outputs", {}).setdefault("artifacts", {})
  for key, artifacts in outputs.items():
    outputs[key] = {"artifacts": [_mended(each) for each in artifacts.get("artifacts", [])]}
  inputs["parameterValues"] = with_run_parameters(inputs.get("parameterValues", {}))
  return invocation


def with_run_parameters(values: dict[str, Any]) -> dict[str, Any]:
  """A step's parameters with those of the run filled in.

  Raises:
    ValueError: if the data folder has characters that JSON would have to escape,
      or a number is below 1.
  """
  run = {name: value for name, value in values.items() if name.startswith(RUN_PREFIX)}
  plain = {name: value for name, value in values.items() if name not in run}
  if data := run.pop(f"{RUN_PREFIX}data", ""):
    if json.dumps(data) != f'"{data}"':
      raise ValueError(f"data {data!r}: use a path without quotes, backslashes and control characters")
    root = data.rstrip("/")
    plain = {
      name: value.replace(DATA, root) if isinstance(value, str) else value for name, value in plain.items()
    }
  if run:
    config = json.loads(plain["custom_config"])
    config["training"] = _with_settings(config["training"], run)
    plain["custom_config"] = json.dumps(config)
  return plain


def restore(output: dict[str, Any]) -> dict[str, Any]:
  """Executor output with URIs in place of the launcher's local paths."""
  for artifacts in output.get("artifacts", {}).values():
    for artifact in artifacts.get("artifacts", []):
      artifact["uri"] = remote_uri(artifact.get("uri", ""))
  return output


def local_path(uri: str) -> str:
  """Where the backend's launcher keeps the artifact in the container."""
  scheme, found, rest = uri.partition("://")
  return f"{_root()}/{scheme}/{rest}" if found and scheme in _SCHEMES else uri


def remote_uri(path: str) -> str:
  """The URI of a path that the launcher keeps."""
  for scheme in _SCHEMES:
    prefix = f"{_root()}/{scheme}/"
    if path.startswith(prefix):
      return f"{scheme}://{path[len(prefix) :]}"
  return path


def _root() -> str:
  return os.environ.get(_ROOT, "").rstrip("/")


def _mended(artifact: dict[str, Any]) -> dict[str, Any]:
  uri = artifact.get("uri", "")
  return {**artifact, "uri": local_path(uri), "name": artifact.get("name") or uri}


def _with_settings(training: str, run: dict[str, Any]) -> str:
  settings = json.loads(training)
  for name, value in run.items():
    if int(value) < 1:
      raise ValueError(f"{name.removeprefix(RUN_PREFIX)} must be 1 or more, not {value}")
    settings[name.removeprefix(RUN_PREFIX)] = int(value)
  return json.dumps(settings, sort_keys=True, separators=(",", ":"))


if __name__ == "__main__":
  main(sys.argv[1:])
