"""Lay out the series tab: two series, their alignment, and other distances for comparison."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from dash import dcc, html
from matplotlib.figure import Figure

from udtw._engine.match import Match
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
from udtw.explorer.tab import SLIDERS, SUMS, Tab
from udtw.explorer.uploads import MAX_SERIES_BYTES
from udtw.plots import plot_alignment, plot_matches

STRETCH_MARKS = {0: "0 %", 50: "50 %", 100: "100 %"}
SURE = 0.5
"""A match of this probability is more likely than all others together."""
SOURCES = {
    "match": "finds from the pair where it is noisy (the bands of ±σ)",
    "estimate": "estimates from each series where it is noisy (the bands of ±σ)",
    "known": "is told where the series are noisy (the bands of ±σ)",
}


class SeriesTab(Tab):
    """Show series: generated ones, sets of the UCR archive in ``data_dir``, and uploaded files."""

    name, file = "series", "alignment"
    settings = SeriesSettings
    controls: ClassVar[Mapping[str, str | None]] = SLIDERS | {
        "noise": "plain",
        "stretch": "range",
        "side": None,
        "variance": None,
        "scale": None,
        "paths": "plain",
        "seed": "plain",
        "view": None,
    }
    cards = SUMS | {
        "length": ("E[1]", "path length", "expected number of cells on the path (of the most probable path)"),
    }
    children = ("verdict", "sentence", "key", "comparison")
    figures = ("alignment",)
    upload_limit = MAX_SERIES_BYTES
    after_upload: ClassVar[Mapping[str, Any]] = {"variance": "match"}

    def __init__(self, data_dir: str | os.PathLike | None = None) -> None:
        self.choices = SeriesChoices(data_dir)

    def align(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> SeriesResult:
        return align_series(prepare_series(x, y, settings), settings)

    def show(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings, result: SeriesResult) -> dict[str, Any]:
        return {
            "length": f"{shown_number(result.path_length, 4)} ({len(result.mode)})",
            "verdict": verdict(result),
            "sentence": describe(x, y, settings, result),
            "alignment": match_figure(result) if settings.view == "lines" else alignment_figure(result),
            "key": key(result) if settings.view == "lines" else [],
            "comparison": comparison(result),
        }

    def code(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> str:
        return scripts.series_script(x, y, settings)

    def draw(self, settings: SeriesSettings, result: SeriesResult) -> Figure:
        x, y = result.prepared.x, result.prepared.y
        found = result.matches if isinstance(result.matches, Match) else None
        if settings.view == "lines":
            return plot_matches(x, y, result.alignment, matches=found, level=LEVEL, times=result.prepared.times)
        return plot_alignment(x, y, result.alignment, match=found, paths=settings.paths, seed=settings.seed)

    def layout(self) -> html.Div:
        tab, first = self.name, SeriesSettings()

        def side(name: str, item: int) -> html.Div:
            labels = (f"set of {name}", f"series of the set for {name}")
            file = upload(f"{tab}-{name}-upload", f"Open your own {name} …", MAX_SERIES_BYTES)
            return self.side(name, f"Series {name}", labels, (WARPS, item), file)

        def counter(name: str, label: str, most: float, step: float, value: float, marks: tuple[int, ...]) -> html.Div:
            return slider(f"{tab}-{name}", label, (0, most), step, value, {at: str(at) for at in marks})

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
                    [{"value": "znormalize", "label": "z-normalize both (mean 0, standard deviation 1)"}],
                    [],
                    id=f"{tab}-scale",
                ),
                counter("paths", "sampled paths (in the matrix)", MAX_PATHS, 1, first.paths, (0, 20, 50)),
            ),
            section(
                "Added noise (generated series only)",
                counter("noise", "noise (standard deviation)", MAX_NOISE, 0.05, first.noise, (0, 1, 2, 3)),
                range_slider(f"{tab}-stretch", "noisy part of the series", list(first.stretch), STRETCH_MARKS),
                radio(f"{tab}-side", "noise in", SIDES, first.side, inline=True),
                counter("seed", "seed of noise and paths", MAX_SEED, 1, 0, (0, 500, 999)),
            ),
        ]
        seen = [
            html.Div([], id=f"{tab}-verdict", role="status"),
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


def verdict(result: SeriesResult) -> list[html.P]:
    """Show the verdict of `udtw.match` in words and in its color; nothing if the noise was not found from the pair."""
    if not isinstance(result.matches, Match):
        return []
    trust = result.matches.trust
    return [html.P(trust.sentence, className=f"verdict {trust.verdict}")]


def describe(x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings, result: SeriesResult) -> str:
    """Say how far DTW and uDTW are off if the truth is known; otherwise, how sure uDTW is and where it is not."""
    if not result.related:
        return ""
    plain, uncertain = result.error(result.dtw_partners), result.error(result.matches.expected)
    if plain is not None and uncertain is not None:
        if settings.variance == "none":
            return (
                f"Without σ the bursts of noise count as much as everything else: DTW is off by {plain:.1f} steps on "
                f"average, and the soft alignment by {uncertain:.1f}."
            )
        return (
            f"Both series have bursts of noise: DTW follows them and is off by {plain:.1f} steps on average; uDTW "
            f"{SOURCES[settings.variance]}, lets these steps count less, and is off by {uncertain:.1f}."
        )
    own = [one.label for one in (x, y) if one.own]
    begin = f"Nothing was added to {' and '.join(dict.fromkeys(own))}: " if own else ""
    sure = float((result.matches.probability >= SURE).mean())
    text = f"{sure:.0%} of the steps of x have a match that is more likely than all others together; "
    doubtful = result.matches.doubtful()
    if not doubtful:
        return begin + text + "no stretch is much more doubtful than the rest."
    widest = doubtful[int(np.argmax([(one.last - one.first + 1) * (one.high - one.low) for one in doubtful]))]
    more = f", and {len(doubtful) - 1} more" if len(doubtful) > 1 else ""
    return (
        begin + text + f"doubtful (orange bar): steps {widest.first} to {widest.last} of x, "
        f"which lie between {widest.low} and {widest.high} of y{more}."
    )
