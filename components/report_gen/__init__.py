"""Writes the run report, whatever became of the run."""
