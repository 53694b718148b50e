"""All parts of the demo in order, with one progress bar and one report."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

import udtw
from udtw.data import znormalize
from udtw.experiments.demo import recognition, series
from udtw.experiments.demo.common import Part, Sizes, draw
from udtw.experiments.document import Document
from udtw.plots import plot_gamma_sweep
from udtw.progress import progress_bar

GAMMAS = (0.01, 0.1, 1.0, 10.0)
PARTS = (
    (series.average, series.average_steps),
    (series.classify, series.classify_steps),
    (series.forecast, series.forecast_steps),
    (recognition.recognise, recognition.recognise_steps),
    (recognition.tell_apart, recognition.tell_apart_steps),
)
"""Functions that compute a part, and its number of steps of the progress bar."""


def run_demo(out: Path, sizes: Sizes, progress: Console) -> tuple[list[Part], Path]:
    """Compute all parts and write the report into ``out``; returns the parts and the path of report.html.

    ``progress`` is the console of the progress bar.

    >>> from pathlib import Path
    >>> from rich.console import Console
    >>> from udtw.experiments.demo import QUICK, run_demo
    >>> parts, page = run_demo(Path("out"), QUICK, Console(stderr=True))  # doctest: +SKIP
    """
    begin = time.perf_counter()
    threads = torch.get_num_threads()
    # Steps take about a millisecond: threads gain nothing, and on busy cores synchronising them costs ten times that.
    torch.set_num_threads(1)
    try:
        parts, figure = _compute(sizes, progress)
    finally:
        torch.set_num_threads(threads)
    return parts, _write(out, parts, figure, time.perf_counter() - begin)


def _compute(sizes: Sizes, progress: Console) -> tuple[list[Part], Any]:
    """The parts, and the figure of couplings."""
    with progress_bar("demo", 1 + sum(steps(sizes) for _, steps in PARTS), console=progress) as advance:
        advance(0, "first use: compiling …")
        figure = _gamma_figure(sizes)
        parts = [part(sizes, lambda text: advance(note=text)) for part, _ in PARTS]
        advance(note="done")
    return parts, figure


def _gamma_figure(sizes: Sizes) -> Any:
    """Couplings of two funnels, from the least-cost path to all paths."""
    data = draw(sizes, 2, 0, 2, disturbed=False)
    x, y = znormalize(np.asarray(data.X)[data.y == 3])
    return plot_gamma_sweep(x, y, GAMMAS)


def _write(out: Path, parts: list[Part], figure: object, seconds: float) -> Path:
    document = Document("uDTW demo")
    document.text(
        "Everything here was generated, learned and measured by `udtw demo` on this machine; no data was downloaded. "
        "All numbers are from series that were not used for training.\n\n"
        "## Align\n\nAn alignment is a random path. The temperature γ says how random: the couplings below show the "
        "probability that a step of x is matched with a step of y, as γ grows."
    )
    document.figure(figure, "Couplings of two funnel series (darkness: probability to the power 0.1).")
    for part in parts:
        part.add_to(document)
    document.text(f"Made by udtw {udtw.__version__} in {seconds:.0f} s.")
    return document.write(out)
