"""The benchmarks are no part of the distribution: their folder is found here."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2]))
