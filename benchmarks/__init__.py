"""Measurements behind `make bench-*`: ours and a baseline in turn, ratios as JSON."""

import taskmix  # noqa: F401  (chooses TensorFlow's kernels, before it is imported)
