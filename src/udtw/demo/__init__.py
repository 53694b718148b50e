"""Align, average, classify, forecast and recognize generated data in a few minutes, with a report."""

from udtw.demo.common import FULL, QUICK
from udtw.demo.run import SUMMARY, run_demo, summary
