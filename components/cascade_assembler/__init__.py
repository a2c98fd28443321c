"""One SavedModel that detects, from the SavedModels of a cascade's nets."""
