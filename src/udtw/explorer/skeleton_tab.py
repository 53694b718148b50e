"""The third tab: two clips of a stick figure, and which of their frames are matched."""

from collections.abc import Mapping
from typing import Any, ClassVar

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from matplotlib.figure import Figure

from udtw.explorer import scripts
from udtw.explorer.controls import graph, radio, section, slider
from udtw.explorer.skeleton_alignment import (
    LOG_GAMMA,
    VARIANCES,
    ChosenClip,
    ClipChoices,
    SkeletonResult,
    SkeletonSettings,
    align_clips,
)
from udtw.explorer.skeleton_figures import HEIGHT, SIGMA_HEIGHT, match_figure, sigma_figure
from udtw.explorer.tab import COST_PER_MATCH, SHARE_MARKS, SUMS, Tab, cost_per_match
from udtw.plots import plot_alignment

STEP_MS = 150


class SkeletonTab(Tab):
    """Clips of a stick figure, all of them generated."""

    name, file = "skeletons", "skeletons"
    settings = SkeletonSettings
    controls: ClassVar[Mapping[str, str | None]] = {
        "gamma": "power",
        "beta": "plain",
        "band": "percent",
        "variance": None,
        "frame": "share",
    }
    cards = SUMS | COST_PER_MATCH
    figures = ("match", "sigma")

    def __init__(self) -> None:
        self.choices = ClipChoices()

    def align(self, x: ChosenClip, y: ChosenClip, settings: SkeletonSettings) -> SkeletonResult:
        return align_clips(x, y, settings)

    def show(self, x: ChosenClip, y: ChosenClip, settings: SkeletonSettings, result: SkeletonResult) -> dict[str, Any]:
        return cost_per_match(result.alignment) | {"match": match_figure(x, y, result), "sigma": sigma_figure(result)}

    def code(self, x: ChosenClip, y: ChosenClip, settings: SkeletonSettings) -> str:
        return scripts.skeleton_script(x, y, settings)

    def draw(self, settings: SkeletonSettings, result: SkeletonResult) -> Figure:
        return plot_alignment(result.x, result.y, result.alignment, paths=0)

    def layout(self) -> html.Div:
        tab, first = self.name, SkeletonSettings()
        action = next(iter(self.choices.sets))
        controls = [
            self.side("x", "Clip x", ("action", "clip"), (action, 0)),
            self.side("y", "Clip y", ("action", "clip"), (action, 1)),
            section(
                "Time",
                slider(f"{tab}-frame", "frame of x (share of the clip)", (0, 100), 0.5, first.frame, SHARE_MARKS),
                html.Button("Play", id=f"{tab}-play", className="plain"),
                dcc.Interval(id=f"{tab}-clock", interval=STEP_MS, disabled=True),
            ),
            section("Alignment", *self.alignment_sliders(LOG_GAMMA, -1, "length")),
            section("Uncertainty", radio(f"{tab}-variance", "variance σ² of the frames", VARIANCES, first.variance)),
        ]
        seen = [
            html.P(
                "Beside a frame of x are the frames of y that it is matched with, likely ones in full colour.",
                className="sentence",
            ),
            graph(f"{tab}-match", HEIGHT, "Two stick figures and the coupling of their clips", wide=True),
        ]
        shown = [
            html.H2("Uncertainty of the frames"),
            graph(f"{tab}-sigma", SIGMA_HEIGHT, "Uncertainty of both clips over time", wide=True),
        ]
        return self.page(seen, controls, shown)

    def register(self, app: Dash) -> None:
        super().register(app)
        tab = self.name
        app.clientside_callback(
            ClientsideFunction("explorer", "play"),
            Output(f"{tab}-clock", "disabled"),
            Output(f"{tab}-play", "children"),
            Input(f"{tab}-play", "n_clicks"),
            State(f"{tab}-clock", "disabled"),
            prevent_initial_call=True,
        )
        app.clientside_callback(
            ClientsideFunction("explorer", "tick"),
            Output(f"{tab}-frame", "value"),
            Input(f"{tab}-clock", "n_intervals"),
            State(f"{tab}-frame", "value"),
            prevent_initial_call=True,
        )
