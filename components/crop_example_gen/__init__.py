"""Annotated photos to examples, in splits by phase and kind."""
