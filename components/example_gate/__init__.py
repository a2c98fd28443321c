"""Stops the run where the data is not what the schema and the mixture promise."""
