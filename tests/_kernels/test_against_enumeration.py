"""Every backend, on every device, against the list of all paths: values, coupling, entropy and all gradients."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings

import udtw
from tests.problems import ENGINES, Case, Engine, cases
from tests.simulated_device import simulated_device

FLOAT64 = 1e-9
RELAXED = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


def assert_close(
    found: torch.Tensor, expected: torch.Tensor, tolerance: float, scale: float = 0.0, what: str = ""
) -> None:
    """Within ``tolerance`` of the largest expected value (or of ``scale``, or of one); ``what`` is compared."""
    found, expected = found.detach().cpu(), expected.detach().cpu()
    largest = max(1.0, scale, float(expected.abs().max()) if expected.numel() else 0.0)
    assert torch.isfinite(found).all()
    off = float((found - expected).abs().max()) if expected.numel() else 0.0
    assert off <= tolerance * largest, (what, off, largest)


QUANTITIES = {
    "loss": lambda a, field: a.loss,
    "free energy": lambda a, field: a.free_energy,
    "distance": lambda a, field: a.distance,
    "regularizer": lambda a, field: a.regularizer,
    "warps": lambda a, field: a.warps,
    "coupling": lambda a, field: (a.coupling * field).sum((-1, -2)),
    "expectation": lambda a, field: a.paths.expect(field),
}
PRICES = ("gamma", "beta", "warp_penalty", "stay_x", "stay_y", "gap_penalty", "gap_opening")


def compare(case: Case, engine: str | Engine) -> None:
    found, leaves = case.align(engine)
    expected, expected_leaves = case.align("enumeration")
    assert_close(found.coupling, expected.coupling, FLOAT64)
    assert_close(found.paths.starts, expected.paths.starts, FLOAT64)
    assert_close(found.paths.ends, expected.paths.ends, FLOAT64)
    gamma, cost, steps = sizes(case, found)
    # The entropy is a difference of two path sums in units of γ.
    assert_close(found.paths.entropy, expected.paths.entropy, FLOAT64, scale=steps * cost / gamma)
    compare_quantities(case, (found, leaves), (expected, expected_leaves), QUANTITIES)


def sizes(case: Case, found: udtw.Alignment) -> tuple[float, float, int]:
    """γ, the largest cost, and the most steps of a path."""
    prices = [abs(float(case.tensors.get(name, 0))) for name in PRICES[2:]]
    cost = max(float(found.paths._energy.detach().abs().max()), *prices)
    return float(case.tensors["gamma"]), cost, sum(found.paths._problem.shape[1:])


def compare_quantities(case: Case, mine, truth, quantities) -> None:
    """Values of the named quantities, and gradients in all leaves; ``mine`` and ``truth`` are alignment and leaves."""
    (found, leaves), (expected, expected_leaves) = mine, truth
    gamma, cost, steps = sizes(case, found)
    shape = found.paths._problem.shape
    field = torch.linspace(-1, 2, math.prod(shape), dtype=torch.float64).reshape(shape)
    of_mine = field.to(found.paths._problem.main.device)
    for name in quantities:
        of = QUANTITIES[name]
        mine, truth = of(found, of_mine), of(expected, field)
        assert_close(mine, truth, FLOAT64, what=name)
        if not truth.requires_grad:
            continue
        grads = torch.autograd.grad(mine.sum(), leaves.values(), retain_graph=True, allow_unused=True)
        oracle = torch.autograd.grad(truth.sum(), expected_leaves.values(), retain_graph=True, allow_unused=True)
        by_name = dict(zip(leaves, zip(grads, oracle, strict=True), strict=True))
        for leaf, (grad, known) in by_name.items():
            if known is not None and leaf not in PRICES:
                assert_close(grad, known, FLOAT64, what=f"{name} by {leaf}")
        # The derivatives in γ, β and ω are sums of terms of these sizes, of which ∂/∂γ = −Σ E·W/γ has the largest.
        largest = max((float(g.abs().max()) for g in oracle if g is not None and g.numel()), default=0.0)
        # The list of paths multiplies the rounding of what a path is worth by the path's cost over γ².
        worth = max(float(truth.detach().abs().max()), steps * float(field.max()))
        rounding = torch.finfo(torch.float64).eps * worth * steps * max(cost, 1) / min(gamma, gamma**2)
        for leaf in PRICES:
            if leaf in by_name and by_name[leaf][1] is not None:
                scale = max(cost / gamma * largest, rounding / FLOAT64)
                grad, known = by_name[leaf]
                assert_close(
                    torch.zeros_like(known) if grad is None else grad, known, FLOAT64, scale, f"{name} by {leaf}"
                )


def compare_matches(case: Case, engine: str | Engine) -> None:
    found, _ = case.align(engine)
    expected, _ = case.align("enumeration")
    for of in ("x", "y"):
        mine, truth = (a.matches(level=0.8371, of=of) for a in (found, expected))
        for name in ("probability", "expected", "matched"):
            one, other = (getattr(each, name).cpu() for each in (mine, truth))
            assert torch.equal(one.isnan(), other.isnan())
            assert_close(one.nan_to_num(), other.nan_to_num(), FLOAT64)
        for name in ("index", "low", "high"):
            assert torch.equal(getattr(mine, name).cpu(), getattr(truth, name))


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=150, **RELAXED)
@given(case=cases())
def test_matches_agree(engine, case):
    compare_matches(case, engine)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=400, **RELAXED)
@given(case=cases())
def test_float64_agrees_to_1e_9(engine, case):
    compare(case, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=20_000, **(RELAXED | {"derandomize": False}))
@given(case=cases())
def test_float64_agrees_to_1e_9_at_length(engine, case):
    compare(case, engine)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=200, **RELAXED)
@given(case=cases(weightings=("precision",)))
def test_soft_min_distance_agrees(engine, case):
    found, leaves = case.align(engine, distance="soft_min")
    expected, expected_leaves = case.align("enumeration", distance="soft_min")
    assert_close(found.distance, expected.distance, FLOAT64)
    grads = torch.autograd.grad(found.loss.sum(), leaves.values())
    oracle = torch.autograd.grad(expected.loss.sum(), expected_leaves.values())
    cost_scale = float(found.paths._energy.detach().abs().max()) / float(case.tensors["gamma"])
    for grad, truth in zip(grads, oracle, strict=True):
        assert_close(grad, truth, FLOAT64, scale=cost_scale)


WEIGHTS = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
LOSSES = {
    "usual": lambda a: a.loss.sum(),
    "weighted": lambda a: (a.loss * WEIGHTS[: len(a.loss)]).sum(),
    "nonlinear": lambda a: a.loss.square().sum(),
    "distance alone": lambda a: a.distance.sum(),
    "other weights": lambda a: (2 * a.distance - 3 * a.regularizer).sum(),
    "with the loss": lambda a: (a.loss + 2 * a.distance - 3 * a.regularizer).sum(),
}


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=100, **RELAXED)
@given(case=cases())
def test_gradients_prepared_in_the_forward_sweep_agree(loss, case):
    """With fixed prices and no λ the gradient of the loss is computed ahead; any other loss must not notice."""
    options = {"fixed": PRICES[:3], "lam": 0.0}
    found, leaves = case.align("numba", **options)
    expected, expected_leaves = case.align("enumeration", **options)
    for name in ("distance", "regularizer", "loss"):
        assert_close(getattr(found, name), getattr(expected, name), FLOAT64)
    grads = torch.autograd.grad(LOSSES[loss](found), leaves.values())
    oracle = torch.autograd.grad(LOSSES[loss](expected), expected_leaves.values())
    for grad, truth in zip(grads, oracle, strict=True):
        assert_close(grad, truth, FLOAT64)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=200, **RELAXED)
@given(case=cases())
def test_least_path_and_transitions_agree(engine, case):
    found, _ = case.align(engine)
    expected, _ = case.align("enumeration")
    mine, truth = found.paths.mode(), expected.paths.mode()
    for b, (path, best) in enumerate(zip(mine, truth, strict=True)):
        total, least = (-float(expected.paths._log_prob(b, p).detach()) for p in (path, best))
        assert total == pytest.approx(least, rel=1e-9, abs=1e-9)
    assert_close(found.paths.log_prob(mine), expected.paths.log_prob(truth), FLOAT64)
    drawn = found.paths.sample(2, generator=0)
    log_prob = found.paths.log_prob(drawn)
    assert torch.isfinite(log_prob).all()
    assert torch.allclose(log_prob.cpu(), expected.paths.log_prob(drawn), rtol=1e-9, atol=1e-7)


@settings(max_examples=12, **RELAXED)
@given(case=cases(max_side=4))
def test_plain_torch_makes_every_tensor_on_the_device_of_its_data(case):
    with simulated_device() as name:
        compare(case, Engine("portable", name))
        compare_matches(case, Engine("portable", name))
