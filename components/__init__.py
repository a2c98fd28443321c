"""TFX components: `component.py` wires, `executor.py` works, the domain in `taskmix` decides."""


def __getattr__(name: str) -> type:
  # The Kubeflow runner imports an artifact's class by its type name, from here.
  if name in ("GateReport", "RunReport"):
    from components import artifacts

    return getattr(artifacts, name)
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
