"""Figures of the second tab: the best patch matches of two images, and where the model is uncertain."""

from typing import Any

import numpy as np

from udtw.explorer.figures import (
    MODE_COLOR,
    SIGMA_COLORS,
    SIGMA_SCALE,
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
from udtw.explorer.image_work import LUMA, ImageResult
from udtw.plots.patch_matches import patch_centres, strongest_matches

HEIGHT, MAPS_HEIGHT = 410, 350
MARGIN, MAPS_MARGIN = margins(8, 14, 10, 92), margins(8, 14, 30, 66)
BAR, MAPS_BAR = under(44, HEIGHT, MARGIN), under(12, MAPS_HEIGHT, MAPS_MARGIN)
TICKS = coupling_ticks(0, 0.01, 0.1, 1)
GAP = 0.08
FADED = (0.25, 0.75)
MAP_SCALE = [[0, "#1450A0"], [0.5, "#F4F1EA"], [1, "#C01024"]]
HEAT = [[0, "rgba(213,94,0,0)"], [1, "rgba(213,94,0,0.9)"]]
OPACITY = 0.62


def match_figure(found: ImageResult, n_matches: int, order: str) -> dict[str, Any]:
    """Both images with lines between their best patch matches, and the coupling beside them."""
    std = pair_std(found)
    cells = strongest_matches(found.coupling, found.grid, found.grid, n_matches, order=order, std=std)
    values = (found.coupling if std is None else std)[cells[:, 0], cells[:, 1]]
    low, high = (0.0, 1.0) if std is None else _range(std)
    widths = [one.shape[2] / one.shape[1] for one in found.pixels]
    starts = (0.0, widths[0] + GAP)
    centres = patch_centres(order, found.grid)
    ends = [centres[cells[:, k]] * (widths[k], 1) + (starts[k], 0) for k in (0, 1)]
    label = "π* of the match" if std is None else "σ of the match"
    data: list[dict[str, Any]] = []
    for a, b, value in zip(ends[0], ends[1], values, strict=True):
        line = {"type": "scatter", "mode": "lines", "x": [a[0], b[0]], "y": [a[1], b[1]], "hoverinfo": "skip"}
        data.append(line | {"line": {"color": "white", "width": 4}})
        data.append(line | {"line": {"color": _mixed((value - low) / (high - low)), "width": 2}})
    dots = np.concatenate(ends)
    data.append(
        {
            "type": "scatter", "mode": "markers", "x": typed(dots[:, 0]), "y": typed(dots[:, 1]),
            "customdata": typed(np.concatenate([values, values])),
            "hovertemplate": f"{label}: %{{customdata:.3f}}<extra></extra>",
            "marker": {
                "size": 8, "color": typed(np.concatenate([values, values])), "cmin": low, "cmax": high,
                "colorscale": SIGMA_SCALE, "line": {"color": "white", "width": 1},
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
    shown = [_placed(one, "x", start, width) for one, start, width in zip(found.pixels, starts, widths, strict=True)]
    count = len(found.order)
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
    """σ over both images, and where one patch of the left goes in the right."""
    sigmas = [None if one is None else _on_grid(one.sqrt().numpy(), found) for one in (found.var_x, found.var_y)]
    known = [one for one in sigmas if one is not None]
    low, high = _range(np.stack(known)) if known else (0.5, 1.5)
    width = 0.31
    data: list[dict[str, Any]] = []
    shown, notes, more = [], [], {}
    row, column = divmod(int(found.order[found.patch]), found.grid[1])
    goes = found.coupling[found.patch] / max(found.coupling[found.patch].sum(), 1e-12)
    panels = [
        ("σ of the left image", found.pixels[0], sigmas[0]),
        ("σ of the right image", found.pixels[1], sigmas[1]),
        ("where the framed patch goes", found.pixels[1], _on_grid(goes, found)),
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
            bar = colour_bar("share of the matches of the patch", left + width / 2, 0.26, MAPS_BAR)
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
            range=[1, 0], scaleanchor=f"x{end}", scaleratio=pixels.shape[1] / pixels.shape[2], constrain="domain",
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


def pair_std(found: ImageResult) -> np.ndarray | None:
    """√Σ (N, M)."""
    return None if found.var_x is None else found.alignment.variance.sqrt().numpy()


def _on_grid(values: np.ndarray, found: ImageResult) -> np.ndarray:
    """(h, w) of values in reading order."""
    flat = np.empty_like(values)
    flat[found.order] = values
    return flat.reshape(found.grid)


def _range(values: np.ndarray) -> tuple[float, float]:
    """Never empty: maps that hardly differ shall not look dramatic."""
    low, high = float(values.min()), float(values.max())
    middle, half = (low + high) / 2, max((high - low) / 2, 0.025 * high)
    return middle - half, middle + half


def _faded(pixels: np.ndarray) -> np.ndarray:
    low, high = FADED
    return np.repeat(low + (high - low) * np.tensordot(LUMA, pixels, 1)[None], 3, axis=0)


def _placed(pixels: np.ndarray, xref: str, left: float, width: float, yref: str = "y") -> dict[str, Any]:
    """An image below the traces, one unit high."""
    return {
        "source": data_url(pixels), "xref": xref, "yref": yref, "x": left, "y": 0, "sizex": width, "sizey": 1,
        "sizing": "stretch", "layer": "below", "xanchor": "left", "yanchor": "top",
    }  # fmt: skip


def _mixed(share: float) -> str:
    """A colour of `SIGMA_SCALE`."""
    at = np.linspace(0, 1, len(SIGMA_COLORS))
    channels = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in SIGMA_COLORS])
    return "rgb({:.0f},{:.0f},{:.0f})".format(*(np.interp(share, at, channel) for channel in channels.T))
