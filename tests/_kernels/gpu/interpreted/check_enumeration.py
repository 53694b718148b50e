"""Every kind of problem of `tests._kernels.test_backends` in small tiles, against the list of all paths."""

import pytest
import torch

import udtw
from tests._kernels.gpu.interpreter import quicken, tiling, watched
from tests._kernels.test_against_enumeration import FLOAT64, PRICES, QUANTITIES, assert_close, compare_quantities
from tests._kernels.test_backends import PROBLEMS, USUAL
from tests.problems import Case, make_case

quicken()
TILES = {"one tile": (2, 4, 8), "several": (1, 2, 2), "strips": (2, 1, 8)}
CUT = dict(zip(PROBLEMS, [*TILES] * len(PROBLEMS), strict=False))
"""Each problem in one way of cutting; all ways occur for all kinds."""


def problem(name: str) -> Case:
    return make_case(seed=sum(map(ord, name)), **(USUAL | PROBLEMS[name] | {"count": 2}))


@pytest.mark.parametrize(("number", "name"), list(enumerate(PROBLEMS)))
def test_quantities_and_gradients_in_everything(number, name):
    """Two of the quantities for each kind of problem, so that all occur in all ways of cutting."""
    case, names = problem(name), list(QUANTITIES)
    with tiling(*TILES[CUT[name]]):
        found, expected = case.align("triton"), case.align("enumeration")
        compare_quantities(case, found, expected, [names[number % 7], names[(number + 3) % 7]])


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("tiles", ["one tile", "several"])
def test_the_usual_loss_with_fixed_prices(name, tiles):
    """Where the energies of sequences are made by the kernels, and shares are kept for the gradient."""
    case, fixed = problem(name), {"fixed": ("gamma",), "lam": 0.0}
    with tiling(*TILES[tiles]), watched() as log:
        found, leaves = case.align("triton", **fixed)
        expected, true_leaves = case.align("enumeration", **fixed)
        assert_close(found.loss, expected.loss, FLOAT64)
        grads = torch.autograd.grad(found.loss.sum(), leaves.values(), retain_graph=True)
        for leaf, grad, known in zip(
            leaves, grads, torch.autograd.grad(expected.loss.sum(), true_leaves.values()), strict=True
        ):
            assert_close(grad, known, FLOAT64, what=leaf)
    assert log.launches >= 2


@pytest.mark.parametrize("name", ["usual", "usual, masked", "cost with variances", "precision, warped, relaxed"])
def test_any_combination_of_the_terms(name):
    case, fixed = problem(name), {"fixed": PRICES, "lam": 0.0}
    results = []
    with tiling(*TILES["one tile"]):
        for backend in ("triton", "enumeration"):
            a, leaves = case.align(backend, **fixed)
            total = (a.loss + 2 * a.distance - 3 * a.regularizer).sum()
            results.append((total, *torch.autograd.grad(total, leaves.values())))
    for found, known in zip(*results, strict=True):
        assert_close(found, known, FLOAT64)


HARD = ["usual, ragged", "usual, masked", "cost", "likelihood, relaxed", "precision, warped, relaxed"]


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("tiles", ["one tile", "several"])
def test_least_paths_samples_and_matches(name, tiles):
    case = problem(name)
    with tiling(*TILES[tiles]), watched():
        found, expected = case.align("triton")[0], case.align("enumeration")[0]
        assert all(torch.equal(a, b) for a, b in zip(found.paths.mode(), expected.paths.mode(), strict=True))
        drawn = found.paths.sample(2, generator=0)
        assert_close(found.paths.log_prob(drawn), expected.paths.log_prob(drawn), 1e-7)
        mine, truth = found.matches(level=0.8371), expected.matches(level=0.8371)
        assert_close(mine.expected.nan_to_num(), truth.expected.nan_to_num(), FLOAT64)
        assert torch.equal(mine.low, truth.low)


@pytest.mark.parametrize("name", HARD)
def test_dtw_and_its_gradient(name):
    case, both = problem(name), []
    options = {k: v for k, v in case.options.items() if k not in ("beta", "lam")}
    for backend in ("triton", "portable"):
        leaves = {k: v.clone().requires_grad_() for k, v in case.tensors.items() if k != "gamma"}
        arguments = {"x": None, "y": None, **leaves, **options}
        with tiling(*TILES["several"]):
            value = udtw.dtw(**arguments, backend=backend)
            with torch.no_grad():
                assert torch.allclose(udtw.dtw(**arguments, backend=backend), value)
        weights = torch.arange(1, 1 + len(value))
        both.append([value, *torch.autograd.grad((value * weights).sum(), leaves.values(), allow_unused=True)])
    for found, known in zip(*both, strict=True):
        assert (found is None) == (known is None)
        if known is not None:
            assert_close(found, known, FLOAT64)
