"""One module a config; its docstring is the experiment's record."""
