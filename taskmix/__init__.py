"""Train one Keras model on several tasks when every sample labels only some."""

import os

__version__ = "0.1.0"

# oneDNN's kernels train O-Net in half the time and detect in two thirds of it, but
# TensorFlow takes them by itself only on processors with AVX-512 VNNI. It reads this
# as it is imported, so whatever starts a process imports taskmix first.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
