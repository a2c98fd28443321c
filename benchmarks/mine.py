"""How fast photos are searched for hard examples, and in how much memory.

    make bench-mine [DATA=FOLDER]

R-Net's examples with what a P-Net takes for faces among them, as HardExampleGen
makes them, after the same conversion without mining, on the same photos, each in a
process of its own. The P-Net has the released weights (the extra `import`), since
an untrained one takes everything for a face; `--package` names the folder of the
package `mtcnn` where it is not installed.

The last line is one JSON object: photos_per_s, plain_photos_per_s (without
mining), ratio of the two, peak_rss_mb (resident memory of all processes together,
sampled), and memory_4x (four times the photos against once).
Exits 1 if memory passes the conversion's bars.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks import convert
from taskmix.faces.mining import Miner, Mining
from taskmix.nets.mtcnn import PNET, RNET
from taskmix.spec import Conversion, Net

BARS = {"peak_rss_mb": 1536.0, "memory_4x": 1.1}


def main() -> None:
  parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
  parser.add_argument("--data", default=os.environ.get("DATA") or str(convert.SHARED / "wider"))
  parser.add_argument("--package", help="folder that holds the package mtcnn")
  parser.add_argument("--step", nargs=2, metavar=("MODEL", "OUTPUT"), help=argparse.SUPPRESS)
  arguments = parser.parse_args()
  if arguments.step:
    print(json.dumps(_step(arguments.data, *arguments.step)))
    return
  result = compare(pathlib.Path(arguments.data), arguments.package)
  missed = [name for name, bar in BARS.items() if result[name] > bar]
  for name in missed:
    print(f"missed: {name} = {result[name]:.3g}")
  print(json.dumps(result))
  sys.exit(bool(missed))


def compare(data: pathlib.Path, package: str | None) -> dict[str, float]:
  """Without mining, with it, and with it on four times the photos."""
  with tempfile.TemporaryDirectory(prefix="bench-mine-") as folder:
    work = pathlib.Path(folder)
    model = work / "pnet"
    # In a process of its own: TensorFlow stays out of this one.
    subprocess.run(
      [sys.executable, "-c", f"from benchmarks.mine import export; export({str(model)!r}, {package!r})"],
      check=True,
      cwd=convert.REPOSITORY,
      stderr=subprocess.DEVNULL,
    )
    plain = _timed("plain", data, "", work)
    mined = _timed("mined", data, str(model), work)
    four = _timed("mined", convert.lay_out_times(data, work / "four", 4), str(model), work)
  rate, plain_rate = (each["photos"] / each["seconds"] for each in (mined, plain))
  result = {
    "photos_per_s": rate,
    "plain_photos_per_s": plain_rate,
    "ratio": rate / plain_rate,
    "peak_rss_mb": mined["peak_rss_mb"],
    "memory_4x": four["peak_rss_mb"] / mined["peak_rss_mb"],
  }
  return {name: round(value, 3) for name, value in result.items()}


def export(folder: str, package: str | None) -> None:
  """Writes a P-Net of the released weights as a Trainer would export it."""
  from taskmix.faces.import_weights import released_model
  from taskmix.model import serving
  from taskmix.model.build import build

  model = build(PNET)
  model.set_weights(released_model(PNET, package=package).get_weights())
  serving.export(folder, PNET, model=model)


def net_of(data: pathlib.Path) -> Net:
  """R-Net on every WIDER list of the folder."""
  return dataclasses.replace(RNET, sources=convert.net_of(data).sources)


def _timed(name: str, data: pathlib.Path, model: str, work: pathlib.Path) -> dict[str, float]:
  output = work / "output"
  command = [sys.executable, "-m", "benchmarks.mine", "--data", str(data), "--step", model, str(output)]
  return convert.timed(name, command, output, work)


def _step(data: str, model: str, output: str) -> dict[str, Any]:
  import apache_beam

  from taskmix.examples.convert import Conversions

  steps = Conversions(
    net_of(pathlib.Path(data)),
    data_root=data,
    output=output,
    conversion=Conversion(),
    mine=Miner((model,), Mining()) if model else None,
  )
  started = time.perf_counter()
  with steps:
    with steps.problems(), apache_beam.Pipeline() as pipeline:
      steps.add_to(pipeline)
    manifest = steps.finish()
  return {"seconds": time.perf_counter() - started, "photos": manifest.photos["all"]}


if __name__ == "__main__":
  main()
