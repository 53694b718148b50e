"""Four distances side by side, each as a small image: which steps it matches, and its value.

Images, not figures of plotly.js: the browser draws four of them in no time while a slider is dragged.
"""

import base64
import io
from typing import Any

import numpy as np
from dash import html

from udtw.explorer.figures import INK, MODE_COLOR, blocks, shades
from udtw.explorer.series_work import Compared, SeriesResult
from udtw.explorer.widgets import number

MOST_CELLS = 256
PATH = 255


def _palette() -> bytes:
    """Shades 0 to 254 from white to ink, and the colour of a path."""
    ink, path = (np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) for color in (INK, MODE_COLOR))
    share = np.arange(PATH)[:, None] / (PATH - 1)
    return np.concatenate([255 + share * (ink - 255), path[None]]).round().astype(np.uint8).tobytes()


PALETTE = _palette()


def comparison(found: SeriesResult) -> list[html.Figure]:
    """Euclidean, DTW, soft-DTW and uDTW."""
    return [_panel(one, found.coupling.shape) for one in found.compared]


def _panel(one: Compared, shape: tuple[int, ...]) -> html.Figure:
    title = html.Figcaption([html.B(one.name), html.Span(number(one.value, 4))])
    inside: Any = html.Div("needs equal lengths", className="absent")
    if one.path is not None:
        meaning = "most probable path over the coupling" if one.matrix is not None else "its one path"
        inside = html.Img(src=_url(picture(one, shape)), alt=f"{one.name}: {meaning}")
    return html.Figure([title, inside])


def picture(one: Compared, shape: tuple[int, ...]) -> np.ndarray:
    """(H, W) uint8 shades of the coupling, and `PATH` where the path is; at most `MOST_CELLS` a side."""
    steps = [-(-side // MOST_CELLS) for side in shape]
    if one.matrix is None:
        drawn = np.zeros([-(-side // step) for side, step in zip(shape, steps, strict=True)], np.uint8)
    else:
        drawn = np.minimum(shades(blocks(one.matrix, MOST_CELLS)[0]), PATH - 1)
    if one.path is not None:
        drawn[one.path[:, 0] // steps[0], one.path[:, 1] // steps[1]] = PATH
    return drawn


def _url(drawn: np.ndarray) -> str:
    from udtw.images.datasets.safe_images import import_pillow

    image = import_pillow().fromarray(drawn)
    image.putpalette(PALETTE)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
