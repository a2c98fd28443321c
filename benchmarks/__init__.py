"""Measurements behind `make bench-*`: ours and a baseline in turn, ratios as JSON."""
