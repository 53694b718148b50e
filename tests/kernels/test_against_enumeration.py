"""Every backend against the list of all paths: values, coupling, entropy and all gradients."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from tests.problems import Case, cases

BACKENDS = ["numba", "portable"]
FLOAT64 = 1e-9
RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


def assert_close(found: torch.Tensor, expected: torch.Tensor, tolerance: float, scale: float = 0.0) -> None:
    """Within ``tolerance`` of the largest expected value (or of ``scale``, or of one)."""
    found, expected = found.detach(), expected.detach()
    largest = max(1.0, scale, float(expected.abs().max()) if expected.numel() else 0.0)
    assert torch.isfinite(found).all()
    assert float((found - expected).abs().max()) <= tolerance * largest


def compare(case: Case, backend: str) -> None:
    found, leaves = case.align(backend)
    expected, expected_leaves = case.align("enumeration")
    assert_close(found.distance, expected.distance, FLOAT64)
    assert_close(found.regularizer, expected.regularizer, FLOAT64)
    assert_close(found.loss, expected.loss, FLOAT64)
    assert_close(found.coupling, expected.coupling, FLOAT64)
    assert_close(found.paths.soft_min, expected.paths.soft_min, FLOAT64)
    # The entropy is a difference of two path sums in units of γ.
    in_gammas = float((expected.distance.detach().abs() / case.tensors["gamma"]).max())
    assert_close(found.paths.entropy, expected.paths.entropy, FLOAT64, scale=in_gammas)

    field = torch.linspace(-1, 2, found.cost.numel(), dtype=torch.float64).reshape(found.cost.shape)
    for quantity in (
        lambda a: a.loss.sum(),
        lambda a: (a.coupling * field).sum(),
        lambda a: a.paths.expect(field).sum(),
    ):
        names = [name for name in leaves if name != "gamma"]
        grads = torch.autograd.grad(quantity(found), leaves.values(), retain_graph=True, allow_unused=True)
        oracle = torch.autograd.grad(quantity(expected), expected_leaves.values(), retain_graph=True, allow_unused=True)
        by_name = dict(zip(leaves, zip(grads, oracle, strict=True), strict=True))
        for name in names:
            if by_name[name][1] is not None:
                assert_close(*by_name[name], FLOAT64)
        # ∂/∂γ = −Σ C·W/γ is a sum of terms of this size.
        gamma, cost = float(case.tensors["gamma"]), float(found.cost.detach().abs().max())
        largest = max(float(g.abs().max()) for g in oracle if g is not None and g.numel())
        # The list of paths multiplies the rounding of what a path is worth by the path's cost over γ².
        steps = sum(found.cost.shape[1:])
        worth = max(abs(quantity(expected).item()), steps * float(field.max()))
        rounding = torch.finfo(torch.float64).eps * worth * steps * cost / gamma**2
        assert_close(*by_name["gamma"], FLOAT64, scale=max(cost / gamma * largest, rounding / FLOAT64))


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=400, **RELAXED)
@given(case=cases())
def test_float64_agrees_to_1e_9(backend, case):
    compare(case, backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=20_000, **(RELAXED | {"derandomize": False}))
@given(case=cases())
def test_float64_agrees_to_1e_9_at_length(backend, case):
    compare(case, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=200, **RELAXED)
@given(case=cases())
def test_soft_min_distance_agrees(backend, case):
    found, leaves = case.align(backend, distance="soft_min")
    expected, expected_leaves = case.align("enumeration", distance="soft_min")
    assert_close(found.distance, expected.distance, FLOAT64)
    grads = torch.autograd.grad(found.loss.sum(), leaves.values())
    oracle = torch.autograd.grad(expected.loss.sum(), expected_leaves.values())
    cost_scale = float(found.cost.detach().abs().max()) / float(case.tensors["gamma"])
    for grad, truth in zip(grads, oracle, strict=True):
        assert_close(grad, truth, FLOAT64, scale=cost_scale)


WEIGHTS = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
LOSSES = {
    "usual": lambda a: a.loss.sum(),
    "weighted": lambda a: (a.loss * WEIGHTS[: len(a.loss)]).sum(),
    "nonlinear": lambda a: a.loss.square().sum(),
    "distance alone": lambda a: a.distance.sum(),
    "other weights": lambda a: (2 * a.distance - 3 * a.regularizer).sum(),
}


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=100, **RELAXED)
@given(case=cases())
def test_gradients_prepared_in_the_forward_sweep_agree(loss, case):
    """With a fixed gamma and no lam, the gradient of d² + βΩ is computed ahead; any other loss must not notice."""
    options = {"fixed_gamma": True, "lam": 0.0}
    found, leaves = case.align("numba", **options)
    expected, expected_leaves = case.align("enumeration", **options)
    for name in ("distance", "regularizer", "loss"):
        assert_close(getattr(found, name), getattr(expected, name), FLOAT64)
    grads = torch.autograd.grad(LOSSES[loss](found), leaves.values())
    oracle = torch.autograd.grad(LOSSES[loss](expected), expected_leaves.values())
    for grad, truth in zip(grads, oracle, strict=True):
        assert_close(grad, truth, FLOAT64)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=200, **RELAXED)
@given(case=cases())
def test_least_path_and_transitions_agree(backend, case):
    found, _ = case.align(backend)
    expected, _ = case.align("enumeration")
    mine, truth = found.paths.mode(), expected.paths.mode()
    for b, (path, best) in enumerate(zip(mine, truth, strict=True)):
        total, least = (found.cost[b, p[:, 0], p[:, 1]].sum().item() for p in (path, best))
        assert total == pytest.approx(least, rel=1e-12, abs=1e-12)
    assert torch.allclose(found.paths.log_prob(mine), expected.paths.log_prob(truth), rtol=1e-9, atol=1e-9)
    drawn = found.paths.sample(2, generator=0)
    log_prob = found.paths.log_prob(drawn)
    assert torch.isfinite(log_prob).all()
    assert torch.allclose(log_prob, expected.paths.log_prob(drawn), rtol=1e-9, atol=1e-7)
