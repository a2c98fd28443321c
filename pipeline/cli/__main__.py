"""python -m pipeline.cli, where the console script is not installed."""

from pipeline.cli import main

main()
