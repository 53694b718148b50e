"""What a match costs, in numbers: distances of many features, levels of variances, roughness."""

import numpy as np
import pytest
import torch

import udtw
from udtw._engine.likelihood import (
    LEAST_ROUGHNESS,
    MAX_DIRECT_DIM,
    ROUGHNESS_WINDOW,
    estimate_variances,
    log_level,
    roughness,
    squared_distances,
)


def points(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("gradient", [False, True])
def test_the_matrix_product_does_not_feel_a_common_offset(gradient):
    near = points(1, 7, 40), points(1, 5, 40, seed=1)
    expected = (near[0][:, :, None] - near[1][:, None]).square().sum(3)
    with torch.set_grad_enabled(gradient):
        found = squared_distances(near[0] + 1e7, near[1] + 1e7)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=0)  # about the origin the error would be 1 and more


@pytest.mark.parametrize("gradient", [False, True])
def test_rounding_makes_no_distance_negative(gradient):
    x = points(1, 60, 40)
    with torch.set_grad_enabled(gradient):
        assert (squared_distances(x, x + 1e-9 * points(1, 60, 40, seed=1)) >= 0).all()


def test_the_gradient_is_that_of_the_uncut_distance():
    x = points(1, 60, 40).requires_grad_()
    y = x.detach() + 1e-9
    distance = squared_distances(x, y).diagonal(dim1=1, dim2=2)
    assert (distance == 0).any(), "some are cut"
    [grad] = torch.autograd.grad(distance.sum(), x)
    torch.testing.assert_close(grad, 2 * (x.detach() - y), rtol=0, atol=1e-13)
    assert (grad < 0).all()


def test_nearby_points_of_up_to_16_features_have_exact_distances():
    assert MAX_DIRECT_DIM == 16, "the documented bound"
    x = points(1, 6, 16)
    moved = x + 1e-9 * points(1, 6, 16, seed=1)
    found = squared_distances(x, moved).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(found, (x - moved).square().sum(2), rtol=1e-12, atol=0)


def test_the_level_of_features_is_the_sum_of_theirs():
    var_x, var_y = points(2, 4, 3).exp(), points(2, 5, 3, seed=1).exp()
    in_x, in_y = torch.arange(4) < torch.tensor([[4], [2]]), torch.arange(5) < torch.tensor([[1], [5]])
    found = log_level(var_x.log(), var_y.log(), in_x, in_y)
    for b, (n, m) in enumerate([(4, 1), (2, 5)]):
        mean_x, mean_y = (one[b, :k].log().sum(1).mean() for one, k in ((var_x, n), (var_y, m)))
        assert float(found[b]) == pytest.approx(float(mean_x + mean_y) / 2)


def test_units_of_features_change_no_alignment():
    """The level counts every feature: otherwise smaller units would reward warps."""
    x, y = points(1, 6, 3), points(1, 8, 3, seed=1)
    var_x, var_y = points(1, 6, 3, seed=2).exp(), points(1, 8, 3, seed=3).exp()
    one = udtw.align(x, y, var_x, var_y)
    other = udtw.align(10 * x, 10 * y, 100 * var_x, 100 * var_y)
    torch.testing.assert_close(other.coupling, one.coupling)


def test_roughness_is_the_mean_of_squared_bends_over_its_window():
    impulse = torch.zeros(41, 2, dtype=torch.float64)
    impulse[20, 0] = 1.0
    bends = np.zeros(41)
    bends[19:22] = np.array([1, 4, 1]) / 12  # half of the features, over 6
    expected = np.convolve(bends, np.ones(ROUGHNESS_WINDOW) / 9, "same")
    np.testing.assert_allclose(roughness(impulse)[5:-5], expected[5:-5], atol=1e-15)
    noise = points(20_000, 1)
    assert float(roughness(noise).mean()) == pytest.approx(1, rel=0.05)


def test_estimated_variances_are_a_share_of_the_series_at_least():
    ramp = torch.arange(30, dtype=torch.float64)[None, :, None]
    found = estimate_variances("var_x", ramp, torch.tensor([30]))
    assert float(found.min()) == pytest.approx(1e-4 * float(ramp.var(correction=0)))
    assert found.max() == found.min()
    assert LEAST_ROUGHNESS < 1e-3
    assert udtw.align(np.array([0.0, 1.0, 0.5]), np.ones(4), "estimate").step_variances[0].shape == (3,)
