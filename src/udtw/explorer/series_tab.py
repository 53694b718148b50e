"""The first tab: two series, their alignment, and other distances for comparison."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from dash import dcc, html
from matplotlib.figure import Figure

from udtw.explorer import scripts
from udtw.explorer.controls import graph, radio, range_slider, section, shown_number, slider, upload
from udtw.explorer.series_alignment import (
    LOG_GAMMA,
    MAX_NOISE,
    MAX_PATHS,
    MAX_SEED,
    SIDES,
    VARIANCES,
    ChosenSeries,
    SeriesChoices,
    SeriesResult,
    SeriesSettings,
    align_series,
    prepare_series,
)
from udtw.explorer.series_figures import HEIGHT, alignment_figure, comparison
from udtw.explorer.tab import SUMS, Tab
from udtw.explorer.uploads import MAX_CSV_BYTES
from udtw.plots import plot_alignment

FIRST = "cbf-256"


class SeriesTab(Tab):
    """Series: generated ones, sets of the UCR archive in ``data_dir``, and CSV files."""

    name, file = "series", "alignment"
    settings = SeriesSettings
    controls: ClassVar[Mapping[str, str | None]] = {
        "gamma": "power", "beta": "plain", "band": "percent", "noise": "plain", "stretch": "range", "side": None,
        "variance": None, "scale": None, "paths": "plain", "seed": "plain",
    }  # fmt: skip
    cards = SUMS | {
        "length": (
            "E[1]",
            "path length",
            "expected number of cells on the path; in brackets, of the most probable path",
        )
    }
    children = ("comparison",)
    figures = ("alignment",)
    upload_limit = MAX_CSV_BYTES

    def __init__(self, data_dir: str | os.PathLike | None = None) -> None:
        self.choices = SeriesChoices(data_dir)

    def align(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> SeriesResult:
        return align_series(prepare_series(x.values, y.values, settings), settings)

    def show(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings, result: SeriesResult) -> dict[str, Any]:
        return {
            "length": f"{shown_number(result.path_length, 4)} ({len(result.mode)})",
            "alignment": alignment_figure(result),
            "comparison": comparison(result),
        }

    def code(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> str:
        return scripts.series_script(x, y, settings)

    def draw(self, settings: SeriesSettings, result: SeriesResult) -> Figure:
        x, y = result.prepared.x, result.prepared.y
        return plot_alignment(x, y, result.alignment, paths=settings.paths, seed=settings.seed)

    def layout(self) -> html.Div:
        tab, first = self.name, SeriesSettings()

        def side(name: str, item: int) -> html.Div:
            labels = (f"set of {name}", f"series of the set for {name}")
            file = upload(f"{tab}-{name}-upload", f"Upload a CSV for {name} …", ".csv,.tsv,.txt,text/csv")
            return self.side(name, f"Series {name}", labels, (FIRST, item), file)

        controls = [
            side("x", 0),
            side("y", 1),
            dcc.Checklist(
                [{"value": "znormalize", "label": "z-normalise both (mean 0, standard deviation 1)"}],
                ["znormalize"],
                id=f"{tab}-scale",
            ),
            section(
                "Alignment",
                *self.alignment_sliders(LOG_GAMMA, -1, "length"),
                slider(
                    f"{tab}-paths", "sampled paths", (0, MAX_PATHS), 1, first.paths, {0: "0", 20: "20", 50: "50"}
                ),
            ),
            section(
                "Noise and uncertainty",
                slider(
                    f"{tab}-noise", "noise (standard deviation)", (0, MAX_NOISE), 0.05, 1,
                    {0: "0", 1: "1", 2: "2", 3: "3"},
                ),
                range_slider(
                    f"{tab}-stretch", "noisy part of the series", list(first.stretch),
                    {0: "0 %", 50: "50 %", 100: "100 %"},
                ),
                radio(f"{tab}-side", "noise in", SIDES, first.side, inline=True),
                radio(f"{tab}-variance", "variance σ² of the steps", VARIANCES, first.variance),
                slider(
                    f"{tab}-seed", "seed of noise and paths", (0, MAX_SEED), 1, 0, {0: "0", 500: "500", 999: "999"}
                ),
            ),
        ]  # fmt: skip
        shown = [
            graph(f"{tab}-alignment", HEIGHT, "Both series around their coupling and variance"),
            html.H2("Four distances of the same pair (sums of squares)"),
            html.Div([], id=f"{tab}-comparison", className="panels"),
        ]
        return self.page(controls, shown, visible=True)
