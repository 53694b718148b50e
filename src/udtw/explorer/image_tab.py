"""The second tab: two images, their best patch matches, and how far each patch can be trusted."""

import os
from typing import Any

from dash import Dash, html

from udtw.explorer import image_figures, snippet, widgets, wiring
from udtw.explorer.checks import MAX_BETA
from udtw.explorer.image_work import (
    LOG_GAMMA,
    MAX_MATCHES,
    MAX_POSITION,
    UPLOAD,
    VARIANCES,
    Eye,
    Gallery,
    ImageResult,
    ImageSettings,
    Picked,
)
from udtw.explorer.pictures import image_picture, png_file
from udtw.explorer.tab import COST_A_MATCH, SUMS, connect, cost_a_match, options, page, sums
from udtw.explorer.uploads import MAX_IMAGE_BYTES
from udtw.explorer.widgets import BETAS, PERCENT, dropdown, radio, section, slider
from udtw.explorer.wiring import Said
from udtw.images.order import ORDERS

TAB = "images"
CONTROLS = ("gamma", "beta", "band", "order", "position", "variance", "matches", "patch")
CARDS = SUMS | COST_A_MATCH
SLIDERS = {
    "gamma": "power",
    "beta": "plain",
    "band": "percent",
    "position": "plain",
    "matches": "plain",
    "patch": "share",
}
FIRST = "star striped"


class ImageTab:
    """What the callbacks of the tab do, as plain functions of the values of the controls."""

    def __init__(self, model: str | os.PathLike | None = None, backbone: str | None = None) -> None:
        self.gallery, self.eye = Gallery(), Eye(model, backbone)

    def found(self, said: Said) -> tuple[Picked, Picked, ImageSettings, ImageResult]:
        settings = ImageSettings.of(said)
        x, y = (self.gallery.pick(said[f"{side}-set"], said[f"{side}-item"], said[f"{side}-key"]) for side in "xy")
        return x, y, settings, self.eye.look(x, y, settings)

    def update(self, said: Said) -> dict[str, Any]:
        """Numbers, figures and the script for what the controls say."""
        x, y, settings, result = self.found(said)
        common = sums(result.alignment, result.entropy) | cost_a_match(result.alignment, result.coupling)
        return common | {
            "match": image_figures.match_figure(result, settings.matches, settings.order),
            "maps": image_figures.maps_figure(result),
            "code": snippet.preview(snippet.image_snippet(x, y, settings, self.eye)),
        }

    def script(self, said: Said) -> dict[str, Any]:
        x, y, settings, _ = self.found(said)
        return {"content": snippet.image_snippet(x, y, settings, self.eye), "filename": "images.py"}

    def picture(self, said: Said) -> dict[str, Any]:
        _, _, settings, result = self.found(said)
        return png_file(image_picture(result, settings), "images.png")

    def items(self, name: Any) -> dict[str, Any]:
        return options(self.gallery.items(name))

    def take(self, contents: Any, name: Any) -> tuple[str, str, str]:
        return *self.gallery.upload(contents, name), UPLOAD


def layout(tab: ImageTab) -> html.Div:
    first = ImageSettings()
    items = dict(enumerate(tab.gallery.items(FIRST)))
    trained = tab.eye.model_name is not None

    def side(name: str, title: str, item: int) -> html.Div:
        return section(
            title,
            dropdown(f"{TAB}-{name}-set", "class", tab.gallery.sets, FIRST),
            dropdown(f"{TAB}-{name}-item", "image of the class", items, item),
            widgets.upload(f"{TAB}-{name}-upload", "Upload a picture …", "image/png,image/jpeg,image/webp"),
        )

    uncertainty = html.Div(
        [
            html.P(f"Tokens of {tab.eye.backbone_name}, projection and σ of {tab.eye.model_name}" if trained else ""),
            html.Div(
                [
                    radio(f"{TAB}-variance", "variance σ² of the patches", VARIANCES, first.variance),
                    slider(f"{TAB}-position", "weight of a patch's position", 0, MAX_POSITION, 0.05, first.position,
                           {0: "0", 0.5: "0.5", 1: "1"}),
                ],
                style={"display": "none"} if trained else {},
            ),
        ]
    )  # fmt: skip
    controls = [
            side("x", "Left image", 0),
            side("y", "Right image", 1),
            section(
                "Alignment",
                slider(f"{TAB}-gamma", "temperature γ", *LOG_GAMMA, 0.05, -1.5,
                       {-3: "0.001", -2: "0.01", -1: "0.1", 0: "1"}),
                slider(f"{TAB}-beta", "weight β of Ω", 0, MAX_BETA, 0.05, first.beta, BETAS),
                slider(f"{TAB}-band", "band (share of the tokens)", 0, 100, 1, 100, PERCENT),
                radio(f"{TAB}-order", "reading order of the patches", {one: one for one in ORDERS}, first.order,
                      inline=True),
            ),
            section("Uncertainty", uncertainty),
            section(
                "Look at",
                slider(f"{TAB}-matches", "best matches", 0, MAX_MATCHES, 1, first.matches,
                       {0: "0", 12: "12", 30: "30"}),
                slider(f"{TAB}-patch", "framed patch of the left image", 0, 100, 0.5, first.patch,
                       {0: "first", 50: "middle", 100: "last"}),
            ),
    ]  # fmt: skip
    shown = [
        html.H2("Best patch matches"),
        widgets.graph(f"{TAB}-match", image_figures.HEIGHT, "Both images with lines between matched patches"),
        html.H2("Uncertainty, and one patch's matches"),
        widgets.graph(f"{TAB}-maps", image_figures.MAPS_HEIGHT, "Maps of uncertainty over both images"),
    ]
    return page(TAB, controls, CARDS, shown)


def register(app: Dash, tab: ImageTab) -> None:
    """Connect the controls with the functions."""
    connect(
        app,
        TAB,
        tab,
        controls=CONTROLS,
        children=tuple(CARDS),
        figures=("match", "maps"),
        sliders=SLIDERS,
        uploads=True,
    )
    for side in "xy":
        wiring.register_upload(app, TAB, f"{TAB}-{side}-upload", f"{TAB}-{side}-set", MAX_IMAGE_BYTES, tab.take)
