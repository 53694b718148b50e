"""Lay out the series tab: two series, their matches by three methods, and whether to trust them."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html, no_update

from udtw._engine.match import Match
from udtw.errors import UdtwError
from udtw.explorer import callbacks, scripts
from udtw.explorer.control_values import ControlValues, choice, read_values
from udtw.explorer.controls import (
    advanced,
    dropdown,
    graph,
    radio,
    range_slider,
    section,
    sentence,
    shown_number,
    slider,
    upload,
)
from udtw.explorer.match_lines import HEIGHT, PANELS, key, match_figure
from udtw.explorer.series_alignment import (
    LEVEL,
    LOG_GAMMA,
    MAX_NOISE,
    MAX_PATHS,
    MAX_SEED,
    SEEDS,
    SIDES,
    VARIANCES,
    VIEWS,
    SeriesResult,
    SeriesSettings,
    align_series,
    mean_errors,
    prepare_series,
)
from udtw.explorer.series_choices import WARPS, ChosenSeries, SeriesChoices
from udtw.explorer.series_figures import alignment_figure, comparison
from udtw.explorer.tab import SLIDERS, SUMS, Tab
from udtw.explorer.uploads import MAX_SERIES_BYTES

STRETCH_MARKS = {0: "0 %", 50: "50 %", 100: "100 %"}
STORY = {
    "match": "uDTW notices (the bands of ±σ), lets them count less, and marks in orange what not to believe.",
    "known": "uDTW is told where they are (the bands of ±σ) and lets them count less.",
    "none": "σ is off: they count as much as everything else, and uDTW is soft-DTW.",
}
SOURCES = {"example": "Example", "ucr": "UCR", "mine": "My two files"}
DECIMALS = {"": "automatic", ".": "point", ",": "comma"}


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
    children = ("verdict", "sentence", "key", "comparison", *(f"own-{name}" for name in PANELS))
    figures = ("alignment",)
    upload_limit = MAX_SERIES_BYTES

    def __init__(self, data_dir: str | os.PathLike | None = None) -> None:
        self.choices = SeriesChoices(data_dir)
        self._wanted: Any = None
        """The newest request for means; older ones stop."""

    def align(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> SeriesResult:
        return align_series(prepare_series(x, y, settings), settings)

    def show(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings, result: SeriesResult) -> dict[str, Any]:
        own = [""] * len(PANELS)
        if result.errors is not None:  # without added noise, the number in the chip is that of the pair
            of = f"mean of {SEEDS} seeds; this pair: " if settings.noise else "this pair"
            own = [f"{of}{one:.1f}" if settings.noise else of for one in result.errors]
        return {
            "length": f"{shown_number(result.path_length, 4)} ({len(result.mode)})",
            "verdict": verdict(result),
            "sentence": describe(x, y, settings, result),
            "alignment": match_figure(result) if settings.view == "lines" else alignment_figure(result),
            "key": key(result) if settings.view == "lines" else [],
            "comparison": comparison(result),
            **{f"own-{name}": text for name, text in zip(PANELS, own, strict=True)},
        }

    def means(self, values: ControlValues) -> list[Any]:
        """Return the mean error of every method over `SEEDS` seeds as text; no update if the truth is unknown."""
        request = self._wanted = object()
        x, y, settings = self.chosen(values)
        if x.pair is None or x.pair != y.pair or x.code == y.code:
            return [no_update] * len(PANELS)
        found = mean_errors(x, y, settings, lambda: self._wanted is request)
        return [no_update] * len(PANELS) if found is None else [f"{one:.1f}" for one in found]

    def code(self, x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> str:
        return scripts.series_script(x, y, settings)

    def sets_of(self, source: Any) -> dict[str, Any]:
        """Return the properties of the dropdown of sets for a source of data, with the first set chosen."""
        sets = self.choices.sources[choice("The source", source, self.choices.sources)]
        return {
            "options": [{"value": one, "label": text} for one, text in sets.items()],
            "value": next(iter(sets), None),
        }

    def take_files(self, store: Any, decimal: Any) -> dict[str, Any]:
        """Store one or two uploaded files as x and y; y waits for its file if there is one only."""
        separator = choice("The decimal separator", decimal, DECIMALS) or None
        taken = [self.choices.upload(contents, name, separator) for contents, name in callbacks.received(store)]
        (x_key, x_name), (y_key, y_name) = (*taken, (None, "waiting for its file"))[:2]
        names = {"x-name": f"x: {x_name}", "y-name": f"y: {y_name}"}
        return {"x-key": x_key, "y-key": y_key, "source": "mine", "variance": "match"} | names

    def register(self, app: Dash) -> None:
        super().register(app)
        tab = self.name
        message = Output(f"{tab}-message", "children", allow_duplicate=True)
        chips = [Output(f"{tab}-mean-{name}", "children") for name in PANELS]

        @app.callback(chips, Input(f"{tab}-request", "data"), prevent_initial_call=True)
        def update_means(request: Any) -> list[Any]:
            try:
                return self.means(read_values(request, self.inputs()))
            except UdtwError:  # the answer to the same request says what is wrong, and dims the last result
                return [no_update] * len(PANELS)

        sets = {name: Output(f"{tab}-set", name) for name in ("options", "value")} | {"message": message}

        @app.callback(output=sets, inputs={"source": Input(f"{tab}-source", "value")}, prevent_initial_call=True)
        def change_source(source: Any) -> dict[str, Any]:
            return callbacks.guarded(lambda: self.sets_of(source), sets)

        for one in "xy":
            app.clientside_callback(
                ClientsideFunction("explorer", "same"),
                Output(f"{tab}-{one}-set", "value", allow_duplicate=True),
                Input(f"{tab}-set", "value"),
                prevent_initial_call=True,
            )
        app.clientside_callback(
            ClientsideFunction("explorer", "broken"),
            Output(f"{tab}-stretch", "value"),
            Output(f"{tab}-noise", "value"),
            Input(f"{tab}-alignment", "selectedData"),
            Input(f"{tab}-break", "n_clicks"),
            Input(f"{tab}-repair", "n_clicks"),
            State(f"{tab}-stretch", "value"),
            State(f"{tab}-noise", "value"),
            State(f"{tab}-alignment", "figure"),
            prevent_initial_call=True,
        )
        self._register_files(app, message)

    def _register_files(self, app: Dash, message: Output) -> None:
        tab, files = self.name, f"{self.name}-files"
        callbacks.register_files(app, files, *(State(f"{tab}-{side}-upload-key", "data") for side in "xy"))
        outputs = {"message": message, "source": Output(f"{tab}-source", "value")}
        outputs |= {f"{side}-key": Output(f"{tab}-{side}-upload-key", "data") for side in "xy"}
        outputs |= {f"{side}-name": Output(f"{tab}-{side}-name", "children") for side in "xy"}
        outputs["variance"] = Output(f"{tab}-variance", "value", allow_duplicate=True)
        inputs = {"store": Input(f"{files}-file", "data"), "decimal": Input(f"{tab}-decimal", "value")}

        @app.callback(output=outputs, inputs=inputs, prevent_initial_call=True)
        def take(store: Any, decimal: Any) -> dict[str, Any]:
            if store is None:
                return dict.fromkeys(outputs, no_update)
            return callbacks.guarded(lambda: self.take_files(store, decimal), outputs)

    def layout(self) -> html.Div:
        tab, first = self.name, SeriesSettings()
        sources = {name: text for name, text in SOURCES.items() if self.choices.sources[name]}

        def counter(name: str, label: str, most: float, step: float, value: float, marks: tuple[int, ...]) -> html.Div:
            return slider(f"{tab}-{name}", label, (0, most), step, value, {at: str(at) for at in marks})

        def item(side: str) -> html.Div:
            chosen, names = self.choices.first(WARPS, side), dict(enumerate(self.choices.items(WARPS)))
            return dropdown(f"{tab}-{side}-item", side, names, chosen)

        def own_set(side: str) -> html.Div:
            return dropdown(f"{tab}-{side}-set", f"set of {side} alone", self.choices.sets, WARPS)

        files = [
            upload(f"{tab}-files", "Open or drop two files …", MAX_SERIES_BYTES, most=2),
            *(html.Div("", id=f"{tab}-{side}-name", className="file-name", role="status") for side in "xy"),
            *(dcc.Store(id=f"{tab}-{side}-upload-key") for side in "xy"),
            radio(f"{tab}-decimal", "decimal separator", DECIMALS, "", inline=True),
        ]
        chosen = [dropdown(f"{tab}-set", "set", self.choices.sources["example"], WARPS), item("x"), item("y")]
        buttons = [
            html.Button(text, id=f"{tab}-{name}", className="plain")
            for name, text in (("break", "Break it"), ("repair", "Repair it"))
        ]
        controls = [
            section(
                "Data",
                radio(f"{tab}-source", "source of x and y", sources, "example", inline=True),
                html.Div(chosen, className="given"),
                html.Div(files, className="mine"),
            ),
            section("Uncertainty", radio(f"{tab}-variance", "σ", VARIANCES, first.variance, inline=True)),
            html.Div(
                section(
                    "Break the sensor", html.P("Drag over the series, or:"), html.Div(buttons, className="buttons")
                ),
                className="given",
            ),
            advanced(
                *self.alignment_sliders(LOG_GAMMA, 0.6, "length"),
                html.P("With an estimated σ, γ and β of uDTW come from the pair; γ is that of soft-DTW."),
                dcc.Checklist([{"value": "znormalize", "label": "z-normalize both series"}], [], id=f"{tab}-scale"),
                counter("noise", "added noise (standard deviation)", MAX_NOISE, 0.05, first.noise, (0, 1, 2, 3)),
                range_slider(f"{tab}-stretch", "noisy part of the series", list(first.stretch), STRETCH_MARKS),
                radio(f"{tab}-side", "noise in", SIDES, first.side, inline=True),
                counter("seed", "seed of noise and paths", MAX_SEED, 1, 0, (0, 500, 999)),
                counter("paths", "sampled paths (in the matrix)", MAX_PATHS, 1, first.paths, (0, 20, 50)),
                own_set("x"),
                own_set("y"),
            ),
        ]
        chips = [
            html.Div(
                [
                    html.B(name),
                    html.Span([html.Output("…", id=f"{tab}-mean-{name}", className="mean"), " steps off"]),
                    html.Output("", id=f"{tab}-own-{name}", className="own"),
                ],
                className="chip",
            )
            for name in PANELS
        ]
        seen = [
            html.Div([], id=f"{tab}-verdict", role="status"),
            sentence(tab),
            html.Div(chips, className="chips"),
            graph(f"{tab}-alignment", HEIGHT, "Both series with lines between the steps that match, by three methods"),
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
    return [html.P([html.I(className="light"), trust.sentence], className=f"verdict {trust.verdict}")]


def describe(x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings, result: SeriesResult) -> str:
    """Say what one sees if the truth is known; otherwise, how sure uDTW is and where it is not."""
    if not result.related:
        return ""
    if x.code == y.code:
        return "x and y are the same series: choose another one."
    if result.errors is not None:
        begin = "Both sensors fail for some steps."
        names = dict(zip(PANELS, result.errors, strict=True))
        best = min(names, key=lambda name: round(names[name], 1))
        if best != "uDTW" and settings.variance != "none" and round(names["uDTW"], 1) > round(names[best], 1):
            means = f"; the large numbers are means of {SEEDS} seeds" if settings.noise else ""
            return f"{begin} Here uDTW is not the best: {best} is nearer to the true matches{means}."
        return f"{begin} DTW bends everything around them. {STORY[settings.variance]}"
    own = [one.label for one in (x, y) if one.own]
    begin = f"Nothing was added to {' and '.join(dict.fromkeys(own))}. " if own else ""
    matched = result.matches.index >= 0
    steps = 1 + int(np.median((result.matches.high - result.matches.low)[matched]))
    text = f"Half of the {LEVEL:.0%} intervals hold at most {steps} step{'s' if steps > 1 else ''} of y; "
    doubtful = result.matches.doubtful()
    if not doubtful:
        return begin + text + "no stretch is much more doubtful than the rest."
    widest = doubtful[int(np.argmax([(one.last - one.first + 1) * (one.high - one.low) for one in doubtful]))]
    others = len(doubtful) - 1
    more = f", and {others} more stretch{'es' if others > 1 else ''}" if others else ""
    return (
        begin + text + f"most doubtful (orange bar) are steps {widest.first} to {widest.last} of x, "
        f"which lie between {widest.low} and {widest.high} of y{more}."
    )
