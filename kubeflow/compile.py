"""Writes a config's job for Kubeflow Pipelines, from a checkout without installing it.

    python kubeflow/compile.py job/faces --config faces --runner kubeflow/cluster.json

Arguments are those of `taskmix compile-kubeflow`; the work is in pipeline/kubeflow.
"""

import pathlib
import sys

# The folder of this file is on the path, and not the repository. Appended, for it
# has a folder `kubeflow`, and so may site-packages.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from pipeline.cli import app

if __name__ == "__main__":
  sys.exit(app(["compile-kubeflow", *sys.argv[1:]]))
