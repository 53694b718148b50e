"""The first tab: two series, their alignment, and other distances for comparison."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from dash import dcc, html
from matplotlib.figure import Figure

from udtw.explorer import scripts
from udtw.explorer.controls import graph, radio, range_slider, section, sentence, shown_number, slider, upload
from udtw.explorer.match_lines import HEIGHT, key, match_figure
from udtw.explorer.series_alignment import (
    LEVEL,
    LOG_GAMMA,
    MAX_NOISE,
    MAX_PATHS,
    MAX_SEED,
    SIDES,
    VARIANCES,
    VIEWS,
    SeriesResult,
    SeriesSettings,
    align_series,
    prepare_series,
)
from udtw.explorer.series_choices import WARPS, ChosenSeries, SeriesChoices
from udtw.explorer.series_figures import alignment_figure, comparison
from udtw.explorer.series_sentence import sentence as series_sentence
from udtw.explorer.tab import SUMS, Tab
from udtw.explorer.uploads import MAX_SERIES_BYTES
from udtw.plots import plot_alignment, plot_matches


class SeriesTab(Tab):
    """Series: generated ones, sets of the UCR archive in ``data_dir``, and CSV files."""

    name, file = "series", "alignment"
    settings = SeriesSettings
    controls: ClassVar[Mapping[str, str | None]] = {
        "gamma": "power", "beta": "plain", "band": "percent", "noise": "plain", "stretch": "range", "side": None,
        "variance": None, "scale": None, "paths": "plain", "seed": "plain", "view": None,
    }  # fmt: skip
    cards = SUMS | {
        "length": (
            "E[1]",
            "path length",
            "expected number of cells on the path; in brackets, of the most probable path",
        )
    }
    children = ("sentence", "key", "comparison")
    figures = ("alignment",)
    upload_limit = MAX_SERIES_BYTES
    after_upload: ClassVar[Mapping[str, Any]] = {"variance": "estimate"}

    def __init__(self, data_dir: str | os.PathLike | None = None) -> None:
        self.choices = SeriesChoices(data_dir)

    def align(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> SeriesResult:
        return align_series(prepare_series(x, y, settings), settings)

    def show(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings, result: SeriesResult) -> dict[str, Any]:
        return {
            "length": f"{shown_number(result.path_length, 4)} ({len(result.mode)})",
            "sentence": series_sentence(x, y, settings, result),
            "alignment": match_figure(result) if settings.view == "lines" else alignment_figure(result),
            "key": key(result) if settings.view == "lines" else [],
            "comparison": comparison(result),
        }

    def code(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> str:
        return scripts.series_script(x, y, settings)

    def draw(self, settings: SeriesSettings, result: SeriesResult) -> Figure:
        x, y = result.prepared.x, result.prepared.y
        if settings.view == "lines":
            return plot_matches(x, y, result.alignment, level=LEVEL, times=result.prepared.times)
        return plot_alignment(x, y, result.alignment, paths=settings.paths, seed=settings.seed)

    def layout(self) -> html.Div:
        tab, first = self.name, SeriesSettings()

        def side(name: str, item: int) -> html.Div:
            labels = (f"set of {name}", f"series of the set for {name}")
            file = upload(f"{tab}-{name}-upload", f"Open your own {name} …", MAX_SERIES_BYTES)
            return self.side(name, f"Series {name}", labels, (WARPS, item), file)

        controls = [
            side("x", 1),
            side("y", 0),
            section(
                "Uncertainty",
                radio(f"{tab}-variance", "variance σ² of the steps", VARIANCES, first.variance),
            ),
            section(
                "Alignment",
                *self.alignment_sliders(LOG_GAMMA, 0.6, "length"),
                dcc.Checklist(
                    [{"value": "znormalize", "label": "z-normalise both (mean 0, standard deviation 1)"}],
                    [],
                    id=f"{tab}-scale",
                ),
                slider(
                    f"{tab}-paths", "sampled paths (in the matrix)", (0, MAX_PATHS), 1, first.paths,
                    {0: "0", 20: "20", 50: "50"},
                ),
            ),
            section(
                "Added noise (generated series only)",
                slider(
                    f"{tab}-noise", "noise (standard deviation)", (0, MAX_NOISE), 0.05, first.noise,
                    {0: "0", 1: "1", 2: "2", 3: "3"},
                ),
                range_slider(
                    f"{tab}-stretch", "noisy part of the series", list(first.stretch),
                    {0: "0 %", 50: "50 %", 100: "100 %"},
                ),
                radio(f"{tab}-side", "noise in", SIDES, first.side, inline=True),
                slider(
                    f"{tab}-seed", "seed of noise and paths", (0, MAX_SEED), 1, 0, {0: "0", 500: "500", 999: "999"}
                ),
            ),
        ]  # fmt: skip
        seen = [
            sentence(tab),
            graph(f"{tab}-alignment", HEIGHT, "Both series with lines between the steps that match"),
            html.Div([], id=f"{tab}-key", className="key"),
            radio(f"{tab}-view", "View", VIEWS, first.view, inline=True),
        ]
        shown = [
            html.H2("Four distances of the same pair (sums of squares)"),
            html.Div([], id=f"{tab}-comparison", className="panels"),
        ]
        return self.page(seen, controls, shown, visible=True)
