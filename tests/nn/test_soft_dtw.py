"""SoftDTW: the numbers of the modules that it replaces."""

import pytest
import torch

import udtw
from udtw.errors import BandError, GammaError, OptionError, ShapeError
from udtw.nn import SoftDTW


def plain(cost, gamma, bandwidth=0):
    """Soft-DTW of one cost (N, M) by its recursion, cell by cell: r = cost + softmin of three; |i − j| ≤ bandwidth."""
    n, m = cost.shape
    infinite = torch.tensor(torch.inf, dtype=cost.dtype)
    table = [[infinite] * (m + 1) for _ in range(n + 1)]
    table[0][0] = torch.zeros((), dtype=cost.dtype)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if bandwidth and abs(i - j) > bandwidth:
                continue
            before = torch.stack([table[i - 1][j - 1], table[i - 1][j], table[i][j - 1]])
            reached = before[torch.isfinite(before)]
            if len(reached):
                table[i][j] = cost[i - 1, j - 1] - gamma * torch.logsumexp(-reached / gamma, 0)
    return table[n][m]


def squared(x, y):
    return (x[:, :, None] - y[:, None]).square().sum(3)


def batch_plain(x, y, gamma, bandwidth=0, dist_func=squared):
    return torch.stack([plain(cost, gamma, bandwidth) for cost in dist_func(x, y)])


def draw(n, m, dim=2, batch=3):
    generator = torch.Generator().manual_seed(n * m)
    return [torch.randn(batch, steps, dim, generator=generator, dtype=torch.float64) for steps in (n, m)]


@pytest.mark.parametrize("gamma", [0.05, 1.0, 5.0])
@pytest.mark.parametrize(
    ("n", "m", "bandwidth"), [(7, 7, None), (7, 5, 0), (8, 8, 2), (8, 8, 2.7), (8, 6, 2), (5, 9, 6)]
)
def test_values_and_gradients_are_those_of_the_recursion(n, m, bandwidth, gamma):
    x, y = (tensor.requires_grad_() for tensor in draw(n, m))
    value = SoftDTW(True, gamma=gamma, bandwidth=bandwidth)(x, y)
    expected = batch_plain(x, y, gamma, bandwidth or 0)
    torch.testing.assert_close(value, expected)
    weights = torch.arange(1.0, 4, dtype=torch.float64)
    found = torch.autograd.grad(value @ weights, (x, y))
    for ours, theirs in zip(found, torch.autograd.grad(expected @ weights, (x, y)), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("n", "m"), [(6, 6), (6, 8)])
def test_normalised_it_is_the_divergence_also_for_different_lengths(n, m):
    x, y = draw(n, m)
    value = SoftDTW(gamma=0.5, normalize=True)(x, y)
    expected = batch_plain(x, y, 0.5) - 0.5 * (batch_plain(x, x, 0.5) + batch_plain(y, y, 0.5))
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(value, udtw.soft_dtw_divergence(x, y, 0.5))


def test_a_custom_cost_function():
    def absolute(x, y):
        return (x[:, :, None] - y[:, None]).abs().sum(3)

    x, y = draw(6, 8)
    value = SoftDTW(gamma=0.5, normalize=True, bandwidth=3, dist_func=absolute)(x, y)
    expected = batch_plain(x, y, 0.5, 3, absolute)
    expected -= 0.5 * (batch_plain(x, x, 0.5, 3, absolute) + batch_plain(y, y, 0.5, 3, absolute))
    torch.testing.assert_close(value, expected)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("n", "m"), [(12, 12), (12, 9)])
def test_it_replaces_the_loss_of_tslearn(n, m, normalize):
    theirs = pytest.importorskip("tslearn.metrics").SoftDTWLossPyTorch(gamma=0.3, normalize=normalize)
    ours = SoftDTW(gamma=0.3, normalize=normalize)
    results = []
    for loss in (ours, theirs):
        x, y = (tensor.float().requires_grad_() for tensor in draw(n, m))
        value = loss(x, y)
        results.append((value.detach(), *torch.autograd.grad(value.mean(), (x, y))))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_band_without_a_path_is_refused_by_name():
    x, y = draw(4, 9)
    with pytest.raises(BandError, match="between 4 and 9 steps"):
        SoftDTW(bandwidth=4)(x, y)


def test_wrong_arguments_say_what_they_were():
    with pytest.raises(OptionError, match="Pass gamma by name"):
        SoftDTW(0.1)  # the first argument of tslearn's loss is gamma
    with pytest.raises(GammaError, match="got 0"):
        SoftDTW(gamma=0)
    with pytest.raises(BandError, match="got -1"):
        SoftDTW(bandwidth=-1)
    with pytest.raises(ShapeError, match=r"\(B, T, d\)"):
        SoftDTW()(torch.zeros(3, 4), torch.zeros(3, 4))
