"""Judges a detector on held-out photos and blesses it, or says why not."""
