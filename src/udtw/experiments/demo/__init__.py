"""The demo: train, average, classify and forecast on generated data, in about two minutes, with a report to look at."""

from udtw.experiments.demo.parts import Part
from udtw.experiments.demo.run import run_demo
from udtw.experiments.demo.sizes import FULL, QUICK, Sizes

__all__ = ["FULL", "QUICK", "Part", "Sizes", "run_demo"]
