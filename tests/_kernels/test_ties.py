"""Tie points: every backend against all paths of the same pair without ties, reweighted by hand."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import udtw
from tests._kernels.test_against_enumeration import FLOAT64, RELAXED, assert_close
from tests.problems import ENGINES, Case, Engine, cases
from udtw._engine.prior import admissible, starts_and_ends
from udtw._kernels.reference.enumerated_gaps import sets_of_matches
from udtw._kernels.reference.enumeration import _all_paths
from udtw.errors import BandError, OptionError

KERNELS = [engine for engine in ENGINES if "triton" not in str(engine)]
Ties = list[tuple[int, int, float | None]]


def all_paths(a: udtw.Alignment, b: int) -> list[list[tuple[int, int]]]:
    """The cells of every path of pair b that has a probability."""
    problem = a.paths._problem
    n, m = problem.lengths[:, b].tolist()
    inside = admissible(problem.prior.band, problem.lengths, *problem.shape[1:])[b]
    if problem.prior.gaps:
        every = [list(cells) for cells in sets_of_matches(n, m)]
    else:
        starts, ends = (one[b] & inside for one in starts_and_ends(problem.prior.relax, problem.lengths, *inside.shape))
        every = [list(path) for path in _all_paths(starts, ends)]
    return [path for path in every if all(inside[cell] for cell in path)]


def nats(path: list[tuple[int, int]], ties: Ties) -> float:
    total = 0.0
    for i, j, sd in ties:
        partners = [n for m, n in path if m == i]
        if sd:
            total += sum(0.5 * ((n - j) / sd) ** 2 for n in partners)
        elif partners != [j]:
            return np.inf
    return total


def reweighted(a: udtw.Alignment, ties: Ties) -> tuple[Tensor, Tensor] | None:
    """Free energies (B,) and couplings (B, N, M) with ties, from those without; None if some pair has no path left."""
    values, couplings = [], []
    problem = a.paths._problem
    for b in range(problem.shape[0]):
        n, m = problem.lengths[:, b].tolist()
        paths = all_paths(a, b)
        prices = torch.tensor([nats(path, ties) for path in paths], dtype=torch.float64)
        kept = [path for path, price in zip(paths, prices.tolist(), strict=True) if np.isfinite(price)]
        if not kept:
            return None
        nothing = [[i, -1] for i in range(n)] + [[-1, j] for j in range(m)]
        listed = [torch.tensor(path if path else nothing) for path in kept]
        logs = torch.stack([a.paths._log_prob(b, path) for path in listed]) - prices[prices.isfinite()]
        total = torch.logsumexp(logs, 0)
        values.append(a.paths._free_energy[b] - problem.gamma[b] * total)
        table = torch.zeros(len(kept), *problem.shape[1:], dtype=torch.float64)
        for one, path in zip(table, kept, strict=True):
            for cell in path:
                one[cell] = 1
        couplings.append(torch.einsum("p,pnm->nm", torch.exp(logs - total), table))
    return torch.stack(values), torch.stack(couplings)


@st.composite
def tied_cases(draw, gaps: bool) -> tuple[Case, Ties]:
    """A case and ties that do not cross; whether there is a path that keeps them is found out by the test."""
    weightings = ("likelihood",) if gaps else ("precision", "likelihood")
    case = draw(cases(max_side=4, weightings=weightings))
    if gaps:
        prices = [torch.tensor(draw(st.floats(0.05, 2)), dtype=torch.float64) for _ in range(2)]
        case = Case(case.tensors | dict(zip(("gap_penalty", "gap_opening"), prices, strict=True)), case.options)
    main = case.tensors.get("cost", case.tensors.get("x"))
    rows, columns = main.shape[1], main.shape[2] if "cost" in case.tensors else case.tensors["y"].shape[1]
    n, m = (
        int(case.options[f"lengths_{side}"].min()) if f"lengths_{side}" in case.options else size
        for side, size in (("x", rows), ("y", columns))
    )
    deviation = st.sampled_from([None, 0, 0.4, 1.0, 3.0])
    drawn = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, m - 1), deviation), min_size=1, max_size=3))
    ties: Ties = []
    for tie in sorted(drawn, key=lambda one: one[:2]):
        if not ties or (tie[0] > ties[-1][0] and tie[1] >= ties[-1][1]):
            ties.append(tie)
    return case, ties


def compare_tied(case: Case, ties: Ties, engine: Engine) -> None:
    plain, leaves = case.align("enumeration")
    expected = reweighted(plain, ties)
    problem = plain.paths._problem
    inside = admissible(problem.prior.band, problem.lengths, *problem.shape[1:])
    if expected is None or not all(bool(inside[:, i, j].all()) for i, j, _ in ties):
        with pytest.raises(BandError) as caught:
            case.align(engine, anchors=ties)
        assert caught.value.parameter == "anchors"
        return
    found, own = case.align(engine, anchors=ties)
    free, coupling = expected
    spread = float(plain.paths._energy.detach().abs().max()) / float(case.tensors["gamma"])
    tolerance = FLOAT64 * max(1.0, 1e-3 * spread)
    assert_close(found.coupling, coupling, tolerance)
    assert_close(found.free_energy, free, tolerance, what="free energy")
    field = torch.linspace(-1, 2, coupling.numel(), dtype=torch.float64).reshape(coupling.shape)
    pairs = [(found.free_energy, free, "free energy"), (found.coupling * field, coupling * field, "coupling")]
    cost = torch.where(coupling.detach() > 0, plain.paths._problem.weighted_cost(), 0)
    pairs.append((found.paths._mean(0), (coupling * cost).sum((1, 2)), "E[C]"))
    if case.options["weighting"] == "likelihood":
        pairs.append((found.loss, free, "loss"))
    for mine, truth, what in pairs:
        grads = torch.autograd.grad(mine.sum(), own.values(), retain_graph=True, allow_unused=True)
        oracle = torch.autograd.grad(truth.sum(), leaves.values(), retain_graph=True, allow_unused=True)
        for name, grad, known in zip(leaves, grads, oracle, strict=True):
            # Differences of energies over γ² lose what their rounding is in units of γ².
            if known is not None and not (name == "gamma" and spread > 100):
                scale = float(known.abs().max()) * max(1.0, spread)
                mine_by = torch.zeros_like(known) if grad is None else grad
                assert_close(mine_by, known, 10 * FLOAT64, scale, what=f"{what} by {name}")
    best = found.paths.mode()
    assert torch.isfinite(found.paths.log_prob(best)).all()
    probable = [torch.stack([found.paths._log_prob(b, path) for path in drawn]) for b, drawn in
                enumerate(found.paths.sample(2, generator=0))]  # fmt: skip
    assert all(torch.isfinite(one).all() for one in probable)


@pytest.mark.parametrize("engine", KERNELS)
@settings(max_examples=30, **RELAXED)
@given(drawn=tied_cases(gaps=False) | tied_cases(gaps=True))
def test_ties_reweight_all_paths(engine, drawn):
    case, ties = drawn
    engine = engine._replace(backend="auto") if engine.backend == "numba" else engine  # relaxed gaps are not Numba's
    compare_tied(case, ties, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", KERNELS)
@settings(max_examples=2_000, **(RELAXED | {"derandomize": False}))
@given(drawn=tied_cases(gaps=False) | tied_cases(gaps=True))
def test_ties_reweight_all_paths_at_length(engine, drawn):
    case, ties = drawn
    engine = engine._replace(backend="auto") if engine.backend == "numba" else engine
    compare_tied(case, ties, engine)


def series() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).standard_normal((2, 12, 2))


@pytest.mark.parametrize("options", [{}, {"gap_penalty": 0.2}, {"relax": "both"}, {"gamma": 0.01}, {"band": 6}])
def test_a_hard_tie_is_certain_and_a_path_without_it_impossible(options):
    x, y = series()
    a = udtw.align(x, y, **options, anchors=[(3, 6, None), (8, 9, 0)])
    found = a.matches()
    assert found.index[[3, 8]].tolist() == found.low[[3, 8]].tolist() == found.high[[3, 8]].tolist() == [6, 9]
    assert np.allclose(a.coupling[[3, 8], [6, 9]], 1, rtol=0, atol=1e-12)
    assert a.matches(of="y").matched[6] == pytest.approx(1)
    other = udtw.align(x, y, **options).paths.mode()
    assert all(np.isfinite(a.paths.log_prob(path)) for path in (a.paths.mode(), *a.paths.sample(5, generator=0)))
    if [3, 6] not in other.tolist() and "relax" not in options:
        assert a.paths.log_prob(other) == -np.inf


def test_a_soft_tie_has_its_standard_deviation_at_every_temperature():
    flat = np.zeros(200)
    wide = udtw.align(flat, flat).matches()
    for gamma in (0.1, 10.0):
        a = udtw.align(flat, flat, gamma=gamma, warp_penalty=gamma * 40.0, relax="both", anchors=[(90, 110, 3.0)])
        assert a.matches(level=0.9).expected[90] == pytest.approx(110, abs=0.5)
        assert a.matches(level=0.9).low[90] == pytest.approx(110 - 1.645 * 3, abs=1)
    assert wide.high[90] - wide.low[90] > 20


def test_debiased_values_have_no_ties_in_the_comparison_of_a_series_with_itself():
    x, y = series()
    a = udtw.align(x, y, anchors=[(3, 6, 1.0)], debias=True)
    selves = [udtw.align(one, one).free_energy for one in (x, y)]
    assert a.loss == pytest.approx(a.free_energy - 0.5 * sum(selves))


def test_pairs_of_a_batch_may_have_ties_of_their_own():
    x, y = (np.stack([one, one]) for one in series())
    own = udtw.align(x, y, anchors=[[(3, 6, 1.0)], []])
    assert own.loss[0] == pytest.approx(udtw.align(x[0], y[0], anchors=np.array([[3, 6, 1.0]])).loss)
    assert own.loss[1] == pytest.approx(udtw.align(x[0], y[0]).loss)
    every = udtw.PathDistribution(np.zeros((2, 5, 5)), anchors=torch.tensor([[1.0, 3.0]]))
    assert every.coupling[:, 1, 3] == pytest.approx([1, 1])


def test_least_paths_follow_ties():
    x, y = series()
    path = udtw.align(x, y, anchors=[(3, 7, 0)]).paths.mode()
    assert [3, 7] in path.tolist()
    steps = [tuple(after - before) for before, after in pairwise(path)]
    assert set(steps) <= {(1, 1), (1, 0), (0, 1)}
    free, tied = udtw.dtw(x, y), udtw.dtw(x, y, anchors=[(3, 7, 0)])
    assert tied == pytest.approx(float(((x[path[:, 0]] - y[path[:, 1]]) ** 2).sum()))
    assert tied > free


@pytest.mark.parametrize(
    ("anchors", "options", "error", "message"),
    [
        ([(1, 3, 1.0), (2, 2, 1.0)], {}, OptionError, "cross"),
        ([(1, 3, None), (1, 4, None)], {}, OptionError, "two partners"),
        ([(12, 3, 1.0)], {}, OptionError, "outside the series"),
        ([(1, -1, 1.0)], {}, OptionError, "outside the series"),
        ([(5, 5, 1.0)], {"lengths_x": 5}, OptionError, "outside the series"),
        ([(1, 3, float("nan"))], {}, OptionError, "finite"),
        ([(1, 3, -1.0)], {}, OptionError, "not negative"),
        ([(1.5, 3, 1.0)], {}, OptionError, "whole"),
        ([(1, 3, "a")], {}, OptionError, "not a number"),
        ([(1,)], {}, OptionError, "not a tie"),
        ([[(1, 3, 1.0)], [], []], {}, OptionError, "3 pairs"),
        ([(1, 9, 1.0)], {"band": 2}, BandError, "outside the band"),
        ([(1, 3, None), (2, 6, None)], {}, BandError, "leave no path"),
        ([(0, 3, None)], {}, BandError, "leave no path"),
        ([(1, 3, 1.0)], {"order": "set"}, OptionError, "anchors"),
        ([(1, 3, 1.0)], {"nan_policy": "omit"}, OptionError, "omit"),
    ],
)
def test_unusable_ties_are_named(anchors, options, error, message):
    x, y = series()
    with pytest.raises(error, match=message) as caught:
        udtw.align(x, y, anchors=anchors, **options)
    assert caught.value.parameter == "anchors" or "order" in options
