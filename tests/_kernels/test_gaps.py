"""Gaps and prices per operation: every backend against the list of all sets of matches."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import udtw
from tests._kernels.test_against_enumeration import (
    FLOAT64,
    QUANTITIES,
    RELAXED,
    assert_close,
    compare,
    compare_matches,
    sizes,
)
from tests.problems import ENGINES, Case, Engine, cases, make_case
from udtw._kernels.reference.enumerated_gaps import follows, sets_of_matches
from udtw.errors import BackendError, NonFiniteError, OptionError

WARPS = ("stay_x", "stay_y")


@dataclass(frozen=True)
class PricedCase(Case):
    """A case whose prices for staying in x and in y are tensors of their own."""

    def align(
        self, engine: str | Engine, dtype: torch.dtype = torch.float64, *, fixed: tuple[str, ...] = (), **more
    ) -> tuple[udtw.Alignment, dict[str, Tensor]]:
        backend, device = Engine(engine) if isinstance(engine, str) else engine
        leaves = {name: t.to(device, dtype).clone().requires_grad_() for name, t in self.tensors.items()}
        arguments = {"x": None, "y": None, **leaves, **self.options, **more}
        arguments["warp_penalty"] = tuple(arguments.pop(name) for name in WARPS)
        return udtw.align(**arguments, backend=backend), leaves


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def priced(case: Case, stay_x: float, stay_y: float, gaps: tuple[float, float] | None) -> PricedCase:
    tensors = {name: t for name, t in case.tensors.items() if name != "warp_penalty"}
    tensors |= {"stay_x": number(stay_x), "stay_y": number(stay_y)}
    if gaps is not None:
        tensors |= {"gap_penalty": number(gaps[0]), "gap_opening": number(gaps[1])}
    return PricedCase(tensors, case.options)


price = st.floats(0.05, 2)
gap_cases = st.builds(
    priced,
    cases(max_side=4, weightings=("likelihood",)),
    st.floats(-0.5, 1),
    st.floats(-0.5, 1),
    st.tuples(price, price),
)
warp_cases = st.builds(priced, cases(max_side=5), st.floats(-0.5, 1), st.floats(-0.5, 1), st.none())


def answers(case: Case, engine: Engine) -> bool:
    """Whether the backend takes the case; if it does not, it must say so by name."""
    if engine.backend == "portable" or case.options["relax"] is None:
        return True
    with pytest.raises(BackendError, match="relaxed"):
        case.align(engine)
    return False


KERNELS = [engine for engine in ENGINES if "triton" not in str(engine)]


@pytest.mark.parametrize("engine", KERNELS)
@settings(max_examples=30, **RELAXED)
@given(case=gap_cases)
def test_gaps_agree_to_1e_9(engine, case):
    if answers(case, engine):
        compare(case, engine)
        compare_matches(case, engine)


@pytest.mark.parametrize("engine", KERNELS)
@settings(max_examples=20, **RELAXED)
@given(case=gap_cases)
def test_values_agree_where_no_gradient_is_wanted(engine, case):
    """The kernel then answers what the portable backend answers otherwise."""
    if not answers(case, engine):
        return
    with torch.no_grad():
        found, expected = case.align(engine)[0], case.align("enumeration")[0]
        gamma, cost, steps = sizes(case, found)
        field = torch.linspace(-1, 2, found.coupling.numel(), dtype=torch.float64).reshape(found.coupling.shape)
        for name, of in QUANTITIES.items():
            assert_close(of(found, field), of(expected, field), FLOAT64, what=name)
        assert_close(found.coupling, expected.coupling, FLOAT64)
        assert_close(found.paths.length, expected.paths.length, FLOAT64)
        assert_close(found.paths.entropy, expected.paths.entropy, FLOAT64, scale=steps * cost / gamma)


@pytest.mark.parametrize("engine", KERNELS)
@settings(max_examples=20, **RELAXED)
@given(case=warp_cases)
def test_prices_per_operation_agree_to_1e_9(engine, case):
    if answers(case, engine):
        compare(case, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", KERNELS)
@settings(max_examples=5_000, **(RELAXED | {"derandomize": False}))
@given(case=gap_cases | warp_cases)
def test_prices_agree_to_1e_9_at_length(engine, case):
    if answers(case, engine):
        compare(case, engine)


@pytest.mark.parametrize("engine", KERNELS)
@settings(max_examples=20, **RELAXED)
@given(case=gap_cases)
def test_least_and_drawn_alignments_agree(engine, case):
    if not answers(case, engine):
        return
    found, _ = case.align(engine)
    expected, _ = case.align("enumeration")
    mine, truth = found.paths.mode(), expected.paths.mode()
    assert_close(expected.paths.log_prob(mine), expected.paths.log_prob(truth), FLOAT64)
    drawn = found.paths.sample(2, generator=0)
    assert torch.isfinite(expected.paths.log_prob(drawn)).all()
    assert torch.allclose(found.paths.log_prob(drawn), expected.paths.log_prob(drawn), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (2, 3), (3, 3)])
def test_every_set_of_matches_is_exactly_one_path(rows, columns):
    cells = list(itertools.product(range(rows), range(columns)))
    subsets = itertools.chain.from_iterable(itertools.combinations(cells, k) for k in range(len(cells) + 1))
    chains = {s for s in subsets if all(follows(after, before) for before, after in itertools.pairwise(s))}
    listed = sets_of_matches(rows, columns)
    assert len(listed) == len(set(listed)) == len(chains)
    assert set(listed) == chains
    for backend in ("portable", "numba"):
        free = udtw.PathDistribution(np.zeros((rows, columns)), gap_penalty=0.0, backend=backend)
        assert np.exp(-free.soft_min) == pytest.approx(len(chains), rel=1e-9)


def test_all_alignments_of_a_pair_have_probabilities_that_sum_to_one():
    paths = udtw.PathDistribution(np.random.default_rng(0).random((3, 3)), 0.5, gap_penalty=0.3, gap_opening=0.2)
    complete = [one for one in sets_of_matches(3, 3) if one]
    total = sum(np.exp(paths.log_prob(np.array(one))) for one in complete)
    nothing = np.array([[i, -1] for i in range(3)] + [[-1, j] for j in range(3)])
    assert total + np.exp(paths.log_prob(nothing)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("backend", ["numba", "portable"])
@pytest.mark.parametrize("relax", [None, "x", "both", (0.4, 0.0, 0.5, 0.25)])
def test_a_high_price_leaves_the_alignment_without_gaps(backend, relax):
    if relax is not None and backend == "numba":
        backend = "auto"
    case = make_case(
        seed=3, count=2, rows=6, columns=5, dim=2, gamma=0.7, uncertainty="steps", band=None, ragged=False,
        given_cost=False, weighting="likelihood", relax=relax,
    )  # fmt: skip
    plain, _ = case.align("portable")
    found, _ = case.align(backend, gap_penalty=1e6)
    assert_close(found.coupling, plain.coupling, 1e-9)
    assert_close(found.loss, plain.loss, 1e-9)


def test_long_pairs_keep_states_of_some_diagonals_only():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((1, 1500, 1)).cumsum(1), rng.standard_normal((1, 1400, 1)).cumsum(1)
    options = {"gap_penalty": 0.7, "gap_opening": 0.4, "gamma": 1.3}
    found = udtw.align(x, y, **options)
    assert found.coupling.sum() == pytest.approx(found.paths.length.sum(), rel=1e-9)
    one = torch.from_numpy(x).requires_grad_()
    (grad,) = torch.autograd.grad(udtw.align(one, torch.from_numpy(y), **options).loss.sum(), one)
    difference = torch.zeros_like(one)
    difference[0, 700] = 1e-5
    higher, lower = (
        udtw.align(one.detach() + sign * difference, torch.from_numpy(y), **options).loss for sign in (1, -1)
    )
    assert float((higher - lower) / 2e-5) == pytest.approx(float(grad[0, 700, 0]), rel=1e-5, abs=1e-6)


SIDES = ("x", "y", "var_x", "var_y")
EXCHANGED = {"x": "y", "var_x": "var_y", "matched x": "matched y", "expected x": "expected y"}
EXCHANGED |= {other: one for one, other in EXCHANGED.items()}


def questions(pair: dict[str, Tensor], lengths: Tensor, stay_x: float, stay_y: float) -> dict[str, Tensor]:
    """All that the kernel answers about pairs with gaps; what belongs to x has its own entry, and so has y."""
    options = {"gamma": 0.8, "beta": 0.6, "warp_penalty": (stay_x, stay_y), "gap_penalty": 0.7, "gap_opening": 0.4}
    options |= {"lengths_x": lengths[0], "lengths_y": lengths[1], "backend": "numba"}
    a = udtw.align(**pair, **options)
    found = {"loss": a.loss, "warps": a.warps, "coupling": a.coupling}
    found |= {"length": a.paths.length, "entropy": a.paths.entropy}
    for of in ("x", "y"):
        matches = a.matches(level=0.8, of=of)
        found |= {f"matched {of}": matches.matched, f"expected {of}": matches.expected}
    leaves = {name: pair[name].clone().requires_grad_() for name in SIDES}
    grads = torch.autograd.grad(udtw.align(**leaves, **options).loss.sum(), leaves.values())
    return found | dict(zip(SIDES, grads, strict=True))


def random_pairs(dtype: torch.dtype) -> tuple[dict[str, Tensor], Tensor]:
    """Nine ragged pairs, and their lengths (2, 9)."""
    rng = np.random.default_rng(0)
    pair = {"x": rng.standard_normal((9, 23, 2)), "y": rng.standard_normal((9, 17, 2))}
    pair |= {"var_x": rng.uniform(0.3, 2, (9, 23)), "var_y": rng.uniform(0.3, 2, (9, 17))}
    lengths = np.stack([rng.integers(5, 24, 9), rng.integers(5, 18, 9)])
    return {name: torch.from_numpy(one).to(dtype) for name, one in pair.items()}, torch.from_numpy(lengths)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_padding_and_batch_size_change_no_bit(dtype, size):
    pair, lengths = random_pairs(dtype)
    whole = questions(pair, lengths, 0.2, 0.5)
    for part in torch.arange(9).split(size):
        n, m = lengths[:, part].amax(1).tolist()
        cut = {name: pair[name][part, : n if name in ("x", "var_x") else m] for name in SIDES}
        for name, found in questions(cut, lengths[:, part], 0.2, 0.5).items():
            known = whole[name][part][tuple(slice(length) for length in found.shape)]
            assert torch.equal(found.nan_to_num(), known.nan_to_num()), name


def test_exchanging_the_series_and_their_prices_changes_nothing_but_rounding():
    """Left-out steps of x come first, so that sums are taken in another order."""
    pair, lengths = random_pairs(torch.float64)
    one = questions(pair, lengths, 0.2, 0.5)
    exchanged = {name: pair[EXCHANGED[name]] for name in SIDES}
    other = questions(exchanged, lengths.flip(0), 0.5, 0.2)
    for name, found in one.items():
        known = other[EXCHANGED.get(name, name)]
        known = known.transpose(1, 2) if name == "coupling" else known
        assert_close(found.nan_to_num(), known.nan_to_num(), 1e-13, what=name)


def test_derivatives_in_gamma_of_couplings_keep_their_digits_where_gamma_is_small():
    """Energies are hundreds of γ: what the shares of a soft maximum miss of one would show (7e-9)."""
    case = make_case(
        seed=0, count=2, rows=2, columns=3, dim=1, gamma=10**-2.25, uncertainty="none", band=None, ragged=False,
        given_cost=False, weighting="likelihood",
    )  # fmt: skip
    for engine in KERNELS[:2]:
        compare(priced(case, 0.0, 0.0, (1.0, 1.0)), engine.values[0])


def test_float32_is_near_float64():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((16, 60, 1)).cumsum(1), rng.standard_normal((16, 70, 1)).cumsum(1)
    options = {"gap_penalty": 0.7, "gap_opening": 0.4, "gamma": 0.3}
    wide, narrow = (udtw.align(x.astype(t), y.astype(t), **options) for t in (np.float64, np.float32))
    assert np.allclose(wide.loss, narrow.loss, rtol=1e-5)
    assert np.abs(wide.coupling - narrow.coupling).max() < 1e-3


def test_gradcheck():
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.rand(shape, generator=generator, dtype=torch.float64) for shape in ((2, 4, 2), (2, 3, 2), (2, 4))]
    leaves += [number(value) for value in (0.6, 0.9, 0.3, 0.2, 0.1, 0.4)]
    for leaf in leaves:
        leaf.requires_grad_()

    def loss(x, y, var, gamma, beta, *prices):
        penalty, opening, *stays = prices
        return udtw.align(
            x, y, var + 0.3, 1.0, gamma=gamma, beta=beta, gap_penalty=penalty, gap_opening=opening,
            warp_penalty=tuple(stays), backend="numba",
        ).loss.sum()  # fmt: skip

    assert torch.autograd.gradcheck(loss, leaves)
    assert torch.autograd.gradgradcheck(loss, leaves)


def test_one_number_and_two_equal_ones_are_the_same():
    x, y = np.random.default_rng(0).standard_normal((2, 3, 9))
    one = udtw.align(x, y, warp_penalty=0.3)
    two = udtw.align(x, y, warp_penalty=(0.3, 0.3))
    assert np.array_equal(one.loss, two.loss)
    assert np.array_equal(one.coupling, two.coupling)


def test_staying_in_x_is_a_step_along_y():
    x, y = [0.0], [0.0, 0.0, 0.0]  # the only path stays in x twice
    assert float(udtw.dtw(x, y, warp_penalty=(0.25, 9.0))) == 0.5
    assert float(udtw.dtw(y, x, warp_penalty=(0.25, 9.0))) == 18.0


def test_hard_alignments_leave_out_what_costs_more():
    x, y = [0.0, 1.0, 9.0, 2.0], [0.0, 1.0, 2.0]
    assert float(udtw.dtw(x, y, gap_penalty=0.5, gap_opening=0.25)) == 0.75
    assert float(udtw.dtw(x, y, gap_penalty=1e9)) == float(udtw.dtw(x, y))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"gap_penalty": -1.0}, OptionError),
        ({"gap_penalty": float("nan")}, NonFiniteError),
        ({"gap_penalty": 1.0, "gap_opening": -0.1}, OptionError),
        ({"gap_penalty": torch.tensor([1.0, -1.0])}, OptionError),
        ({"gap_opening": 1.0}, OptionError),
        ({"gap_penalty": 1.0, "weighting": "precision"}, OptionError),
        ({"warp_penalty": (0.1, float("nan"))}, NonFiniteError),
    ],
)
def test_unusable_prices_are_named(options, error):
    with pytest.raises(error):
        udtw.align(torch.zeros(2, 3, 1), torch.zeros(2, 4, 1), **options)


def test_a_path_that_is_no_alignment_is_named():
    paths = udtw.PathDistribution(np.zeros((3, 3)), gap_penalty=1.0)
    for path in ([[0, 0], [2, 0]], [[0, 5]], [[0, 0], [1, -1]], [[1, 1], [0, 0]], [0, 0]):
        with pytest.raises(udtw.errors.PathError, match="gaps"):
            paths.log_prob(path)
