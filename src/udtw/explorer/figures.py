"""Build parts of all figures: plain dictionaries for plotly.js, with arrays as typed bytes.

Plotly's own figure classes check every property in Python, which takes longer than the alignment itself.
"""

import base64
import io
from typing import Any

import numpy as np

from udtw.images.datasets.safe_images import import_pillow
from udtw.plots.style import MODE_COLOR, X_COLOR, Y_COLOR

POWER = 0.25
"""Colors show π*^POWER to make small probabilities visible; see `shades`."""

MOST_CELLS = 512
"""Largest number of rows or columns drawn cell by cell; larger matrices are drawn in blocks."""

FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", "size": 13}
TEXT, GRID, INK, FAINT = "#1F2933", "#E4E7EB", "#111820", "#9AA5B1"
PAPER = "#FFFFFF"
DARK = {
    PAPER: "#1A1F27",
    TEXT: "#D9DFE6",
    GRID: "#333B46",
    INK: "#F2F5F8",
    FAINT: "#6B7683",
    "#D5DAE0": "#3D4551",
    "#A9B1BB": "#626C78",
    "#6C7681": "#98A2AE",
    "#3A424D": "#C4CBD4",
    "#C8283A": "#FF7482",
    X_COLOR: "#56B0E8",
    Y_COLOR: "#3CC49A",
    MODE_COLOR: "#FF8A3D",
}
"""Dark-mode color for each light-mode color."""
TYPES = {"float32": "f4", "float64": "f8", "uint8": "u1", "int16": "i2", "int32": "i4"}


def themed(part: Any, theme: str) -> Any:
    """Return a figure, or a part of it, in the colors of the ``theme``, "light" or "dark"."""
    if theme != "dark":
        return part
    if isinstance(part, dict):
        return {name: value if name in ("bdata", "source") else themed(value, theme) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [themed(value, theme) for value in part]
    if isinstance(part, str) and part[:7].upper() in DARK:
        return DARK[part[:7].upper()] + part[7:]  # the rest is the opacity
    return part


def typed(values: Any, dtype: Any = np.float32) -> dict[str, str]:
    """Encode an array for plotly.js as base64 bytes, which are smaller than a list of decimal numbers."""
    array = np.ascontiguousarray(values, dtype=dtype)
    encoded = {"dtype": TYPES[array.dtype.name], "bdata": base64.b64encode(array.tobytes()).decode()}
    return encoded if array.ndim == 1 else encoded | {"shape": ", ".join(map(str, array.shape))}


def blocks(matrix: np.ndarray, most: int = MOST_CELLS, reduce: Any = np.maximum) -> tuple[np.ndarray, int, int]:
    """Reduce a matrix to at most ``most`` rows and columns; also return how many rows and columns each block combines.

    ``reduce`` is `np.maximum`, or `np.add` for means.
    """
    steps = [-(-side // most) for side in matrix.shape]
    for axis, step in enumerate(steps):
        if step > 1:
            starts = np.arange(0, matrix.shape[axis], step)
            counts = np.diff([*starts, matrix.shape[axis]])
            matrix = reduce.reduceat(matrix, starts, axis=axis)
            if reduce is np.add:
                matrix = matrix / (counts[:, None] if axis == 0 else counts)
    return matrix, steps[0], steps[1]


def places(rows: int, columns: int) -> dict[str, float]:
    """Return the position of the first cell of a heat map in blocks, and the distances between cells."""
    return {"x0": (columns - 1) / 2, "dx": columns, "y0": (rows - 1) / 2, "dy": rows}


def shades(coupling: np.ndarray) -> np.ndarray:
    """Return 255 π*^POWER as uint8."""
    powered = np.clip(coupling, 0, 1, dtype=np.float32)
    np.sqrt(np.sqrt(powered, out=powered), out=powered)
    return (255 * powered + 0.5).astype(np.uint8)


def coupling_trace(coupling: np.ndarray, *, most: int = MOST_CELLS, hover: str = "", **more: Any) -> dict[str, Any]:
    """Build a heat map of π* in 255 shades of π*^POWER; with a ``hover`` text, also send the probabilities."""
    shown, rows, columns = blocks(coupling, most)
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": typed(shades(shown), np.uint8),
        "zmin": 0,
        "zmax": 255,
        "colorscale": [[0, PAPER], [1, INK]],
        **places(rows, columns),
        **more,
    }
    if not hover:
        return trace | {"hoverinfo": "skip"}
    return trace | {"customdata": typed(shown), "hovertemplate": hover}


def coupling_ticks(*probabilities: float) -> dict[str, Any]:
    """Return the ticks of the color bar of a `coupling_trace`."""
    return {
        "tickvals": [255 * share**POWER for share in probabilities],
        "ticktext": [f"{share:g}" for share in probabilities],
    }


COUPLING_TITLE = "coupling π* (probability of the match)"
COUPLING_TICKS = coupling_ticks(0, 0.001, 0.01, 0.1, 0.5, 1)


COLOR_BAR = {"orientation": "h", "xanchor": "center", "xpad": 0, "yanchor": "top", "ypad": 0, "thickness": 10}


def color_bar(title: str, x: float, length: float, below: float, **more: Any) -> dict[str, Any]:
    """Build a horizontal color bar centered at ``x``; ``below`` is its vertical position, see `under`."""
    labels = {"tickfont": {"size": 12}, "tickangle": 0, "outlinewidth": 0}
    named = {"title": {"text": title, "side": "bottom", "font": {"size": 12}}}
    return COLOR_BAR | {"x": x, "y": below, "len": length} | labels | named | more


def under(pixels: float, height: int, margin: dict[str, Any]) -> float:
    """Return the position that many pixels below the panels, relative to their height."""
    return -pixels / (height - margin["t"] - margin["b"])


def margins(left: int, right: int, top: int, bottom: int) -> dict[str, Any]:
    """Return fixed margins: plotly.js would widen them for color bars and legends, and draw everything twice."""
    return {"l": left, "r": right, "t": top, "b": bottom, "autoexpand": False}


def corners(path: np.ndarray) -> np.ndarray:
    """Drop the cells of a path (L, 2) at which its direction does not change: the same line with fewer points."""
    steps = np.diff(path, axis=0)
    turns = (steps[1:] != steps[:-1]).any(1)
    return path[np.concatenate([[True], turns, [True]])] if len(path) > 2 else path


def lines(paths: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Join several paths (L, 2) into x and y of one line with gaps."""
    gap = np.full((1, 2), np.nan)
    joined = np.concatenate([part for path in paths for part in (corners(path), gap)]) if paths else gap
    return joined[:, 1], joined[:, 0]


def scatter(x: Any, y: Any, mode: str = "lines", **more: Any) -> dict[str, Any]:
    """Build a trace of lines or markers; NaN leaves a gap."""
    return {"type": "scatter", "mode": mode, "x": typed(x), "y": typed(y), **more}


def closed(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the outline of the area between two lines: along one and back along the other."""
    return np.concatenate([low, high[::-1]])


def shape(kind: str, x: tuple[float, float], y: tuple[float, float], axes: tuple[str, str], **more: Any) -> dict:
    """Build a line or rectangle between two corners, in the units of ``axes``."""
    return {"type": kind, "xref": axes[0], "yref": axes[1], "x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1], **more}


def path_trace(paths: list[np.ndarray], color: str, width: float, name: str, **more: Any) -> dict[str, Any]:
    """Build the trace of one or several paths (L, 2)."""
    return scatter(*lines(paths), line={"color": color, "width": width}, name=name, hoverinfo="skip", **more)


def mode_traces(mode: np.ndarray, name: str = "", **more: Any) -> list[dict[str, Any]]:
    """Draw the most probable path on a white rim, visible on dark cells; in the legend if it has a name."""
    rim = path_trace([mode], PAPER, 4, "", **more, showlegend=False)
    return [rim, path_trace([mode], MODE_COLOR, 2, name, **more, showlegend=bool(name))]


def data_url(pixels: np.ndarray, palette: bytes | None = None) -> str:
    """Encode pixels (H, W, 3) uint8, or indices (H, W) into a ``palette``, as a PNG in a URL."""
    image = import_pillow().fromarray(np.ascontiguousarray(pixels))
    if palette is not None:
        image.putpalette(palette)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def layout(height: int, **more: Any) -> dict[str, Any]:
    """Return the layout of a figure; the zoom is kept while settings change."""
    colors = {"font": FONT | {"color": TEXT}, "paper_bgcolor": PAPER, "plot_bgcolor": PAPER}
    behavior = {"autosize": True, "uirevision": "same", "showlegend": False, "hovermode": "closest"}
    return {"height": height} | colors | behavior | more


AXIS = {"type": "linear", "zeroline": False, "gridcolor": GRID, "linecolor": FAINT, "ticks": "outside", "ticklen": 3}


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """Build an axis with ticks and an optional title."""
    titled = {"title": {"text": title, "font": {"size": 12}, "standoff": 6}} if title else {}
    return AXIS | titled | more


def blank_axis(**more: Any) -> dict[str, Any]:
    """Build an axis that is neither drawn nor zoomed."""
    return {"visible": False, "fixedrange": True, **more}


def note(text: str, x: float, y: float, **more: Any) -> dict[str, Any]:
    """Build a text at a position relative to the figure."""
    place = {"x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "center"}
    return {"text": text, "showarrow": False, "font": {"size": 13}} | place | more
