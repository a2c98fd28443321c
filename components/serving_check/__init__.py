"""Asks the model, in a clean process, before it may be pushed."""
