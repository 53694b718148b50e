"""Define the base class of all tabs: choosing two items, numbers, downloads, the layout and the callbacks."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from dash import Dash, html

from udtw._engine.alignment import Alignment
from udtw.explorer import callbacks, controls, scripts
from udtw.explorer.control_values import MAX_BETA, THEMES, ControlValues, choice
from udtw.explorer.controls import dropdown, section, shown_number, slider
from udtw.explorer.figures import themed
from udtw.explorer.uploads import UPLOAD

Cards = dict[str, tuple[str, str, str]]
"""Symbol, name and explanation of each number above the figures."""

SUMS: Cards = {
    "distance": ("d²", "distance", "d² = E[C], the expected cost of a random path"),
    "regularizer": ("Ω", "regularizer", "Ω = E[log Σ], the expected log-variance along the path"),
    "loss": ("L", "loss", "the training loss: free energy for series, d² + βΩ for images and skeletons"),
    "entropy": ("H", "entropy (nats)", "uncertainty of the path: 0 if only one path is possible"),
}
COST_PER_MATCH: Cards = {"each": ("d² / E[1]", "per match", "distance divided by the expected path length")}

BETA_MARKS = {0: "0", 1: "1", 3: "3", 5: "5"}
BAND_MARKS = {0: "0 %", 50: "50 %", 100: "none"}
GAMMA_MARKS = {-3: "0.001", -2: "0.01", -1: "0.1", 0: "1", 1: "10", 2: "100"}
SHARE_MARKS = {0: "first", 50: "middle", 100: "last"}
SLIDERS = {"gamma": "power", "beta": "plain", "band": "percent"}
"""Controls of every tab, see `Tab.controls`."""


class Tab(ABC):
    """Define one tab of the page by methods that are plain functions of the values of the controls."""

    name: ClassVar[str]
    """Prefix of the ids of its components."""
    file: ClassVar[str]
    """Name of the downloaded files, without suffix."""
    settings: ClassVar[Any]
    """A subclass of `AlignmentSettings` with a class method ``of(values)``."""
    controls: ClassVar[Mapping[str, str | None]]
    """The controls; for sliders, the function of explorer.js that writes the value beside the label."""
    cards: ClassVar[Cards]
    children: ClassVar[Sequence[str]] = ()
    figures: ClassVar[Sequence[str]]
    upload_limit: ClassVar[int | None] = None
    """Largest size of an uploaded file in bytes; None if there are no uploads."""
    single_uploads: ClassVar[bool] = False
    """Whether x and y have a button each for files."""

    choices: Any
    """The source of x and y: ``sets``, ``items(name)``, ``pick(name, item, upload)`` and, if there are uploads,
    ``upload(contents, name)``."""

    @abstractmethod
    def layout(self) -> html.Div:
        """Build the page of the tab."""

    @abstractmethod
    def align(self, x: Any, y: Any, settings: Any) -> Any:
        """Align two chosen items; the result has an ``alignment`` and all that is shown of it."""

    @abstractmethod
    def show(self, x: Any, y: Any, settings: Any, result: Any) -> dict[str, Any]:
        """Return the values of ``figures`` and of all numbers and ``children`` except `SUMS`."""

    @abstractmethod
    def code(self, x: Any, y: Any, settings: Any) -> str:
        """Write a script that computes the same numbers and draws a picture of them."""

    def chosen(self, values: ControlValues) -> tuple[Any, Any, Any]:
        """Return x, y and the settings."""
        settings = self.settings.of(values)
        x, y = (
            self.choices.pick(values[f"{side}-set"], values[f"{side}-item"], values.get(f"{side}-key")) for side in "xy"
        )
        return x, y, settings

    def aligned(self, values: ControlValues) -> tuple[Any, Any, Any, Any]:
        """Return x, y, the settings and the result of `align`."""
        x, y, settings = self.chosen(values)
        return x, y, settings, self.align(x, y, settings)

    def update(self, values: ControlValues) -> dict[str, Any]:
        """Compute everything that the tab shows."""
        theme = choice("The theme", values.get("theme") or THEMES[0], THEMES)
        x, y, settings, result = self.aligned(values)
        code = scripts.preview(self.code(x, y, settings))
        shown = sums(result.alignment) | self.show(x, y, settings, result) | {"code": code}
        return shown | {name: themed(shown[name], theme) for name in self.figures}

    def script(self, values: ControlValues) -> dict[str, Any]:
        """Return the whole script as a file for `dcc.Download`."""
        return {"content": self.code(*self.chosen(values)), "filename": f"{self.file}.py"}

    def items(self, name: Any, side: str) -> dict[str, Any]:
        """Return the properties of the dropdown of items of a set: x begins with the first one, y with the second."""
        options = [{"value": i, "label": text} for i, text in enumerate(self.choices.items(name))]
        first = self.choices.first(name, side) if hasattr(self.choices, "first") else int(side == "y")
        return {"options": options, "value": min(first, max(len(options) - 1, 0)), "disabled": not options}

    def take(self, contents: Any, name: Any) -> tuple[str, str, str]:
        """Store an uploaded file; return its key, its description, and its set."""
        return *self.choices.upload(contents, name), UPLOAD

    def inputs(self) -> dict[str, tuple[str, str]]:
        """Return where the page holds the values of the controls."""
        tab = self.name
        values = {one: (f"{tab}-{one}", "value") for one in ("x-set", "x-item", "y-set", "y-item", *self.controls)}
        values["theme"] = ("theme", "data")
        if self.upload_limit is not None:
            values |= {f"{side}-key": (f"{tab}-{side}-upload-key", "data") for side in "xy"}
        return values

    def register(self, app: Dash) -> None:
        """Connect the controls with the methods."""
        tab, values = self.name, self.inputs()
        shown = {one: (f"{tab}-{one}", "children") for one in (*self.cards, *self.children, "code")}
        shown |= {one: (f"{tab}-{one}", "figure") for one in self.figures}
        callbacks.register_update(app, tab, values, shown, self.update)
        callbacks.register_download(app, tab, "script", values, self.script)
        callbacks.register_picture(app, tab)
        for side in "xy":
            work = partial(self.items, side=side)
            callbacks.register_items(app, tab, f"{tab}-{side}-set", f"{tab}-{side}-item", work)
            if self.single_uploads:
                upload, target = f"{tab}-{side}-upload", f"{tab}-{side}-set"
                callbacks.register_upload(app, tab, upload, target, self.take)
        for one, kind in self.controls.items():
            if kind is not None:
                callbacks.register_shown(app, f"{tab}-{one}", kind)

    def side(self, side: str, title: str, labels: tuple[str, str], chosen: tuple[str, int], *more: Any) -> html.Div:
        """Build dropdowns to choose x or y; ``labels`` and ``chosen`` are those of the set and of the item."""
        items = dict(enumerate(self.choices.items(chosen[0])))
        return section(
            title,
            dropdown(f"{self.name}-{side}-set", labels[0], self.choices.sets, chosen[0]),
            dropdown(f"{self.name}-{side}-item", labels[1], items, chosen[1]),
            *more,
        )

    def alignment_sliders(self, log_gamma: tuple[float, float], value: float, of: str) -> list[html.Div]:
        """Build sliders for γ (``value`` is a power of ten), for β, and for the band as a share ``of`` something."""
        marks = {at: text for at, text in GAMMA_MARKS.items() if log_gamma[0] <= at <= log_gamma[1]}
        return [
            slider(f"{self.name}-gamma", "temperature γ", log_gamma, 0.05, value, marks),
            slider(f"{self.name}-beta", "weight β of Ω", (0, MAX_BETA), 0.05, self.settings().beta, BETA_MARKS),
            slider(f"{self.name}-band", f"band (share of the {of})", (0, 100), 1, 100, BAND_MARKS),
        ]

    def page(
        self, first: Sequence[Any], left: Sequence[Any], shown: Sequence[Any], *, visible: bool = False
    ) -> html.Div:
        """Arrange the ``first`` view, the controls, the numbers, what else is ``shown``, and downloads.

        The reading order is the same on narrow screens and with the keyboard.
        """
        cards = [controls.card(f"{self.name}-{key}", *words) for key, words in self.cards.items()]
        rest = [
            html.Div(cards, className="cards"),
            *shown,
            controls.downloads(self.name, self.file),
            *callbacks.stores(self.name),
        ]
        named: dict[str, Any] = {"aria-label": "Settings"}
        parts = [
            html.Div([controls.message(self.name), *first], className="first"),
            html.Section(list(left), className="controls", **named),
            html.Div(rest, className="rest"),
        ]
        style = {} if visible else {"display": "none"}
        return html.Div(parts, id=f"{self.name}-page", className="page", style=style)


def sums(alignment: Alignment) -> dict[str, str]:
    """Format the numbers of `SUMS`."""
    numbers = {name: shown_number(float(getattr(alignment, name))) for name in ("distance", "regularizer", "loss")}
    return numbers | {"entropy": shown_number(max(float(alignment.paths.entropy), 0.0))}


def cost_per_match(alignment: Alignment) -> dict[str, str]:
    """Format the number of `COST_PER_MATCH`."""
    return {"each": shown_number(float(alignment.distance) / float(alignment.coupling.sum()))}
