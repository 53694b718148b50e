"""The order in which the tokens of a grid are read: alignment needs sequences, and a grid has two dimensions."""

import numpy as np

from udtw.errors import OptionError

ORDERS = ("raster", "snake", "hilbert")


def token_order(name: str, grid: tuple[int, int]) -> np.ndarray:
    """(h·w,) positions in row-by-row numbering, in the order in which they are read.

    - "raster": row by row;
    - "snake": every other row backwards, so that neighbours in the sequence are neighbours in the image;
    - "hilbert": along the Hilbert curve of the enclosing power of two, without the cells outside the grid. Pieces of
      the sequence are compact regions of the image.

    >>> from udtw.images.order import token_order
    >>> token_order("snake", (2, 3))
    array([0, 1, 2, 5, 4, 3])
    """
    if name not in ORDERS:
        raise OptionError(f"order must be one of {ORDERS}; got {name!r}.")
    height, width = grid
    positions = np.arange(height * width).reshape(height, width)
    if name == "snake":
        positions[1::2] = positions[1::2, ::-1]
    if name != "hilbert":
        return positions.ravel()
    rows, columns = np.divmod(positions.ravel(), width)
    return np.argsort(hilbert_index(rows, columns, max(1, (max(grid) - 1).bit_length())))


def hilbert_index(rows: np.ndarray, columns: np.ndarray, levels: int) -> np.ndarray:
    """The position of each cell along the Hilbert curve of a 2ˡ × 2ˡ grid."""
    rows, columns = rows.copy(), columns.copy()
    along = np.zeros_like(rows)
    for level in reversed(range(levels)):
        half = 1 << level
        below, right = (rows & half) > 0, (columns & half) > 0
        along += half * half * ((3 * right) ^ below)
        # Turn the quadrant so that the curve in it is the curve of the whole.
        flip = ~below & right
        rows = np.where(flip, half - 1 - (rows & (half - 1)), rows)
        columns = np.where(flip, half - 1 - (columns & (half - 1)), columns)
        rows, columns = np.where(below, rows, columns), np.where(below, columns, rows)
    return along
