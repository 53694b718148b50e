"""Four distances side by side, each as a small image: which steps it matches, and its value.

Images, not figures of plotly.js: the browser draws four of them in no time while a slider is dragged.
"""

from typing import Any

import numpy as np
from dash import html

from udtw.explorer.figures import MODE_COLOR, POWER, blocks, data_url
from udtw.explorer.series_work import Compared, SeriesResult
from udtw.explorer.widgets import number

MOST_CELLS = 256
INK = np.array([17, 24, 32]) / 255
PATH = np.array([int(MODE_COLOR[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def comparison(found: SeriesResult) -> list[html.Figure]:
    """Euclidean, DTW, soft-DTW and uDTW."""
    return [_panel(one, found.coupling.shape) for one in found.compared]


def _panel(one: Compared, shape: tuple[int, ...]) -> html.Figure:
    title = html.Figcaption([html.B(one.name), html.Span(number(one.value, 4))])
    inside: Any = html.Div("needs equal lengths", className="absent")
    if one.path is not None:
        meaning = "most probable path over the coupling" if one.matrix is not None else "its one path"
        inside = html.Img(src=data_url(picture(one, shape)), alt=f"{one.name}: {meaning}")
    return html.Figure([title, inside])


def picture(one: Compared, shape: tuple[int, ...]) -> np.ndarray:
    """(3, H, W) in [0, 1]: the coupling in grey, the path in orange; at most `MOST_CELLS` a side."""
    matrix = np.zeros(shape) if one.matrix is None else one.matrix
    shown, rows, columns = blocks(np.clip(matrix, 0, 1), MOST_CELLS)
    shade = shown[None] ** POWER
    pixels = 1 - shade * (1 - INK[:, None, None])
    if one.path is not None:
        pixels[:, one.path[:, 0] // rows, one.path[:, 1] // columns] = PATH[:, None]
    return pixels
