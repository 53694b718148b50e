"""Lay out the image tab: two images, their best patch matches, and the uncertainty of each patch."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from dash import html
from matplotlib.colors import LogNorm, Normalize, to_hex

from udtw.explorer import scripts
from udtw.explorer.controls import graph, radio, section, slider, upload
from udtw.explorer.figures import (
    PAPER,
    axis,
    blank_axis,
    color_bar,
    coupling_ticks,
    coupling_trace,
    data_url,
    layout,
    margins,
    note,
    scatter,
    shape,
    typed,
    under,
)
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
from udtw.explorer.tab import COST_PER_MATCH, SHARE_MARKS, SLIDERS, SUMS, Tab, cost_per_match
from udtw.explorer.uploads import MAX_IMAGE_BYTES
from udtw.images.projection import ORDERS
from udtw.plots.image_maps import FADED, LUMA, MAP_HEX, OPACITY
from udtw.plots.image_match import check_match
from udtw.plots.style import MODE_COLOR, STD_COLORS, STD_HEX, std_norm, std_ticks

FIRST = "star striped"
HEIGHT, MAPS_HEIGHT = 410, 350
MARGIN, MAPS_MARGIN = margins(8, 14, 10, 92), margins(8, 14, 30, 66)
BAR, MAPS_BAR = under(44, HEIGHT, MARGIN), under(12, MAPS_HEIGHT, MAPS_MARGIN)
TICKS = coupling_ticks(0, 0.01, 0.1, 1)
GAP = 0.08
STD_SCALE, MAP_SCALE = ([[k / 2, color] for k, color in enumerate(colors)] for colors in (STD_HEX, MAP_HEX))
HEAT = [[0, "rgba(213,94,0,0)"], [1, "rgba(213,94,0,0.9)"]]


class ImageTab(Tab):
    """Show images, generated or uploaded, with patches of pixels or the tokens of a trained ``model``."""

    name, file = "images", "images"
    settings = ImageSettings
    controls: ClassVar[Mapping[str, str | None]] = SLIDERS | {
        "order": None,
        "position": "plain",
        "variance": None,
        "matches": "plain",
        "patch": "share",
    }
    cards = SUMS | COST_PER_MATCH
    figures = ("match", "maps")
    upload_limit = MAX_IMAGE_BYTES
    single_uploads = True

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

    def layout(self) -> html.Div:
        tab, first, encoder = self.name, ImageSettings(), self.encoder
        trained = encoder.model_name is not None

        def counter(name: str, label: str, most: float, step: float, value: float, marks: tuple) -> html.Div:
            return slider(f"{tab}-{name}", label, (0, most), step, value, {at: str(at) for at in marks})

        def side(name: str, title: str, item: int) -> html.Div:
            file = upload(f"{tab}-{name}-upload", "Open an image …", MAX_IMAGE_BYTES)
            return self.side(name, title, ("class", "image of the class"), (FIRST, item), file)

        # A trained model has its own tokens and variances: the two controls stay on the page, but hidden.
        uncertainty = [
            html.P(f"Tokens of {encoder.backbone_name}, projection and σ of {encoder.model_name}" if trained else ""),
            html.Div(
                [
                    radio(f"{tab}-variance", "variance σ² of the patches", VARIANCES, first.variance),
                    counter(
                        "position", "weight of a patch's position", MAX_POSITION, 0.05, first.position, (0, 0.5, 1)
                    ),
                ],
                style={"display": "none"} if trained else {},
            ),
        ]
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
                counter("matches", "best matches", MAX_MATCHES, 1, first.matches, (0, 12, 30)),
                slider(f"{tab}-patch", "framed patch of the left image", (0, 100), 0.5, first.patch, SHARE_MARKS),
            ),
        ]
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


def match_figure(result: ImageResult, n_matches: int) -> dict[str, Any]:
    """Draw both images with lines between their best patch matches, and the coupling beside them."""
    match = check_match(result.match, n_matches)
    cells, values, ends, widths = match.cells, match.strength, match.ends(GAP), match.widths
    norm = Normalize(0, 1) if match.std is None else std_norm(match.std)
    label = "π* of the match" if match.std is None else "σ of the match"
    data: list[dict[str, Any]] = []
    for a, b, value in zip(ends[0], ends[1], values, strict=True):
        line = {"type": "scatter", "mode": "lines", "x": [a[0], b[0]], "y": [a[1], b[1]], "hoverinfo": "skip"}
        data.append(line | {"line": {"color": PAPER, "width": 4}})
        data.append(line | {"line": {"color": to_hex(STD_COLORS(norm(value))), "width": 2}})
    dots, shown = np.concatenate(ends).T, typed(np.concatenate([values, values]))
    bar = color_bar(label, 0.32, 0.3, BAR, **(std_bar(norm) if isinstance(norm, LogNorm) else {}))
    scale = {"cmin": 0, "cmax": 1, "colorscale": STD_SCALE, "colorbar": bar}
    colors = typed(np.tile(np.asarray(norm(values)), 2))
    marker = {"size": 8, "color": colors, "line": {"color": PAPER, "width": 1}} | scale
    hover = f"{label}: %{{customdata:.3f}}<extra></extra>"
    data.append(scatter(dots[0], dots[1], "markers", customdata=shown, hovertemplate=hover, marker=marker))
    axes: dict[str, Any] = {"xaxis": "x2", "yaxis": "y2"}
    hover = "left token %{y}, right token %{x}<br>π* = %{customdata:.4f}<extra></extra>"
    bar = color_bar("coupling π*", 0.855, 0.26, BAR, **TICKS)
    data.append(coupling_trace(result.coupling, hover=hover, colorbar=bar, **axes))
    ring = {"size": 9, "symbol": "circle-open", "color": MODE_COLOR, "line": {"width": 2}}
    data.append(scatter(cells[:, 1], cells[:, 0], "markers", hoverinfo="skip", marker=ring, **axes))
    starts = (0.0, widths[0] + GAP)
    images = [_placed(one, "x", start, width) for one, start, width in zip(result.pixels, starts, widths, strict=True)]
    count = len(result.positions)
    return {
        "data": data,
        "layout": layout(
            HEIGHT,
            margin=MARGIN,
            images=images,
            xaxis=blank_axis(domain=[0, 0.64], range=[0, starts[1] + widths[1]], constrain="domain"),
            yaxis=blank_axis(range=[1, 0], scaleanchor="x", constrain="domain"),
            xaxis2=axis(
                "token of the right image", domain=[0.71, 1], anchor="y2", range=[-0.5, count - 0.5], showgrid=False
            ),
            yaxis2=axis("token of the left image", anchor="x2", range=[count - 0.5, -0.5], showgrid=False),
        ),
    }


def std_bar(norm: LogNorm) -> dict[str, Any]:
    """Return the ticks of the color bar of σ, whose colors are at ``norm(σ)``: logarithmic about 1."""
    ticks = std_ticks(norm.vmin or 0.0, norm.vmax or 1.0)
    return {"tickvals": [float(norm(tick)) for tick in ticks], "ticktext": [f"{tick:.2g}" for tick in ticks]}


def maps_figure(result: ImageResult) -> dict[str, Any]:
    """Draw σ over both images, and the matches of one patch of the left image in the right one."""
    sigmas = [None if one is None else _on_grid(one.sqrt().numpy(), result) for one in (result.var_x, result.var_y)]
    known = [one for one in sigmas if one is not None]
    norm = std_norm(np.stack(known) if known else np.ones(1))
    width = 0.31
    data: list[dict[str, Any]] = []
    shown, notes, more = [], [], {}
    row, column = divmod(int(result.positions[result.patch]), result.grid[1])
    shares = result.coupling[result.patch] / max(result.coupling[result.patch].sum(), 1e-12)
    panels = [
        ("σ of the left image", result.pixels[0], sigmas[0]),
        ("σ of the right image", result.pixels[1], sigmas[1]),
        ("matches of the framed patch", result.pixels[1], _on_grid(shares, result)),
    ]
    for k, (title, pixels, known_values) in enumerate(panels):
        values = np.ones(result.grid) if known_values is None else known_values
        end = "" if k == 0 else str(k + 1)
        left = k * (1 - width) / 2
        heat = k == 2
        shown.append(_placed(pixels if heat else _faded(pixels), f"x{end}", 0, 1, yref=f"y{end}"))
        rows, columns = values.shape
        colors = values if heat else np.asarray(norm(values))
        trace: dict[str, Any] = {"type": "heatmap", "z": typed(colors), "customdata": typed(values), "zsmooth": False}
        trace |= {"x0": 0.5 / columns, "dx": 1 / columns, "y0": 0.5 / rows, "dy": 1 / rows}
        trace |= {"xaxis": f"x{end}", "yaxis": f"y{end}"}
        trace["hovertemplate"] = ("share" if heat else "σ") + " %{customdata:.3f}<extra></extra>"
        if heat:
            bar = color_bar("share of the patch's matches", left + width / 2, 0.26, MAPS_BAR)
            trace |= {"colorscale": HEAT, "zmin": 0, "colorbar": bar}
        else:
            bar = color_bar("uncertainty σ (both maps)", width, 0.26, MAPS_BAR, **std_bar(norm))
            trace |= {"colorscale": MAP_SCALE, "zmin": 0, "zmax": 1, "opacity": OPACITY}
            trace |= {"showscale": k == 0, "colorbar": bar}
        data.append(trace)
        notes.append(note(title, left + width / 2, 1, yanchor="bottom", yshift=3))
        fitted: dict[str, Any] = {"constrain": "domain", "scaleanchor": f"x{end}"}
        fitted["scaleratio"] = pixels.shape[0] / pixels.shape[1]
        more[f"xaxis{end}"] = blank_axis(
            domain=[left, left + width], range=[0, 1], constrain="domain", anchor=f"y{end}"
        )
        more[f"yaxis{end}"] = blank_axis(range=[1, 0], anchor=f"x{end}", **fitted)
    rows, columns = result.grid
    across, down = (column / columns, (column + 1) / columns), (row / rows, (row + 1) / rows)
    frame = shape("rect", across, down, ("x", "y"), line={"color": MODE_COLOR, "width": 3})
    return {
        "data": data,
        "layout": layout(MAPS_HEIGHT, margin=MAPS_MARGIN, images=shown, shapes=[frame], annotations=notes, **more),
    }


def _on_grid(values: np.ndarray, result: ImageResult) -> np.ndarray:
    """Arrange values in reading order on the grid (h, w)."""
    flat = np.empty_like(values)
    flat[result.positions] = values
    return flat.reshape(result.grid)


def _faded(pixels: np.ndarray) -> np.ndarray:
    """Return the image in pale gray, so that colors show on it."""
    low, high = FADED
    return np.repeat((low + (high - low) * (pixels @ np.array(LUMA)))[..., None], 3, axis=-1)


def _placed(pixels: np.ndarray, xref: str, left: float, width: float, yref: str = "y") -> dict[str, Any]:
    """Place an image below the traces, one unit high."""
    place = {"x": left, "y": 0, "sizex": width, "sizey": 1, "xanchor": "left", "yanchor": "top"}
    source = data_url((255 * np.clip(pixels, 0, 1)).round().astype(np.uint8))
    return {"source": source, "xref": xref, "yref": yref, "sizing": "stretch", "layer": "below"} | place
