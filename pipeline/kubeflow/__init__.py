"""The pipeline as a job of Kubeflow Pipelines: compiled, run step by step, rehearsed."""
