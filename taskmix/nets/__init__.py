"""The nets that users edit, one module a family."""

import importlib
import pkgutil

from taskmix.spec import Net


def every_net() -> tuple[Net, ...]:
  """The nets that this package's modules define, in the order of modules and names."""
  modules = (importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__))
  found = [value for module in modules for _, value in sorted(vars(module).items()) if isinstance(value, Net)]
  return tuple({net.name: net for net in found}.values())
