"""The third tab: two clips of a stick figure, and which frames belong together."""

from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from udtw.explorer import skeleton_figures, snippet, widgets
from udtw.explorer.checks import MAX_BETA
from udtw.explorer.pictures import png_file, skeleton_picture
from udtw.explorer.skeleton_work import (
    LOG_GAMMA,
    VARIANCES,
    Performed,
    SkeletonResult,
    SkeletonSettings,
    Stage,
    compare,
)
from udtw.explorer.tab import COST_A_MATCH, SUMS, connect, cost_a_match, options, page, sums
from udtw.explorer.widgets import BETAS, PERCENT, dropdown, radio, section, slider
from udtw.explorer.wiring import Said

TAB = "skeletons"
CONTROLS = ("gamma", "beta", "band", "variance", "frame")
CARDS = SUMS | COST_A_MATCH
SLIDERS = {"gamma": "power", "beta": "plain", "band": "percent", "frame": "share"}
STEP_MS = 150


class SkeletonTab:
    """What the callbacks of the tab do, as plain functions of the values of the controls."""

    def __init__(self) -> None:
        self.stage = Stage()

    def found(self, said: Said) -> tuple[Performed, Performed, SkeletonSettings, SkeletonResult]:
        settings = SkeletonSettings.of(said)
        x, y = (self.stage.perform(said[f"{side}-set"], said[f"{side}-item"]) for side in "xy")
        return x, y, settings, compare(x, y, settings)

    def update(self, said: Said) -> dict[str, Any]:
        """Numbers, figures and the script for what the controls say."""
        x, y, settings, result = self.found(said)
        common = sums(result.alignment, result.entropy) | cost_a_match(result.alignment, result.coupling)
        return common | {
            "match": skeleton_figures.match_figure(x, y, result),
            "sigma": skeleton_figures.sigma_figure(result),
            "code": snippet.preview(snippet.skeleton_snippet(x, y, settings)),
        }

    def script(self, said: Said) -> dict[str, Any]:
        x, y, settings, _ = self.found(said)
        return {"content": snippet.skeleton_snippet(x, y, settings), "filename": "skeletons.py"}

    def picture(self, said: Said) -> dict[str, Any]:
        *_, result = self.found(said)
        return png_file(skeleton_picture(result), "skeletons.png")

    def items(self, name: Any) -> dict[str, Any]:
        return options(self.stage.items(name))


def layout(tab: SkeletonTab) -> html.Div:
    first = SkeletonSettings()
    action = next(iter(tab.stage.sets))
    items = dict(enumerate(tab.stage.items(action)))

    def side(name: str, title: str, item: int) -> html.Div:
        return section(
            title,
            dropdown(f"{TAB}-{name}-set", "action", tab.stage.sets, action),
            dropdown(f"{TAB}-{name}-item", "clip", items, item),
        )

    controls = [
            side("x", "Clip x", 0),
            side("y", "Clip y", 1),
            section(
                "Time",
                slider(f"{TAB}-frame", "frame of x (share of the clip)", 0, 100, 0.5, first.frame,
                       {0: "first", 50: "middle", 100: "last"}),
                html.Button("Play", id=f"{TAB}-play", className="plain"),
                dcc.Interval(id=f"{TAB}-clock", interval=STEP_MS, disabled=True),
            ),
            section(
                "Alignment",
                slider(f"{TAB}-gamma", "temperature γ", *LOG_GAMMA, 0.05, -1,
                       {-3: "0.001", -2: "0.01", -1: "0.1", 0: "1", 1: "10"}),
                slider(f"{TAB}-beta", "weight β of Ω", 0, MAX_BETA, 0.05, first.beta, BETAS),
                slider(f"{TAB}-band", "band (share of the length)", 0, 100, 1, 100, PERCENT),
            ),
            section("Uncertainty", radio(f"{TAB}-variance", "variance σ² of the frames", VARIANCES, first.variance)),
    ]  # fmt: skip
    shown = [
        widgets.graph(f"{TAB}-match", skeleton_figures.HEIGHT, "Two stick figures and the coupling of their clips"),
        html.H2("Uncertainty of the frames"),
        widgets.graph(f"{TAB}-sigma", skeleton_figures.SIGMA_HEIGHT, "Uncertainty of both clips over time"),
    ]
    return page(TAB, controls, CARDS, shown)


def register(app: Dash, tab: SkeletonTab) -> None:
    """Connect the controls with the functions."""
    connect(app, TAB, tab, controls=CONTROLS, children=tuple(CARDS), figures=("match", "sigma"), sliders=SLIDERS)
    app.clientside_callback(
        ClientsideFunction("explorer", "play"),
        Output(f"{TAB}-clock", "disabled"),
        Output(f"{TAB}-play", "children"),
        Input(f"{TAB}-play", "n_clicks"),
        State(f"{TAB}-clock", "disabled"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "tick"),
        Output(f"{TAB}-frame", "value"),
        Input(f"{TAB}-clock", "n_intervals"),
        State(f"{TAB}-frame", "value"),
        prevent_initial_call=True,
    )
