"""The distribution `taskmix`; also Dataflow's --setup_file.

Versions are held loosely here and exactly in requirements.lock, which the
Makefile installs.
"""

import pathlib
import re

import setuptools

ROOT = pathlib.Path(__file__).parent

VERSION = re.search(r'__version__ = "([^"]+)"', (ROOT / "taskmix/__init__.py").read_text()).group(1)

# TFX 1.16 is the newest that installs on Debian 12 (later wheels need glibc
# 2.39); Beam 2.67 is the newest that brings dill, which tfx-bsl imports;
# google-api-core 2.26 and later warn about Python 3.10 at every import.
INSTALL = [
  "tensorflow==2.16.2",
  "tfx[kfp]==1.16.0",
  "apache-beam[gcp]==2.67.0",
  "tensorflow-data-validation==1.16.1",
  "tensorflow-transform==1.16.0",
  "tensorflow-model-analysis==0.47.1",
  "tensorflow-serving-api==2.16.1",
  "keras>=3.12,<3.13",
  "numpy<2",
  "google-api-core<2.26",
  "setuptools<81",
  "click<9",
  "cloudpickle",
  "google-crc32c",
  "grpcio",
  "opencv-python-headless<4.12",
  "pillow",
  "pydantic>=2,<3",
  "rich",
  "typer",
  "jinja2",
  "matplotlib<3.11",
  "psutil",
  "requests",
  "scipy",
]

EXTRAS = {
  # The released weights, for `taskmix import-weights`.
  "import": ["mtcnn==1.0.0", "lz4==4.4.5"],
  "gpu": ["tensorflow[and-cuda]==2.16.2"],
  # For `taskmix report --mlflow`; the client alone, without the server.
  "mlflow": ["mlflow-skinny>=3,<4"],
  # For s3:// paths.
  "s3": ["boto3"],
  # For `make docs`; mkdocstrings 1.0 fails with pymdown-extensions 12.
  "docs": ["mkdocs-material", "mkdocstrings[python]", "pymdown-extensions<11"],
  "dev": [
    "boto3",
    "flask",
    "flask-cors",
    "gcp-storage-emulator",
    "hypothesis",
    "mlflow-skinny>=3,<4",
    "moto[s3]",
    "pycocotools",
    "pyright[nodejs]",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "ruff",
    "websocket-client",
    "wheel",
  ],
}

setuptools.setup(
  name="taskmix",
  version=VERSION,
  description="Multi-task Keras models from partly labelled samples, as a TFX pipeline",
  long_description=(ROOT / "README.md").read_text() if (ROOT / "README.md").exists() else "",
  long_description_content_type="text/markdown",
  license="Apache-2.0",
  python_requires=">=3.10,<3.11",
  packages=setuptools.find_packages(include=["taskmix*", "components*", "pipeline*"]),
  package_data={"taskmix": ["py.typed"], "taskmix.report": ["templates/*"]},
  install_requires=INSTALL,
  extras_require=EXTRAS,
  entry_points={"console_scripts": ["taskmix=pipeline.cli:main"]},
)
