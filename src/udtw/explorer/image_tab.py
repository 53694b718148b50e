"""The second tab: two images, their best patch matches, and the uncertainty of each patch."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from dash import html
from matplotlib.figure import Figure

from udtw.explorer import scripts
from udtw.explorer.controls import graph, radio, section, slider, upload
from udtw.explorer.image_alignment import (
    LOG_GAMMA,
    MAX_MATCHES,
    MAX_POSITION,
    VARIANCES,
    ChosenImage,
    ImageChoices,
    ImageResult,
    ImageSettings,
    TokenEncoder,
)
from udtw.explorer.image_figures import HEIGHT, MAPS_HEIGHT, maps_figure, match_figure
from udtw.explorer.tab import COST_PER_MATCH, SHARE_MARKS, SUMS, Tab, cost_per_match
from udtw.explorer.uploads import MAX_IMAGE_BYTES
from udtw.images.order import ORDERS
from udtw.plots import plot_image_match

FIRST = "star striped"


class ImageTab(Tab):
    """Images: generated ones and uploads; tokens are patches of pixels, or those of a trained ``model``."""

    name, file = "images", "images"
    settings = ImageSettings
    controls: ClassVar[Mapping[str, str | None]] = {
        "gamma": "power", "beta": "plain", "band": "percent", "order": None, "position": "plain", "variance": None,
        "matches": "plain", "patch": "share",
    }  # fmt: skip
    cards = SUMS | COST_PER_MATCH
    figures = ("match", "maps")
    upload_limit = MAX_IMAGE_BYTES

    def __init__(self, model: str | os.PathLike | None = None, backbone: str | None = None) -> None:
        self.choices, self.encoder = ImageChoices(), TokenEncoder(model, backbone)

    def align(self, x: ChosenImage, y: ChosenImage, settings: ImageSettings) -> ImageResult:
        return self.encoder.align(x, y, settings)

    def show(self, x: ChosenImage, y: ChosenImage, settings: ImageSettings, result: ImageResult) -> dict[str, Any]:
        return cost_per_match(result.alignment) | {
            "match": match_figure(result, settings.matches),
            "maps": maps_figure(result),
        }

    def code(self, x: ChosenImage, y: ChosenImage, settings: ImageSettings) -> str:
        return scripts.image_script(x, y, settings, self.encoder)

    def draw(self, settings: ImageSettings, result: ImageResult) -> Figure:
        return plot_image_match(
            *result.pixels, result.coupling, result.grid, result.grid, var_x=result.var_x, var_y=result.var_y,
            order=result.order, n_matches=settings.matches,
        )  # fmt: skip

    def layout(self) -> html.Div:
        tab, first, encoder = self.name, ImageSettings(), self.encoder
        trained = encoder.model_name is not None

        def side(name: str, title: str, item: int) -> html.Div:
            file = upload(f"{tab}-{name}-upload", "Open an image …", MAX_IMAGE_BYTES)
            return self.side(name, title, ("class", "image of the class"), (FIRST, item), file)

        # A trained model has its own tokens and variances: the two controls stay on the page, but hidden.
        uncertainty = [
            html.P(f"Tokens of {encoder.backbone_name}, projection and σ of {encoder.model_name}" if trained else ""),
            html.Div(
                [
                    radio(f"{tab}-variance", "variance σ² of the patches", VARIANCES, first.variance),
                    slider(
                        f"{tab}-position", "weight of a patch's position", (0, MAX_POSITION), 0.05, first.position,
                        {0: "0", 0.5: "0.5", 1: "1"},
                    ),
                ],
                style={"display": "none"} if trained else {},
            ),
        ]  # fmt: skip
        orders = {one: one for one in ORDERS}
        controls = [
            side("x", "Left image", 0),
            side("y", "Right image", 1),
            section(
                "Alignment",
                *self.alignment_sliders(LOG_GAMMA, -1.5, "tokens"),
                radio(f"{tab}-order", "reading order of the patches", orders, first.order, inline=True),
            ),
            section("Uncertainty", html.Div(uncertainty)),
            section(
                "Show",
                slider(
                    f"{tab}-matches", "best matches", (0, MAX_MATCHES), 1, first.matches, {0: "0", 12: "12", 30: "30"}
                ),
                slider(
                    f"{tab}-patch", "framed patch of the left image", (0, 100), 0.5, first.patch, SHARE_MARKS
                ),
            ),
        ]  # fmt: skip
        seen = [
            html.P(
                "Lines join the patches that match best: blue ones are certain, red ones are not.", className="sentence"
            ),
            graph(f"{tab}-match", HEIGHT, "Both images with lines between matched patches", wide=True),
        ]
        shown = [
            html.H2("Uncertainty, and the matches of one patch"),
            graph(f"{tab}-maps", MAPS_HEIGHT, "Maps of uncertainty over both images", wide=True),
        ]
        return self.page(seen, controls, shown)
