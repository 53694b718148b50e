"""Run an experiment: ``python -m experiments NAME``, the same command as ``udtw reproduce NAME``."""

import typer

from experiments.command import reproduce

if __name__ == "__main__":
    typer.run(reproduce)
