"""The first tab: two series, their alignment, and other distances beside it."""

from typing import Any

from dash import Dash, dcc, html

from udtw.explorer import series_figures, series_panels, snippet, widgets, wiring
from udtw.explorer.checks import MAX_BETA
from udtw.explorer.pictures import png_file, series_picture
from udtw.explorer.series_settings import (
    LOG_GAMMA,
    MAX_NOISE,
    MAX_PATHS,
    MAX_SEED,
    SIDES,
    VARIANCES,
    SeriesSettings,
)
from udtw.explorer.series_work import SeriesResult, explore, prepare
from udtw.explorer.sources import UPLOAD, Chosen, Sources
from udtw.explorer.tab import SUMS, connect, options, page, sums
from udtw.explorer.uploads import MAX_CSV_BYTES
from udtw.explorer.widgets import BETAS, PERCENT, dropdown, number, radio, range_slider, section, slider
from udtw.explorer.wiring import Said

TAB = "series"
CONTROLS = ("gamma", "beta", "band", "noise", "stretch", "side", "variance", "scale", "paths", "seed")
CARDS = SUMS | {
    "length": ("E[1]", "path length", "expected number of cells on the path, and that of the most probable path"),
}
SLIDERS = {"gamma": "power", "beta": "plain", "band": "percent", "paths": "plain", "noise": "plain", "stretch": "range",
           "seed": "plain"}  # fmt: skip
FIRST = {"x-set": "cbf-256", "x-item": 0, "y-set": "cbf-256", "y-item": 1}


def layout(sources: Sources) -> html.Div:
    first = SeriesSettings()
    items = dict(enumerate(sources.items(FIRST["x-set"])))

    def side(name: str, item: int) -> html.Div:
        return section(
            f"Series {name}",
            dropdown(f"{TAB}-{name}-set", f"set of {name}", sources.sets, FIRST["x-set"]),
            dropdown(f"{TAB}-{name}-item", f"series of the set for {name}", items, item),
            widgets.upload(f"{TAB}-{name}-upload", f"Upload a CSV for {name} …", ".csv,.tsv,.txt,text/csv"),
        )

    controls = [
            side("x", 0),
            side("y", 1),
            dcc.Checklist(
                [{"value": "znormalize", "label": "z-normalise both (mean 0, deviation 1)"}],
                ["znormalize"], id=f"{TAB}-scale",
            ),
            section(
                "Alignment",
                slider(f"{TAB}-gamma", "temperature γ", *LOG_GAMMA, 0.05, -1,
                       {-3: "0.001", -2: "0.01", -1: "0.1", 0: "1", 1: "10", 2: "100"}),
                slider(f"{TAB}-beta", "weight β of Ω", 0, MAX_BETA, 0.05, first.beta, BETAS),
                slider(f"{TAB}-band", "band (share of the length)", 0, 100, 1, 100,
                       PERCENT),
                slider(f"{TAB}-paths", "sampled paths", 0, MAX_PATHS, 1, first.paths, {0: "0", 20: "20", 50: "50"}),
            ),
            section(
                "Noise and uncertainty",
                slider(f"{TAB}-noise", "noise (deviation)", 0, MAX_NOISE, 0.05, 1, {0: "0", 1: "1", 2: "2", 3: "3"}),
                range_slider(f"{TAB}-stretch", "where (share of the series)", list(first.stretch),
                             {0: "0 %", 50: "50 %", 100: "100 %"}),
                radio(f"{TAB}-side", "noise in", SIDES, first.side, inline=True),
                radio(f"{TAB}-variance", "variance σ² of the steps", VARIANCES, first.variance),
                slider(f"{TAB}-seed", "seed of noise and paths", 0, MAX_SEED, 1, 0, {0: "0", 500: "500", 999: "999"}),
            ),
    ]  # fmt: skip
    shown = [
        widgets.graph(f"{TAB}-alignment", series_figures.HEIGHT, "Both series around their coupling and variance"),
        html.H2("The same pair by four distances (sums of squares)"),
        html.Div([], id=f"{TAB}-comparison", className="panels"),
    ]
    return page(TAB, controls, CARDS, shown, visible=True)


class SeriesTab:
    """What the callbacks of the tab do, as plain functions of the values of the controls."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def chosen(self, said: Said) -> tuple[Chosen, Chosen]:
        x, y = (self.sources.series(said[f"{side}-set"], said[f"{side}-item"], said[f"{side}-key"]) for side in "xy")
        return x, y

    def found(self, said: Said) -> tuple[Chosen, Chosen, SeriesSettings, SeriesResult]:
        settings = SeriesSettings.of(said)
        x, y = self.chosen(said)
        return x, y, settings, explore(prepare(x.values, y.values, settings), settings)

    def update(self, said: Said) -> dict[str, Any]:
        """Numbers, figures and the script for what the controls say."""
        x, y, settings, result = self.found(said)
        return sums(result.alignment, result.entropy) | {
            "length": f"{number(result.path_length, 4)} ({len(result.mode)})",
            "alignment": series_figures.alignment_figure(result),
            "comparison": series_panels.comparison(result),
            "code": snippet.preview(snippet.series_snippet(x, y, settings)),
        }

    def script(self, said: Said) -> dict[str, Any]:
        """The whole script as a file."""
        x, y = self.chosen(said)
        code = snippet.series_snippet(x, y, SeriesSettings.of(said))
        return {"content": code, "filename": "alignment.py"}

    def picture(self, said: Said) -> dict[str, Any]:
        """The picture that the script draws."""
        _, _, settings, result = self.found(said)
        return png_file(series_picture(result, settings), "alignment.png")

    def items(self, name: Any) -> dict[str, Any]:
        """The series of a set, to choose from."""
        return options(self.sources.items(name))

    def take(self, contents: Any, name: Any) -> tuple[str, str, str]:
        """Key and description of an uploaded file, and the set that it is in."""
        return *self.sources.upload(contents, name), UPLOAD


def register(app: Dash, tab: SeriesTab) -> None:
    """Connect the controls with the functions."""
    connect(
        app, TAB, tab, controls=CONTROLS, children=(*CARDS, "comparison"), figures=["alignment"], sliders=SLIDERS,
        uploads=True,
    )  # fmt: skip
    for side in "xy":
        wiring.register_upload(app, TAB, f"{TAB}-{side}-upload", f"{TAB}-{side}-set", MAX_CSV_BYTES, tab.take)
