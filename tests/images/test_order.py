"""Every order reads each token once; snake and Hilbert order go from neighbour to neighbour."""

import numpy as np
import pytest

from udtw.errors import OptionError
from udtw.images.order import ORDERS, token_order

GRIDS = [(1, 1), (1, 5), (4, 4), (7, 7), (14, 14), (3, 8), (16, 16)]


def jumps(order: np.ndarray, width: int) -> np.ndarray:
    rows, columns = np.divmod(order, width)
    return abs(np.diff(rows)) + abs(np.diff(columns))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", ORDERS)
def test_each_token_once(name, grid):
    assert sorted(token_order(name, grid)) == list(range(grid[0] * grid[1]))


def test_the_orders_of_a_small_grid():
    assert token_order("raster", (2, 3)).tolist() == [0, 1, 2, 3, 4, 5]
    assert token_order("snake", (2, 3)).tolist() == [0, 1, 2, 5, 4, 3]
    assert token_order("hilbert", (2, 2)).tolist() in ([0, 1, 3, 2], [0, 2, 3, 1])


@pytest.mark.parametrize("grid", GRIDS)
def test_snake_never_jumps(grid):
    assert (jumps(token_order("snake", grid), grid[1]) == 1).all()


@pytest.mark.parametrize("side", [2, 4, 8, 16])
def test_hilbert_never_jumps_on_powers_of_two_and_keeps_quadrants_together(side):
    order = token_order("hilbert", (side, side))
    assert (jumps(order, side) == 1).all()
    rows, columns = np.divmod(order.reshape(4, -1), side)
    assert np.ptp(rows, axis=1).max() == np.ptp(columns, axis=1).max() == side // 2 - 1


def test_an_unknown_order_is_named():
    with pytest.raises(OptionError, match="zigzag"):
        token_order("zigzag", (2, 2))
