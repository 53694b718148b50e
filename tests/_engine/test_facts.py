"""The mathematical facts that define the library, each as a test of its own name."""

import math

import numpy as np
import pytest
import torch

import udtw
from udtw._engine.prior import starts_and_ends
from udtw._kernels.reference import enumeration

BACKENDS = pytest.mark.parametrize("backend", ["numba", "portable"])


def sample(seed: int, count=4, rows=23, columns=17, dim=2):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(count, rows, dim, generator=rng, dtype=torch.float64)
    y = torch.randn(count, columns, dim, generator=rng, dtype=torch.float64)
    a = torch.rand(count, rows, generator=rng, dtype=torch.float64) + 0.5
    b = torch.rand(count, columns, generator=rng, dtype=torch.float64) + 0.5
    return x, y, a, b


def delannoy(n: int, m: int) -> int:
    """Number of monotone paths through an n × m grid."""
    return sum(math.comb(n - 1, k) * math.comb(m - 1, k) * 2**k for k in range(min(n, m)))


@BACKENDS
def test_path_aggregation_equals_coupling_aggregation(backend):
    found = udtw.align(*sample(0), gamma=0.3, backend=backend)
    assert torch.allclose(found.distance, (found.coupling * found.cost).sum((1, 2)), rtol=1e-11)
    assert torch.allclose(found.regularizer, (found.coupling * found.variance.log()).sum((1, 2)), rtol=1e-10)


@BACKENDS
def test_coupling_is_the_derivative_of_the_soft_min(backend):
    cost = sample(1)[0] @ sample(1)[1].transpose(1, 2)
    cost.requires_grad_()
    paths = udtw.PathDistribution(cost, 0.4, backend=backend)
    (slope,) = torch.autograd.grad(paths.soft_min.sum(), cost)
    assert torch.allclose(slope, paths.coupling, atol=1e-12)
    assert torch.allclose(paths.coupling[:, 0, 0], torch.ones(4, dtype=torch.float64))
    assert torch.allclose(paths.coupling[:, -1, -1], torch.ones(4, dtype=torch.float64))


@BACKENDS
def test_as_gamma_vanishes_the_distance_becomes_the_dtw_of_the_weighted_cost(backend):
    x, y, a, b = sample(2)
    found = udtw.align(x, y, a, b, gamma=1e-5, weighting="precision", backend=backend)
    assert torch.allclose(found.distance, udtw.dtw(x, y, var_x=a, var_y=b, weighting="precision"), rtol=1e-9)
    along = [v[p[:, 0], p[:, 1]].log().sum() for v, p in zip(found.variance, found.paths.mode(), strict=True)]
    assert torch.allclose(found.regularizer, torch.stack(along), rtol=1e-8)


@BACKENDS
def test_as_gamma_vanishes_the_free_energy_becomes_the_dtw_of_the_same_options(backend):
    x, y, a, b = sample(2)
    found = udtw.align(x, y, a, b, beta=0.3, warp_penalty=0.2, gamma=1e-6, backend=backend)
    least = udtw.dtw(x, y, var_x=a, var_y=b, beta=0.3, warp_penalty=0.2, backend=backend)
    assert torch.allclose(found.free_energy, least, atol=1e-4)


@BACKENDS
def test_unit_variance_gives_the_sharp_soft_dtw_and_no_regulariser(backend):
    x, y, a, b = sample(3)
    certain = udtw.align(x, y, torch.ones_like(a), torch.ones_like(b), gamma=0.7, backend=backend)
    plain = udtw.align(x, y, gamma=0.7, backend=backend)
    assert torch.allclose(certain.distance, plain.distance, rtol=1e-12)
    assert not certain.regularizer.any()
    sharp = udtw.soft_dtw(x, y, gamma=0.7) + 0.7 * plain.paths.entropy
    assert torch.allclose(plain.distance, sharp, rtol=1e-11)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (4, 1), (5, 7), (23, 17)])
def test_the_delannoy_bound(n, m):
    x, y, _, _ = sample(4, rows=n, columns=m)
    gamma = 2.0
    least = udtw.dtw(x, y)
    soft = udtw.soft_dtw(x, y, gamma=gamma)
    expected = udtw.align(x, y, gamma=gamma).distance
    tiny = 1e-12
    assert (least - gamma * math.log(delannoy(n, m)) <= soft + tiny).all()
    assert (soft <= least + tiny).all()
    assert (least <= expected + tiny).all()


@pytest.mark.parametrize(("n", "m"), [(1, 5), (3, 3), (6, 4)])
def test_the_number_of_paths_is_the_delannoy_number(n, m):
    assert len(enumeration.paths(n, m)) == delannoy(n, m)
    assert udtw.PathDistribution(np.zeros((n, m))).entropy == pytest.approx(math.log(delannoy(n, m)), rel=1e-12)


@BACKENDS
def test_scaling_cost_and_gamma_together(backend):
    cost = np.random.default_rng(0).random((3, 9, 8))
    one = udtw.PathDistribution(cost, 0.5, backend=backend)
    scaled = udtw.PathDistribution(37.5 * cost, 37.5 * 0.5, backend=backend)
    assert np.allclose(scaled.soft_min, 37.5 * one.soft_min, rtol=1e-12)
    assert np.allclose(scaled.coupling, one.coupling, rtol=1e-10)


@BACKENDS
def test_symmetry_and_reversal(backend):
    x, y, a, b = sample(5)
    forward = udtw.align(x, y, a, b, gamma=0.4, backend=backend)
    swapped = udtw.align(y, x, b, a, gamma=0.4, backend=backend)
    reversed_ = udtw.align(*(t.flip(1) for t in (x, y, a, b)), gamma=0.4, backend=backend)
    for other, turned in ((swapped, swapped.coupling.transpose(1, 2)), (reversed_, reversed_.coupling.flip(1, 2))):
        assert torch.allclose(forward.distance, other.distance, rtol=1e-11)
        assert torch.allclose(forward.regularizer, other.regularizer, rtol=1e-9, atol=1e-11)
        assert torch.allclose(forward.coupling, turned, atol=1e-11)


@BACKENDS
def test_padding_with_lengths_changes_nothing(backend):
    x, y, a, b = sample(6, count=1)
    plain = udtw.align(x, y, a, b, gamma=0.4, backend=backend)
    x, y = (torch.nn.functional.pad(t, (0, 0, 0, 6), value=torch.nan) for t in (x, y))
    a, b = (torch.nn.functional.pad(t, (0, 6), value=-1.0) for t in (a, b))
    leaves = [t.requires_grad_() for t in (x, y, a, b)]
    padded = udtw.align(*leaves, gamma=0.4, lengths_x=23, lengths_y=17, backend=backend)
    assert torch.allclose(padded.loss, plain.loss, rtol=1e-12)
    assert torch.allclose(padded.coupling[:, :23, :17], plain.coupling, atol=1e-13)
    for leaf, length in zip(leaves, (23, 17, 23, 17), strict=True):
        (grad,) = torch.autograd.grad(padded.loss.sum(), leaf, retain_graph=True)
        assert torch.isfinite(grad[:, :length]).all()
        assert not grad[:, length:].any()


@BACKENDS
def test_a_batch_equals_its_singles(backend):
    x, y, a, b = sample(7)
    whole = udtw.align(x, y, a, b, gamma=0.4, backend=backend).loss
    singles = [udtw.align(*parts, gamma=0.4, backend=backend).loss for parts in zip(x, y, a, b, strict=True)]
    assert torch.allclose(whole, torch.stack(singles), rtol=1e-13)


@BACKENDS
def test_the_full_band_is_no_band(backend):
    x, y, a, b = sample(8)
    free = udtw.align(x, y, a, b, backend=backend)
    for band in (1.0, 40, torch.ones(23, 17, dtype=torch.bool)):
        banded = udtw.align(x, y, a, b, band=band, backend=backend)
        assert torch.allclose(banded.loss, free.loss, rtol=1e-12)


def test_noise_raises_the_expected_cost_of_a_fixed_path_by_its_share():
    """Noise of variances γ_m², γ'_n² adds d·Σ (γ_m² + γ'_n²)/σ²_mn; Monte Carlo within four standard errors."""
    rng = np.random.default_rng(0)
    x, y, a, b = (t[0].numpy() for t in sample(9))
    found = udtw.align(x, y, a, b)
    path = found.paths.mode()
    i, j = path.T
    noise_x, noise_y = rng.uniform(0, 0.5, len(x)), rng.uniform(0, 0.5, len(y))
    draws = 4000
    shaken_x = x + noise_x[:, None] * rng.standard_normal((draws, *x.shape))
    shaken_y = y + noise_y[:, None] * rng.standard_normal((draws, *y.shape))
    variance = found.variance[i, j]
    totals = (((shaken_x[:, i] - shaken_y[:, j]) ** 2).sum(2) / variance).sum(1)
    predicted = found.cost[i, j].sum() + x.shape[1] * ((noise_x[i] ** 2 + noise_y[j] ** 2) / variance).sum()
    assert abs(totals.mean() - predicted) < 4 * totals.std() / math.sqrt(draws)


def test_gamma_gradient_is_the_covariance_over_gamma_squared():
    cost = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    field = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    gamma = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(udtw.PathDistribution(cost, gamma).expect(field), gamma)
    every = torch.ones(5, 4, dtype=torch.bool)
    first, last = starts_and_ends(None, torch.tensor([[5], [4]]), 5, 4)
    _, table, _, log_weight = enumeration.path_distribution(
        cost, gamma.detach(), torch.zeros(2, dtype=torch.float64), every, first[0], last[0]
    )
    p = torch.softmax(log_weight, 0)
    c, f = (table * cost).sum((1, 2)), (table * field).sum((1, 2))
    covariance = (p * c * f).sum() - (p * c).sum() * (p * f).sum()
    assert slope.item() == pytest.approx((covariance / 0.09).item(), rel=1e-10)
