"""What float32 keeps in the kernels, with and without errors in the last bits, and pairs of several real tiles."""

import pytest
import torch

import udtw
from tests._kernels.gpu.interpreter import noisy, quicken, tiling, watched
from tests._kernels.test_float32 import FLOOR, walks

quicken()
LENGTH = 32


def run(backend: str, dtype: torch.dtype, length: int = LENGTH, **options):
    """Value and gradients of the loss of a pair of walks with variances."""
    x, y = walks(0, 1, length), walks(1, 1, length)
    noise = torch.rand(2, 1, length, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.5
    leaves = [t.float().to(dtype).requires_grad_() for t in (x, y, *noise)]
    a = udtw.align(*leaves, backend=backend, **options)
    return a.loss.detach(), torch.autograd.grad(a.loss.sum(), leaves)


def assert_float32(found, truth, floor: float, of_value: float = 6e-7) -> None:
    (value, grads), (true_value, true_grads) = found, truth
    assert float((value - true_value).abs().max()) <= of_value * float(true_value.abs().max())
    for grad, known in zip(grads, true_grads, strict=True):
        assert float((grad - known).abs().max() / known.abs().max()) <= floor


@pytest.mark.parametrize("gamma", FLOOR)
@pytest.mark.parametrize("weighting", ["precision", "likelihood"])
def test_float32_stays_within_its_bounds(gamma, weighting):
    options = {"gamma": gamma, "weighting": weighting}
    truth = run("portable", torch.float64, **options)
    assert_float32(run("triton", torch.float32, **options), truth, FLOOR[gamma])


@pytest.mark.parametrize("gamma", [1.0, 0.01])
@pytest.mark.parametrize("weighting", ["precision", "likelihood"])
def test_errors_in_the_last_bits_stay_there(gamma, weighting):
    """exp2, logarithms and division of a GPU are wrong by up to two units in the last place."""
    options = {"gamma": gamma, "weighting": weighting}
    truth = run("portable", torch.float64, **options)
    with noisy(2):
        assert_float32(run("triton", torch.float32, **options), truth, FLOOR[gamma], 2e-6)


@pytest.mark.parametrize("weighting", ["precision", "likelihood"])
def test_several_tiles_of_a_warp(weighting):
    """Lanes of a warp and tiles of 32 × 32, in poisoned memory."""
    options = {"gamma": 0.1, "weighting": weighting, "warp_penalty": 0.1 if weighting == "likelihood" else 0.0}
    truth = run("portable", torch.float64, 60, **options)
    with tiling(1, 32, 32):
        assert_float32(run("triton", torch.float32, 60, **options), truth, FLOOR[0.1], 1e-6)


def test_launches_are_counted():
    with tiling(1, 8, 8), watched() as log:
        run("triton", torch.float32, 8)
    assert log.launches == 2
    with tiling(1, 2, 2), watched() as log:
        run("triton", torch.float32, 6)
    assert log.launches == 5 + 2 * 5  # five diagonals of tiles: once forward, and again with the gradient


@pytest.mark.parametrize("gamma", [1e4, 1e-4])
def test_extreme_temperatures_in_float64(gamma):
    truth = run("portable", torch.float64, 8, gamma=gamma, weighting="precision")
    with tiling(2, 4, 5):
        found = run("triton", torch.float64, 8, gamma=gamma, weighting="precision")
    assert_float32(found, truth, 1e-9, 1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    x, y = walks(0, 1, 6).to(dtype), walks(1, 1, 5).to(dtype)
    found, truth = (udtw.align(x, y, backend=backend).loss for backend in ("triton", "portable"))
    assert found.dtype == torch.float32
    assert torch.allclose(found, truth, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_field_may_be_huge_where_hardly_any_path_goes(seed):
    """The mean of a cell is taken about its likeliest predecessor, about whichever of the three that is."""
    generator = torch.Generator().manual_seed(seed)
    cost = torch.rand(4, 6, 6, generator=generator, dtype=torch.float64)
    found, truth = (udtw.PathDistribution(cost, gamma=0.004, backend=one) for one in ("triton", "enumeration"))
    field = torch.where(truth.coupling < 1e-24, 1e12, torch.rand(cost.shape, generator=generator, dtype=torch.float64))
    assert (field > 1).any((1, 2)).all()
    torch.testing.assert_close(found.expect(field), truth.expect(field), rtol=1e-9, atol=1e-9)
