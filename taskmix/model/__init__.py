"""From a Net to a trained, servable Keras model: build, losses, training, serving."""
