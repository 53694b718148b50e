"""All parts of the demo in order, with one progress bar, one report and the tables in the terminal."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import udtw
from udtw.data import znormalize
from udtw.experiments.demo import actions, averages, classification, forecasts, pictures
from udtw.experiments.demo.data import draw
from udtw.experiments.demo.parts import Part
from udtw.experiments.demo.sizes import Sizes
from udtw.experiments.document import Document
from udtw.plots import plot_gamma_sweep

GAMMAS = (0.01, 0.1, 1.0, 10.0)
PARTS = (
    (averages.average, averages.steps),
    (classification.classify, classification.steps),
    (forecasts.forecast, forecasts.steps),
    (actions.recognise, actions.steps),
    (pictures.tell_apart, pictures.steps),
)


def run_demo(out: Path, sizes: Sizes, progress: Console) -> tuple[list[Part], Path]:
    """Compute all parts and write the report into ``out``; returns the parts and the file to open."""
    begin = time.perf_counter()
    threads = torch.get_num_threads()
    # Steps of a millisecond: threads gain nothing here, and on busy cores their waiting costs ten times the work.
    torch.set_num_threads(1)
    try:
        parts, figure = _compute(sizes, progress)
    finally:
        torch.set_num_threads(threads)
    return parts, _write(out, parts, figure, time.perf_counter() - begin)


def _compute(sizes: Sizes, progress: Console) -> tuple[list[Part], Any]:
    """The parts, and the figure of couplings."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=progress) as bar:
        task = bar.add_task("first use: compiling …", total=1 + sum(steps(sizes) for _, steps in PARTS))
        figure = _gamma_figure(sizes)

        def tick(text: str) -> None:
            bar.update(task, advance=1, description=text)

        parts = [part(sizes, tick) for part, _ in PARTS]
        bar.update(task, advance=1, description="done")
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
