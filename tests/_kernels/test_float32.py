"""What float32 keeps: errors against float64 stay within the floor that the recurrences allow."""

import pytest
import torch

import udtw

FLOOR = {10.0: 1e-5, 1.0: 3e-5, 0.1: 2e-4, 0.01: 7e-4, 0.001: 2e-3}


def walks(seed: int, count: int, length: int) -> torch.Tensor:
    """z-normalised random walks (B, N, 1)."""
    steps = torch.randn(count, length, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).cumsum(1)
    return (steps - steps.mean(1, keepdim=True)) / steps.std(1, keepdim=True)


@pytest.mark.parametrize("gamma", FLOOR)
@pytest.mark.parametrize("backend", ["numba", "portable"])
@pytest.mark.parametrize("uncertain", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"weighting": "precision"},
        {"warp_penalty": 0.3},
        {"relax": "both"},
        {"relax": (10, 0, 90, 7), "warp_penalty": 1},
    ],
)
def test_distance_and_gradient_errors(gamma, backend, uncertain, options):
    if backend == "portable" and options != {"weighting": "precision"}:
        pytest.skip("it computes in float64 whatever the energy")
    x, y = walks(0, 16, 128).float(), walks(1, 16, 128).float()
    noise = torch.rand(2, 16, 128, generator=torch.Generator().manual_seed(2)) + 0.5

    def run(dtype, backend):
        leaves = [t.to(dtype).requires_grad_() for t in (x, y, *(noise if uncertain else ()))]
        a = udtw.align(*leaves, gamma=gamma, backend=backend, **options)
        value = a.distance if options == {"weighting": "precision"} else a.free_energy
        return value.detach(), torch.autograd.grad(a.loss.sum(), leaves)

    value, grads = run(torch.float32, backend)
    true_value, true_grads = run(torch.float64, "numba" if backend == "portable" else "portable")
    assert float((value - true_value).abs().max()) < 6e-7 * float(true_value.abs().max())
    for grad, truth in zip(grads, true_grads, strict=True):
        for pair in range(16):
            assert float((grad[pair] - truth[pair]).abs().max() / truth[pair].abs().max()) < FLOOR[gamma]


def test_coupling_is_a_probability_to_the_last_place():
    cost = torch.rand(8, 200, 150, generator=torch.Generator().manual_seed(0)) * 50
    coupling = udtw.PathDistribution(cost, gamma=0.01).coupling
    assert float(coupling.min()) >= 0
    assert float(coupling.max()) <= 1
    assert torch.allclose(coupling[:, 0, 0], torch.ones(8), atol=1e-5)
    assert torch.equal(coupling[:, -1, -1], torch.ones(8))


@pytest.mark.parametrize("gamma", [10.0, 1.0, 0.1, 0.01])
def test_the_entropy_in_the_gradient_of_gamma_does_not_cancel(gamma):
    x, y = walks(0, 16, 128), walks(1, 16, 128)
    noise = torch.rand(2, 16, 128, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.5

    def by_gamma(dtype):
        temperature = torch.full((16,), gamma, dtype=dtype, requires_grad=True)
        a = udtw.align(*(t.to(dtype) for t in (x, y, *noise)), gamma=temperature, warp_penalty=0.3)
        grad = torch.autograd.grad(a.loss.sum(), temperature)[0]
        assert torch.allclose(grad, -a.paths.entropy.detach().to(dtype), rtol=FLOOR[gamma], atol=1e-5)
        return grad

    assert torch.allclose(by_gamma(torch.float32).double(), by_gamma(torch.float64), rtol=FLOOR[gamma])
