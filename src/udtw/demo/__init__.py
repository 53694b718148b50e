"""The demo: average, classify, forecast and recognise on generated data, in a few minutes, with a report."""

from udtw.demo.common import FULL, QUICK, Part, Sizes
from udtw.demo.run import run_demo

__all__ = ["FULL", "QUICK", "Part", "Sizes", "run_demo"]
