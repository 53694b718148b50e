"""`PathDistribution`: sampling, mode and probabilities against independent computations; its forms and refusals."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy import stats

import udtw
from udtw._kernels.reference import enumeration
from udtw.errors import BackendError, GammaError, LengthError, NonFiniteError, PathError, RangeError, ShapeError

RNG = np.random.default_rng(0)


def textbook_dtw(cost: np.ndarray) -> tuple[float, list[tuple[int, int]]]:
    """The quadratic loop of any textbook, and its path."""
    n, m = cost.shape
    value = np.full((n + 1, m + 1), np.inf)
    value[0, 0] = 0
    for i in range(n):
        for j in range(m):
            value[i + 1, j + 1] = cost[i, j] + min(value[i, j], value[i, j + 1], value[i + 1, j])
    i, j, path = n - 1, m - 1, [(n - 1, m - 1)]
    while (i, j) != (0, 0):
        options = {(i - 1, j - 1): value[i, j], (i - 1, j): value[i, j + 1], (i, j - 1): value[i + 1, j]}
        i, j = min(options, key=options.get)
        path.append((i, j))
    return value[n, m], path[::-1]


@pytest.mark.parametrize("backend", ["numba", "portable", "enumeration"])
def test_sample_frequencies_follow_the_distribution(backend):
    cost = np.random.default_rng(0).random((4, 5)) * 3
    paths = udtw.PathDistribution(cost, gamma=0.8, backend=backend)
    draws = 20_000
    drawn = paths.sample(draws, generator=7)
    every = enumeration.paths(4, 5)
    number = {path: index for index, path in enumerate(every)}
    observed = np.bincount([number[tuple(map(tuple, path.tolist()))] for path in drawn], minlength=len(every))
    expected = draws * np.exp([paths.log_prob(np.array(path)) for path in every])
    rare = expected < 5
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    assert stats.chisquare(observed, expected).pvalue > 0.001


def test_probabilities_of_all_paths_sum_to_one():
    cost = RNG.standard_normal((5, 4))
    paths = udtw.PathDistribution(cost, gamma=0.5)
    log_prob = [paths.log_prob(np.array(path)) for path in enumeration.paths(5, 4)]
    assert np.exp(log_prob).sum() == pytest.approx(1, abs=1e-12)


def test_entropy_is_the_mean_surprise_of_samples():
    paths = udtw.PathDistribution(RNG.random((30, 25)) * 4, gamma=0.7)
    surprise = -paths.log_prob(paths.sample(4000, generator=0))
    assert abs(surprise.mean() - paths.entropy) < 4 * surprise.std() / math.sqrt(4000)


@pytest.mark.parametrize("backend", ["numba", "portable"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (9, 1), (40, 31), (3, 80)])
def test_mode_is_the_path_of_a_textbook_dtw(backend, shape):
    cost = RNG.random(shape)
    value, path = textbook_dtw(cost)
    paths = udtw.PathDistribution(cost, gamma=0.1, backend=backend)
    mode = paths.mode()
    assert list(map(tuple, mode.tolist())) == path
    assert udtw.dtw(None, None, cost=cost, backend=backend) == pytest.approx(value, rel=1e-12)


def test_sampling_is_seedable():
    paths = udtw.PathDistribution(torch.rand(3, 12, 9, generator=torch.Generator().manual_seed(0)), gamma=2.0)
    first, second = paths.sample(4, generator=1), paths.sample(4, generator=torch.Generator().manual_seed(1))
    assert all(
        torch.equal(a, b) for one, other in zip(first, second, strict=True) for a, b in zip(one, other, strict=True)
    )
    third = paths.sample(4, generator=2)
    assert any(
        not torch.equal(a, b) for one, other in zip(first, third, strict=True) for a, b in zip(one, other, strict=True)
    )


def test_forms_of_a_batch_and_of_one_pair():
    cost = torch.rand(3, 6, 5, generator=torch.Generator().manual_seed(0))
    batch, single = udtw.PathDistribution(cost), udtw.PathDistribution(cost[0])
    assert batch.soft_min.shape == batch.entropy.shape == (3,)
    assert batch.coupling.shape == (3, 6, 5)
    assert single.soft_min.shape == single.entropy.shape == ()
    assert single.coupling.shape == (6, 5)
    assert len(batch.mode()) == 3
    assert torch.equal(single.mode(), batch.mode()[0])
    assert [len(paths) for paths in batch.sample(4)] == [4, 4, 4]
    assert len(single.sample(4)) == 4
    assert batch.log_prob(batch.mode()).shape == (3,)
    assert batch.log_prob(batch.sample(4)).shape == (3, 4)
    assert single.log_prob(single.mode()).shape == ()
    assert single.log_prob(single.sample(4)).shape == (4,)
    assert torch.equal(batch.coupling[0], single.coupling)
    field, other = batch.expect(cost, cost.square())
    assert field.shape == other.shape == (3,)


def test_the_temperature_is_one_unless_given():
    cost = RNG.random((6, 5))
    assert udtw.PathDistribution(cost).soft_min == udtw.PathDistribution(cost, 1.0).soft_min
    assert udtw.PathDistribution(cost).soft_min != udtw.PathDistribution(cost, 0.9).soft_min


def test_lengths_come_as_a_pair_of_numbers_or_arrays_or_as_a_table():
    cost = RNG.random((2, 6, 5))
    expected = [udtw.PathDistribution(cost[0, :6, :2]).soft_min, udtw.PathDistribution(cost[1, :3, :5]).soft_min]
    for lengths in (([6, 3], [2, 5]), [[6, 2], [3, 5]], np.array([[6, 2], [3, 5]]), torch.tensor([[6, 2], [3, 5]])):
        assert np.allclose(udtw.PathDistribution(cost, lengths=lengths).soft_min, expected, rtol=1e-13)
    for lengths in ((6, 2), [6, 2], torch.tensor([[6, 2]])):
        assert udtw.PathDistribution(cost[0], lengths=lengths).soft_min == pytest.approx(expected[0], rel=1e-13)


def test_numpy_in_numpy_out():
    paths = udtw.PathDistribution(RNG.random((6, 5)).astype(np.float32))
    assert isinstance(paths.coupling, np.ndarray)
    assert paths.coupling.dtype == np.float32
    assert isinstance(paths.soft_min, np.floating)
    assert isinstance(paths.mode(), np.ndarray)
    assert isinstance(paths.sample(1)[0], np.ndarray)


def test_padding_is_never_read():
    small = RNG.random((2, 4, 3))
    padded = np.full((2, 7, 9), np.nan)
    padded[:, :4, :3] = small
    plain = udtw.PathDistribution(small, 0.3)
    for backend in ("numba", "portable"):
        cut = udtw.PathDistribution(padded, 0.3, lengths=([4, 4], 3), backend=backend)
        assert np.allclose(cut.soft_min, plain.soft_min, rtol=1e-13)
        assert np.allclose(cut.coupling[:, :4, :3], plain.coupling, rtol=1e-12)
        assert not cut.coupling[:, 4:].any()
        assert [path[-1].tolist() for path in cut.mode()] == [[3, 2], [3, 2]]


def test_a_path_outside_the_band_has_probability_zero():
    paths = udtw.PathDistribution(np.zeros((3, 3)), band=0)
    assert paths.log_prob([[0, 0], [1, 1], [2, 2]]) == 0
    assert paths.log_prob([[0, 0], [0, 1], [1, 1], [2, 2]]) == -np.inf


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ([[0, 0], [2, 2]], "step 0 goes from"),
        ([[0, 0], [1, 1]], "goes from \\[0, 0\\] to \\[2, 2\\]"),
        ([[0, 0], [1, 1], [1, 1], [2, 2]], "step 1 goes from"),
        ([[0, 0], [1, 1], [0, 1], [2, 2]], "step 1 goes from"),
        ([0, 1, 2], "integer array"),
    ],
)
def test_paths_that_are_none(path, message):
    with pytest.raises(PathError, match=message):
        udtw.PathDistribution(np.zeros((3, 3))).log_prob(np.array(path))


@pytest.mark.parametrize("backend", ["numba", "portable", "enumeration"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(backend, bad):
    cost = np.ones((2, 3, 4))
    cost[1, 2, 0] = bad
    with pytest.raises(NonFiniteError, match=r"cost\[1, 2, 0\] is"):
        _ = udtw.PathDistribution(cost, backend=backend).coupling
    field = np.ones((2, 3, 4))
    field[0, 1, 1] = bad
    with pytest.raises(NonFiniteError, match="field 0"):
        udtw.PathDistribution(np.ones((2, 3, 4)), backend=backend).expect(field)


def test_a_failed_call_leaves_nothing_behind():
    good = RNG.random((30, 30)).astype(np.float32)
    expected = udtw.PathDistribution(good).coupling
    bad = good.copy()
    bad[10, 10] = np.nan
    for _ in range(3):
        with pytest.raises(NonFiniteError):
            _ = udtw.PathDistribution(bad).coupling
        assert np.array_equal(udtw.PathDistribution(good).coupling, expected)


def test_costs_that_do_not_fit_float32_are_refused_and_fit_float64():
    cost = np.full((3, 3), 1e30, np.float32)
    cost[1, 1] = 0
    assert udtw.PathDistribution(cost).soft_min == np.float32(2e30)
    with pytest.raises(RangeError, match="float64"):
        _ = udtw.PathDistribution(cost, gamma=1e-9).soft_min
    assert udtw.PathDistribution(cost.astype(float), gamma=1e-9).soft_min == pytest.approx(2e30)


def test_costs_must_fit_whatever_gamma_is():
    """At a high temperature it is the sum of costs itself, below 1e37 in float32, that must fit."""
    fits, does_not = (np.full((3, 3), 1e37 / 6 * share, np.float32) for share in (0.99, 1.01))
    assert udtw.PathDistribution(fits, gamma=100.0).soft_min == pytest.approx(3 * float(fits[0, 0]), rel=1e-6)
    for ask in ("soft_min", "coupling"):
        with pytest.raises(RangeError, match="float64"):
            getattr(udtw.PathDistribution(does_not, gamma=100.0), ask)
    with pytest.raises(RangeError, match="float64"):
        udtw.PathDistribution(does_not, gamma=100.0).sample()


@pytest.mark.parametrize("gamma", [0, -1.0, np.nan, np.inf, torch.tensor([1.0, 0.0])])
def test_gamma_must_be_positive(gamma):
    with pytest.raises(GammaError, match="positive finite"):
        udtw.PathDistribution(torch.ones(2, 3, 3), gamma=gamma)


def test_shapes_and_lengths_and_backends_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"shape \(N, M\) or \(B, N, M\)"):
        udtw.PathDistribution(np.ones(3))
    with pytest.raises(LengthError, match="at least one row"):
        udtw.PathDistribution(np.ones((0, 3)))
    with pytest.raises(LengthError, match=r"lengths_x\[1\] is 4"):
        udtw.PathDistribution(np.ones((2, 3, 3)), lengths=([3, 4], [3, 3]))
    with pytest.raises(LengthError, match=r"lengths_y\[0\] is 0"):
        udtw.PathDistribution(np.ones((2, 3, 3)), lengths=([3, 3], 0))
    with pytest.raises(LengthError, match="whole numbers"):
        udtw.PathDistribution(np.ones((2, 3, 3)), lengths=(2.5, 3))
    with pytest.raises(LengthError, match="got 3 items"):
        udtw.PathDistribution(np.ones((2, 3, 3)), lengths=(3, 3, 3))
    for table in (np.ones((3, 2), int), np.ones((2, 3), int), np.ones(2, int)):
        with pytest.raises(LengthError, match=r"an array of shape \(2, 2\)"):
            udtw.PathDistribution(np.ones((2, 3, 3)), lengths=table)
    for field in (np.ones((2, 3, 4)), np.ones((3, 3, 3))):
        with pytest.raises(ShapeError, match="field 0 must have the cost's shape"):
            udtw.PathDistribution(np.ones((2, 3, 3))).expect(field)
    with pytest.raises(ShapeError, match="at least one field"):
        udtw.PathDistribution(np.ones((2, 3, 3))).expect()
    with pytest.raises(BackendError, match="not known"):
        udtw.PathDistribution(np.ones((2, 3, 3)), backend="cuda")
    with pytest.raises(BackendError, match="at most"):
        _ = udtw.PathDistribution(np.ones((9, 9)), backend="enumeration").soft_min


def test_an_empty_batch_gives_empty_results():
    for backend in ("numba", "portable"):
        paths = udtw.PathDistribution(torch.ones(0, 3, 4), backend=backend)
        assert paths.soft_min.shape == (0,)
        assert paths.coupling.shape == (0, 3, 4)


@pytest.mark.parametrize("backend", ["numba", "portable", "enumeration"])
def test_a_single_cell_without_cost_is_visited_for_certain(backend):
    paths = udtw.PathDistribution(torch.zeros(1, 1, requires_grad=True), backend=backend)
    assert paths.coupling.item() == 1
    assert paths.soft_min.item() == 0
    assert paths.expect(torch.full((1, 1), 3.0)).item() == 3


@pytest.mark.parametrize("backend", ["numba", "portable"])
def test_mode_coupling_marks_the_cells_of_the_mode(backend):
    cost = torch.rand(3, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    paths = udtw.PathDistribution(cost, backend=backend, warp_penalty=0.1)
    expected = torch.zeros_like(cost)
    for b, path in enumerate(paths.mode()):
        expected[b, path[:, 0], path[:, 1]] = 1
    assert torch.equal(paths.mode_coupling, expected)


def test_sampling_copies_no_grid():
    """Only the transitions of the cells that are visited become float64."""
    cost = torch.rand(64, 150, 150)
    paths = udtw.PathDistribution(cost)
    paths.sample(1, 0)
    tracemalloc.start()
    paths.sample(1, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * cost.numel()
