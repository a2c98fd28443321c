"""Examples that were converted before, as the start of a pipeline."""
