"""One module a config; its docstring is the experiment's record."""

import pkgutil


def config_names() -> list[str]:
  """The configs that come with taskmix."""
  return sorted(module.name for module in pkgutil.iter_modules(__path__))
