"""The projection standardises, maps and scales tokens, so that both targets δ can be reached."""

import numpy as np
import pytest
import torch

from udtw.errors import OptionError, ShapeError
from udtw.images.projection import ORDERS, TokenProjection, token_order


def samples(seed: int = 0) -> torch.Tensor:
    """Features of very different size; the last never varies."""
    x = torch.randn(20, 6, 5, generator=torch.Generator().manual_seed(seed))
    return x * torch.tensor([1.0, 100.0, 1e-3, 1.0, 0.0]) + torch.tensor([0.0, 5.0, 1.0, -3.0, 7.0])


def test_standardised_tokens_have_mean_0_and_deviation_1_and_what_never_varies_is_0():
    projection = TokenProjection(5, 0, unit_tokens=False)
    projection.standardize(samples())
    found = projection(samples()).features.flatten(0, 1)
    torch.testing.assert_close(found.mean(0), torch.zeros(5), atol=1e-4, rtol=0)
    torch.testing.assert_close(found.std(0, correction=0), torch.tensor([1.0, 1, 1, 1, 0]), atol=1e-3, rtol=0)


@pytest.mark.parametrize("dim", [0, 3])
def test_tokens_have_norm_one_so_that_squared_distances_lie_between_0_and_4(dim):
    torch.manual_seed(0)
    projection = TokenProjection(5, dim)
    projection.standardize(samples())
    tokens = projection(samples(1))
    assert tokens.features.shape == (20, 6, dim or 5)
    assert tokens.lengths.tolist() == [6] * 20
    # A token whose features hardly differ is a little shorter, since LayerNorm divides by √(variance + ε).
    torch.testing.assert_close(tokens.features.square().sum(2), torch.ones(20, 6), atol=0.05, rtol=0)
    apart = torch.cdist(tokens.features.flatten(0, 1), tokens.features.flatten(0, 1)).square()
    assert apart.max() <= 4 + 1e-3
    assert apart.max() > 1  # the target of different classes


def test_the_map_has_no_bias_and_starts_with_orthonormal_rows():
    projection = TokenProjection(6, 4)
    assert [name for name, _ in projection.named_parameters()] == ["map.weight"]
    rows = projection.map.weight
    torch.testing.assert_close(rows @ rows.T, torch.eye(4), atol=1e-5, rtol=0)


def test_principal_directions_keep_the_most_of_the_variance():
    generator = torch.Generator().manual_seed(0)
    low = torch.randn(200, 2, generator=generator) @ torch.randn(2, 6, generator=generator)
    x = (low + 0.01 * torch.randn(200, 6, generator=generator)).reshape(20, 10, 6)
    projection = TokenProjection(6, 2, start="principal", unit_tokens=False)
    projection.standardize(x)
    z = TokenProjection(6, 0, unit_tokens=False)
    z.standardize(x)
    total = z(x).features.square().sum()
    assert projection(x).features.square().sum() > 0.99 * total


def test_what_was_learned_from_the_data_is_saved_with_the_weights():
    projection = TokenProjection(5, 3)
    projection.standardize(samples())
    other = TokenProjection(5, 3)
    other.load_state_dict(projection.state_dict())
    assert torch.equal(other(samples(1)).features, projection(samples(1)).features)


def test_wrong_shapes_and_options_are_named():
    with pytest.raises(ShapeError, match=r"\(B, T, 5\)"):
        TokenProjection(5, 3)(torch.zeros(2, 4, 6))
    with pytest.raises(OptionError, match="dim=6"):
        TokenProjection(5, 6)
    with pytest.raises(OptionError, match="start"):
        TokenProjection(5, 3, start="zeros")


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
