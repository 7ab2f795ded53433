"""Lets `python -m optimiser` stand in for the `optimise` script."""

from optimiser.cli.main import main

main()
