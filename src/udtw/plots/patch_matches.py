"""Which matches of a coupling to draw between two images, and where."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from udtw.images.order import token_order
from udtw.plots.token_maps import Floats, as_array

RANK_DIGITS = 2
APART = 2
"""Rows or columns, in one image at least, that matches keep from each other while there are enough of them."""


def strongest_matches(
    coupling: Any, grid_x: tuple[int, int], grid_y: tuple[int, int], n_matches: int, *, order: str = "raster",
    std: Any = None,
) -> NDArray[np.int64]:  # fmt: skip
    """(K, 2) token numbers of at most ``n_matches`` matches, strongest first, no patch in two of them.

    Only those are taken in which each patch is the other's best. The first token is matched with the first and the last
    with the last by every path, which says nothing about them: these two come last. Couplings that are equal to two
    digits rank by ``std`` (N, M), the more certain match first. To be told apart in the picture, a match waits until
    there is no other if both patches are neighbours of those of a stronger one, or in the same rows.
    """
    values = as_array(coupling).astype(np.float64)
    best = (values > 0) & (values == values.max(1, keepdims=True)) & (values == values.max(0, keepdims=True))
    rows, columns = np.nonzero(best)
    forced = ((rows == 0) & (columns == 0)) | ((rows == values.shape[0] - 1) & (columns == values.shape[1] - 1))
    trust = np.zeros(len(rows)) if std is None else as_array(std)[rows, columns]
    ranked = np.lexsort((trust, -np.round(values[rows, columns], RANK_DIGITS)))
    cells = np.stack([rows, columns], 1)
    places = np.concatenate(
        [_places(order, grid)[cells[:, side]] for side, grid in enumerate((grid_x, grid_y))], axis=1
    )  # (n, 4): row and column in x, row and column in y
    free, ends = ranked[~forced[ranked]], ranked[forced[ranked]]
    chosen: list[int] = []
    for candidates, apart in ((free, True), (free, False), (ends, False)):
        for i in candidates:
            steps = np.abs(places[chosen] - places[i]).reshape(-1, 2, 2)  # (k, images, rows and columns)
            alone = (steps.max(2) > 0).all()
            clear = (steps.max((1, 2)) >= APART).all() and (steps[:, :, 0].max(1) > 0).all()
            if len(chosen) < n_matches and alone and (clear or not apart):
                chosen.append(int(i))
    return cells[chosen]


def patch_centres(order: str, grid: tuple[int, int]) -> Floats:
    """(h·w, 2): across and down, from 0 to 1 of the image, of the tokens in reading order."""
    return (_places(order, grid)[:, ::-1] + 0.5) / np.array(grid)[::-1]


def _places(order: str, grid: tuple[int, int]) -> NDArray[np.int64]:
    """(h·w, 2) row and column on the grid of the tokens in reading order."""
    return np.stack(np.divmod(token_order(order, grid), grid[1]), 1)
