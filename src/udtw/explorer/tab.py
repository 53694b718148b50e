"""What all tabs have in common: their numbers, the frame of the page, and how its parts are connected."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from dash import Dash, html

from udtw.align import Alignment
from udtw.explorer import widgets, wiring
from udtw.explorer.wiring import Said

CHOICES = ("x-set", "x-item", "y-set", "y-item")

Cards = dict[str, tuple[str, str, str]]
"""Symbol, name and explanation of each number above the figures."""

SUMS: Cards = {
    "distance": ("d²", "distance", "d² = E[C], the expected cost of a random path"),
    "regularizer": ("Ω", "regulariser", "Ω = E[log Σ], the expected log-variance along the path"),
    "loss": ("d² + βΩ", "loss", "what a training minimises"),
    "entropy": ("H", "entropy (nats)", "how uncertain the path itself is: 0 for one certain path"),
}
COST_A_MATCH: Cards = {"each": ("d² / E[1]", "cost a match", "distance divided by the expected path length")}


class Tab(Protocol):
    """What the callbacks of a tab do, as plain functions of the values of the controls."""

    def update(self, said: Said) -> dict[str, Any]:
        """Numbers, figures and the script for what the controls say."""

    def script(self, said: Said) -> dict[str, Any]:
        """The whole script as a file."""

    def picture(self, said: Said) -> dict[str, Any]:
        """The picture that the script draws."""

    def items(self, name: Any) -> dict[str, Any]:
        """What is in a set, to choose from."""


def sums(alignment: Alignment, entropy: float) -> dict[str, str]:
    """The numbers of `SUMS`."""
    found = {name: widgets.number(float(getattr(alignment, name))) for name in ("distance", "regularizer", "loss")}
    return found | {"entropy": widgets.number(entropy)}


def cost_a_match(alignment: Alignment, coupling: Any) -> dict[str, str]:
    """The number of `COST_A_MATCH`."""
    return {"each": widgets.number(float(alignment.distance) / float(coupling.sum()))}


def options(texts: Iterable[str]) -> dict[str, Any]:
    """A dropdown of ``texts``, numbered, with the first one chosen."""
    found = [{"value": i, "label": text} for i, text in enumerate(texts)]
    return {"options": found, "value": 0, "disabled": not found}


def page(name: str, controls: Sequence[Any], cards: Cards, shown: Sequence[Any], *, visible: bool = False) -> html.Div:
    """Controls on the left; messages, cards, ``shown`` and downloads on the right."""
    right = [
        widgets.message(name),
        html.Div([widgets.card(f"{name}-{key}", *words) for key, words in cards.items()], className="cards"),
        *shown,
        widgets.downloads(name),
        *wiring.stores(name),
    ]
    parts = [html.Div(list(controls), className="controls"), html.Div(right, className="shown")]
    return html.Div(parts, id=f"{name}-page", className="page", style={} if visible else {"display": "none"})


def connect(
    app: Dash,
    name: str,
    tab: Tab,
    *,
    controls: Sequence[str],
    children: Sequence[str],
    figures: Sequence[str],
    sliders: Mapping[str, str],
    uploads: bool = False,
) -> None:
    """Connect the controls of tab ``name`` with the functions of ``tab``.

    ``children`` and ``figures`` are what `Tab.update` fills; ``sliders`` says how the value of each is written beside
    it. With ``uploads`` the values of the controls hold the keys of uploaded files.
    """
    said = {one: (f"{name}-{one}", "value") for one in (*CHOICES, *controls)}
    if uploads:
        said |= {f"{side}-key": (f"{name}-{side}-upload-key", "data") for side in "xy"}
    shown = {one: (f"{name}-{one}", "children") for one in (*children, "code")}
    shown |= {one: (f"{name}-{one}", "figure") for one in figures}
    wiring.register_update(app, name, said, shown, tab.update)
    wiring.register_download(app, name, "script", said, tab.script)
    wiring.register_download(app, name, "picture", said, tab.picture)
    for side in "xy":
        wiring.register_items(app, name, f"{name}-{side}-set", f"{name}-{side}-item", tab.items)
    for one, kind in sliders.items():
        wiring.register_shown(app, f"{name}-{one}", kind)
