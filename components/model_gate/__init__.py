"""Stops the run behind an Evaluator that did not bless."""
