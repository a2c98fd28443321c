"""Train one Keras model on several tasks when every sample labels only some."""

__version__ = "0.1.0"
