"""Figures of the second tab: the best patch matches of two images, and where the model is uncertain."""

from typing import Any

import numpy as np
from matplotlib.colors import to_hex

from udtw.explorer.figures import (
    PAPER,
    axis,
    blank_axis,
    colour_bar,
    coupling_ticks,
    coupling_trace,
    data_url,
    layout,
    margins,
    note,
    typed,
    under,
)
from udtw.explorer.image_alignment import ImageResult
from udtw.plots.image_maps import FADED, LUMA, MAP_HEX, OPACITY
from udtw.plots.image_match import check_match
from udtw.plots.style import MODE_COLOR, STD_COLORS, STD_HEX, std_limits

HEIGHT, MAPS_HEIGHT = 410, 350
MARGIN, MAPS_MARGIN = margins(8, 14, 10, 92), margins(8, 14, 30, 66)
BAR, MAPS_BAR = under(44, HEIGHT, MARGIN), under(12, MAPS_HEIGHT, MAPS_MARGIN)
TICKS = coupling_ticks(0, 0.01, 0.1, 1)
GAP = 0.08
STD_SCALE, MAP_SCALE = ([[k / 2, color] for k, color in enumerate(colors)] for colors in (STD_HEX, MAP_HEX))
HEAT = [[0, "rgba(213,94,0,0)"], [1, "rgba(213,94,0,0.9)"]]


def match_figure(found: ImageResult, n_matches: int) -> dict[str, Any]:
    """Both images with lines between their best patch matches, and the coupling beside them."""
    match = check_match(found.match, n_matches)
    cells, values, ends, widths = match.cells, match.strength, match.ends(GAP), match.widths
    low, high = (0.0, 1.0) if match.std is None else std_limits(match.std)
    label = "π* of the match" if match.std is None else "σ of the match"
    data: list[dict[str, Any]] = []
    for a, b, value in zip(ends[0], ends[1], values, strict=True):
        line = {"type": "scatter", "mode": "lines", "x": [a[0], b[0]], "y": [a[1], b[1]], "hoverinfo": "skip"}
        data.append(line | {"line": {"color": PAPER, "width": 4}})
        data.append(line | {"line": {"color": to_hex(STD_COLORS((value - low) / (high - low))), "width": 2}})
    dots = np.concatenate(ends)
    data.append(
        {
            "type": "scatter", "mode": "markers", "x": typed(dots[:, 0]), "y": typed(dots[:, 1]),
            "customdata": typed(np.concatenate([values, values])),
            "hovertemplate": f"{label}: %{{customdata:.3f}}<extra></extra>",
            "marker": {
                "size": 8, "color": typed(np.concatenate([values, values])), "cmin": low, "cmax": high,
                "colorscale": STD_SCALE, "line": {"color": PAPER, "width": 1},
                "colorbar": colour_bar(label, 0.32, 0.3, BAR),
            },
        }
    )  # fmt: skip
    data.append(
        coupling_trace(
            found.coupling, xaxis="x2", yaxis="y2",
            hover="left token %{y}, right token %{x}<br>π* = %{customdata:.4f}<extra></extra>",
            colorbar=colour_bar("coupling π*", 0.855, 0.26, BAR, **TICKS),
        )
    )  # fmt: skip
    data.append(
        {
            "type": "scatter", "mode": "markers", "x": typed(cells[:, 1]), "y": typed(cells[:, 0]), "xaxis": "x2",
            "yaxis": "y2", "hoverinfo": "skip",
            "marker": {"size": 9, "symbol": "circle-open", "color": MODE_COLOR, "line": {"width": 2}},
        }
    )  # fmt: skip
    starts = (0.0, widths[0] + GAP)
    shown = [_placed(one, "x", start, width) for one, start, width in zip(found.pixels, starts, widths, strict=True)]
    count = len(found.positions)
    return {
        "data": data,
        "layout": layout(
            HEIGHT,
            margin=MARGIN,
            images=shown,
            xaxis=blank_axis(domain=[0, 0.64], range=[0, starts[1] + widths[1]], constrain="domain"),
            yaxis=blank_axis(range=[1, 0], scaleanchor="x", constrain="domain"),
            xaxis2=axis(
                "token of the right image", domain=[0.71, 1], anchor="y2", range=[-0.5, count - 0.5], showgrid=False
            ),
            yaxis2=axis("token of the left image", anchor="x2", range=[count - 0.5, -0.5], showgrid=False),
        ),
    }


def maps_figure(found: ImageResult) -> dict[str, Any]:
    """σ over both images, and the matches of one patch of the left image in the right one."""
    sigmas = [None if one is None else _on_grid(one.sqrt().numpy(), found) for one in (found.var_x, found.var_y)]
    known = [one for one in sigmas if one is not None]
    low, high = std_limits(np.stack(known)) if known else (0.5, 1.5)
    width = 0.31
    data: list[dict[str, Any]] = []
    shown, notes, more = [], [], {}
    row, column = divmod(int(found.positions[found.patch]), found.grid[1])
    shares = found.coupling[found.patch] / max(found.coupling[found.patch].sum(), 1e-12)
    panels = [
        ("σ of the left image", found.pixels[0], sigmas[0]),
        ("σ of the right image", found.pixels[1], sigmas[1]),
        ("matches of the framed patch", found.pixels[1], _on_grid(shares, found)),
    ]
    for k, (title, pixels, known_values) in enumerate(panels):
        values = np.ones(found.grid) if known_values is None else known_values
        end = "" if k == 0 else str(k + 1)
        left = k * (1 - width) / 2
        heat = k == 2
        shown.append(_placed(pixels if heat else _faded(pixels), f"x{end}", 0, 1, yref=f"y{end}"))
        rows, columns = values.shape
        trace: dict[str, Any] = {
            "type": "heatmap", "z": typed(values), "x0": 0.5 / columns, "dx": 1 / columns, "y0": 0.5 / rows,
            "dy": 1 / rows, "xaxis": f"x{end}", "yaxis": f"y{end}", "zsmooth": False,
            "hovertemplate": ("share" if heat else "σ") + " %{z:.3f}<extra></extra>",
        }  # fmt: skip
        if heat:
            bar = colour_bar("share of the patch's matches", left + width / 2, 0.26, MAPS_BAR)
            trace |= {"colorscale": HEAT, "zmin": 0, "colorbar": bar}
        else:
            trace |= {"colorscale": MAP_SCALE, "zmin": low, "zmax": high, "opacity": OPACITY, "showscale": k == 0,
                      "colorbar": colour_bar("uncertainty σ (both maps)", width, 0.26, MAPS_BAR)}  # fmt: skip
        data.append(trace)
        notes.append(note(title, left + width / 2, 1, yanchor="bottom", yshift=3))
        more[f"xaxis{end}"] = blank_axis(
            domain=[left, left + width], range=[0, 1], constrain="domain", anchor=f"y{end}"
        )
        more[f"yaxis{end}"] = blank_axis(
            range=[1, 0], scaleanchor=f"x{end}", scaleratio=pixels.shape[0] / pixels.shape[1], constrain="domain",
            anchor=f"x{end}",
        )  # fmt: skip
    rows, columns = found.grid
    frame = {
        "type": "rect", "xref": "x", "yref": "y", "x0": column / columns, "x1": (column + 1) / columns,
        "y0": row / rows, "y1": (row + 1) / rows, "line": {"color": MODE_COLOR, "width": 3},
    }  # fmt: skip
    return {
        "data": data,
        "layout": layout(
            MAPS_HEIGHT,
            margin=MAPS_MARGIN,
            images=shown,
            shapes=[frame],
            annotations=notes,
            **more,
        ),
    }


def _on_grid(values: np.ndarray, found: ImageResult) -> np.ndarray:
    """(h, w) of values in reading order."""
    flat = np.empty_like(values)
    flat[found.positions] = values
    return flat.reshape(found.grid)


def _faded(pixels: np.ndarray) -> np.ndarray:
    """The image in pale grey, so that colours show on it."""
    low, high = FADED
    return np.repeat((low + (high - low) * (pixels @ np.array(LUMA)))[..., None], 3, axis=-1)


def _placed(pixels: np.ndarray, xref: str, left: float, width: float, yref: str = "y") -> dict[str, Any]:
    """An image below the traces, one unit high."""
    return {
        "source": data_url((255 * np.clip(pixels, 0, 1)).round().astype(np.uint8)), "xref": xref, "yref": yref,
        "x": left, "y": 0, "sizex": width, "sizey": 1, "sizing": "stretch", "layer": "below", "xanchor": "left",
        "yanchor": "top",
    }  # fmt: skip
