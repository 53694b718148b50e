"""Run an experiment, ``python -m experiments NAME``, as ``udtw reproduce NAME``; ``… figures NAME`` draws a figure."""

import sys

import typer

from experiments.command import reproduce

if __name__ == "__main__":
    if sys.argv[1:2] == ["figures"]:
        from experiments.figures import figures

        del sys.argv[1]
        typer.run(figures)
    else:
        typer.run(reproduce)
