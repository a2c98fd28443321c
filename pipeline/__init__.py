"""Assembly: configs, the DAG, its runner and the command line."""
