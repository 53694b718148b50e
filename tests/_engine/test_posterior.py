"""The posterior over paths, prior × likelihood, against the list of all paths."""

import itertools

import numpy as np
import pytest
import torch

import udtw
from tests.problems import make_case
from udtw._engine.metrics import get_metric
from udtw._engine.pair_block import PairBlock
from udtw._engine.pairwise import distances
from udtw._engine.series_set import load_series
from udtw._kernels.reference.enumeration import paths as all_paths
from udtw.errors import LengthError, NonFiniteError, OptionError, PathError, ShapeError, VarianceError
from udtw.nn import SigmaNet, UDTWLoss
from udtw.timeseries import KNeighborsTimeSeriesClassifier
from udtw.timeseries.neighbors import nearest

BACKENDS = ["numba", "portable", "enumeration"]
RNG = np.random.default_rng(0)


def tensor(*shape: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(RNG.uniform(low, high, shape)).requires_grad_()


def warps_of(path) -> int:
    return sum(after[0] - before[0] + after[1] - before[1] == 1 for before, after in itertools.pairwise(path))


def oracle(x, y, var_x, var_y, beta, gamma, omega):
    """Free energy, E[D/Σ], E[log Σ], E[warps], entropy and coupling of one pair, by listing its paths."""
    n, m = len(x), len(y)
    cost = (x[:, None] - y[None, :]).square().sum(2)
    variance = 0.5 * (var_x[:, None] + var_y[None, :])
    level = 0.5 * (var_x.log().mean() + var_y.log().mean())
    rows = []
    for path in all_paths(n, m):
        i, j = torch.tensor(path).T
        terms = (cost / variance)[i, j].sum(), variance.log()[i, j].sum(), warps_of(path)
        # log Σ relative to the level r; a constant keeps the price of a common factor of all variances.
        energy = terms[0] + beta * (terms[1] - len(path) * level) + omega * terms[2] + beta * level * (n + m) / 2
        rows.append((energy, *terms, path))
    energies = torch.stack([row[0] for row in rows])
    share = torch.softmax(-energies / gamma, 0)
    coupling = torch.zeros(n, m, dtype=torch.float64)
    for p, row in zip(share.detach(), rows, strict=True):
        coupling[tuple(torch.tensor(row[4]).T)] += p
    means = [sum(p * row[k] for p, row in zip(share, rows, strict=True)) for k in (1, 2, 3)]
    entropy = -(share * share.log()).sum()
    return -gamma * torch.logsumexp(-energies / gamma, 0), *means, entropy, coupling


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("n", "m", "dim"), [(1, 1, 1), (2, 5, 1), (4, 3, 2), (5, 5, 1), (3, 4, 20)])
@pytest.mark.parametrize("omega", [0.0, 0.7, -0.3])
def test_everything_agrees_with_the_list_of_paths(backend, n, m, dim, omega):
    leaves = [tensor(n, dim), tensor(m, dim), tensor(n, low=0.2, high=3), tensor(m, low=0.2, high=3)]
    leaves += [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.8, 1.7, omega)]
    x, y, var_x, var_y, beta, gamma, penalty = leaves
    found = udtw.align(
        x, y, var_x, var_y, beta=beta, gamma=gamma, weighting="likelihood", warp_penalty=penalty, backend=backend
    )
    free, distance, regularizer, warps, entropy, coupling = oracle(*leaves)
    mine = found.free_energy, found.distance, found.regularizer, found.warps, found.paths.entropy
    for one, known in zip(mine, (free, distance, regularizer, warps, entropy), strict=True):
        truth = torch.as_tensor(known, dtype=torch.float64)
        assert torch.allclose(one, truth, rtol=1e-9, atol=1e-9)
        if truth.requires_grad and one.requires_grad:
            grads = torch.autograd.grad(one, leaves, retain_graph=True, allow_unused=True)
            expected = torch.autograd.grad(truth, leaves, retain_graph=True, allow_unused=True)
            for a, b in zip(grads, expected, strict=True):
                zero = torch.zeros(())
                assert torch.allclose(zero if a is None else a, zero if b is None else b, rtol=1e-8, atol=1e-8)
    assert torch.allclose(found.coupling, coupling, rtol=1e-9, atol=1e-9)
    assert torch.equal(found.loss, found.free_energy)


@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
@pytest.mark.parametrize("uncertainty", ["none", "steps", "features", "joint"])
@pytest.mark.parametrize("band", [None, 1, "mask"])
@pytest.mark.parametrize("relax", [None, "y", (0.5, 0.2, 1.0, 0.0)])
def test_free_energy_is_mean_energy_less_entropy(weighting, uncertainty, band, relax):
    case = make_case(
        seed=1, count=3, rows=5, columns=6, dim=2, gamma=0.9, uncertainty=uncertainty, band=band, ragged=True,
        given_cost=False, weighting=weighting, warp_penalty=0.4, relax=relax,
    )  # fmt: skip
    a, leaves = case.align("numba", lam=0.0)
    energy = a.distance + leaves["warp_penalty"] * a.warps
    if weighting == "likelihood":
        problem = a.paths._problem
        length = a.paths.expect(torch.ones(5, 6, dtype=torch.float64))
        energy = energy + leaves["beta"] * (a.regularizer - problem.log_level() * length) + problem.constant_energy()
    assert torch.allclose(a.free_energy, energy - leaves["gamma"] * a.paths.entropy, rtol=1e-9)


@pytest.mark.parametrize("relax", [None, "y", (2, 0, 3, 1)])
@pytest.mark.parametrize("unit", [1e-3, 50.0])
def test_units_change_no_alignment(unit, relax):
    x, y, var_x, var_y = tensor(7, 1), tensor(6, 1), tensor(7, low=0.1, high=4), tensor(6, low=0.1, high=4)
    options = {"weighting": "likelihood", "gamma": 4.0, "beta": 1.0, "warp_penalty": 0.2, "relax": relax}
    one = udtw.align(x, y, var_x, var_y, **options)
    other = udtw.align(unit * x, unit * y, unit**2 * var_x, unit**2 * var_y, **options)
    assert torch.allclose(one.coupling, other.coupling, atol=1e-9)
    assert (other.loss - one.loss).item() == pytest.approx((7 + 6) * np.log(unit), rel=1e-9)


def test_a_common_factor_of_all_variances_has_a_price():
    """Otherwise a network would learn to call everything uncertain."""
    x = torch.linspace(0, 1, 8, dtype=torch.float64)
    losses = [float(udtw.align(x, x, v, v, weighting="likelihood", gamma=4.0).loss) for v in (1e-2, 1.0, 1e2)]
    assert losses[0] < losses[1] < losses[2]


def test_the_likelihood_avoids_uncertain_cells_that_the_precision_prefers():
    x = np.sin(np.arange(30) / 3)
    var = np.ones(30)
    var[12:16] = 25.0
    inside = {
        w: udtw.align(x, x, var, var, weighting=w, gamma=1.0).coupling[12:16].sum() for w in ("precision", "likelihood")
    }
    assert inside["likelihood"] < inside["precision"]


def test_a_warp_penalty_of_each_pair_and_its_gradient():
    x, y = tensor(3, 5, 1), tensor(3, 4, 1)
    omega = torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64, requires_grad=True)
    value = udtw.dtw(x, y, warp_penalty=omega)
    for b in range(3):
        assert value[b].item() == pytest.approx(
            float(udtw.dtw(x[b].detach(), y[b].detach(), warp_penalty=omega[b].item()))
        )
    [grad] = torch.autograd.grad(value.sum(), [omega])
    for b in range(3):
        path = udtw.PathDistribution(
            (x[b] - y[b].T).square().detach(), gamma=1.0, warp_penalty=omega[b].item()
        ).mode()  # fmt: skip
        assert grad[b] == pytest.approx(warps_of(path.tolist()))


def test_samples_and_log_prob_with_a_warp_penalty():
    cost = RNG.random((4, 3))
    paths = udtw.PathDistribution(cost, gamma=0.8, warp_penalty=0.6)
    total = sum(np.exp(paths.log_prob(np.array(path))) for path in all_paths(4, 3))
    assert total == pytest.approx(1, rel=1e-12)
    drawn = paths.sample(4000, generator=0)
    assert np.mean([warps_of(path.tolist()) for path in drawn]) == pytest.approx(float(paths.warps), abs=0.05)


def test_matches_are_the_quantiles_of_the_coupling():
    x, y = RNG.standard_normal((2, 9, 1)), RNG.standard_normal((2, 8, 1))
    a = udtw.align(x, y, gamma=2.0, lengths_x=[9, 6])
    for of in ("x", "y"):
        found = a.matches(level=0.8, of=of)
        coupling = a.coupling if of == "x" else a.coupling.transpose(0, 2, 1)
        for b, steps in enumerate((9, 6) if of == "x" else (8, 8)):
            for i in range(steps):
                share = coupling[b, i] / coupling[b, i].sum()
                assert found.index[b, i] == share.argmax()
                assert found.probability[b, i] == pytest.approx(share.max())
                assert found.expected[b, i] == pytest.approx(share @ np.arange(len(share)))
                low, high = found.low[b, i], found.high[b, i]
                assert share[:low].sum() <= 0.1 + 1e-6
                assert share[high + 1 :].sum() <= 0.1 + 1e-6
                assert share[: low + 1].sum() >= 0.1 - 1e-6
                assert share[high:].sum() >= 0.1 - 1e-6
    assert a.matches().index[1, 6:].tolist() == [-1] * 3
    assert np.isnan(a.matches().expected[1, 6:]).all()


def test_matches_of_one_pair_as_a_data_frame():
    frame = udtw.align([0.0, 1.0, 2.0], [0.0, 1.0, 1.0, 2.0], gamma=0.05).matches().to_frame()
    assert frame["j"].tolist() == [0, 1, 3]
    assert frame["high"].tolist() == [0, 2, 3]
    with pytest.raises(OptionError, match="one pair"):
        udtw.align(np.zeros((2, 3, 1)), np.zeros((2, 3, 1))).matches().to_frame()


X, Y, NOISE = np.zeros(4), np.zeros(5), np.ones(4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"weighting": "bayes"}, OptionError, "one of .*'likelihood', 'precision'"),
        ({"weighting": "likelihood", "beta": -1.0}, OptionError, "must not be negative; got -1.0"),
        ({"weighting": "likelihood", "lam": 0.1}, OptionError, "belong to weighting='precision'"),
        ({"weighting": "likelihood", "distance": "soft_min"}, OptionError, "free_energy"),
        ({"warp_penalty": float("nan")}, NonFiniteError, "warp_penalty must be finite; got"),
        ({"warp_penalty": [1.0, 2.0]}, OptionError, r"one for each of 1 pairs; got shape \(2,\)"),
        ({"lam": 0.1}, OptionError, "belong to weighting='precision'"),
        ({"relax": "z"}, OptionError, "relax='z' is not supported. relax is None, 'x', 'y', 'both', or four counts"),
        ({"relax": (1, 2)}, OptionError, r"has shape \(2,\)"),
        ({"relax": (0, 0, -1, 0)}, OptionError, "whole numbers that are not negative"),
        ({"relax": (0, 0.5, 0, 0)}, OptionError, "whole numbers that are not negative"),
        ({"relax": (0, 4, 0, 0)}, LengthError, "4 unmatched steps at x end, but that series of pair 0 has 4 steps"),
        ({"relax": (0, 0, 5, 0)}, LengthError, "at y begin, .* at most 4 can stay unmatched"),
    ],
)
def test_bad_options_are_named(options, error, message):
    with pytest.raises(error, match=message):
        udtw.align(X, Y, NOISE, **options)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, float("nan")])
def test_levels_outside_the_unit_interval_are_refused(level):
    with pytest.raises(OptionError, match="between 0 and 1"):
        udtw.align(X, Y).matches(level=level)
    with pytest.raises(OptionError, match="'x' or 'y'"):
        udtw.align(X, Y).matches(of="z")


SERIES = [RNG.standard_normal(n) for n in (6, 9, 7)]
VARIANCES = [RNG.uniform(0.3, 2, len(one)) for one in SERIES]


@pytest.mark.parametrize("relax", [None, "x", (1, 2, 3, 0)])
@pytest.mark.parametrize("metric", ["dtw", "soft_dtw", "soft_dtw_divergence"])
def test_tables_with_a_warp_penalty_are_those_of_single_pairs(metric, relax):
    options = {"warp_penalty": 0.7, "band": 0.8, "relax": relax}
    found = udtw.pairwise(SERIES, metric=metric, **options)
    for i, j in itertools.product(range(3), range(3)):
        one = getattr(udtw, metric)(SERIES[i], SERIES[j], **options)
        assert found[i, j] == pytest.approx(float(one), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize("relax", [None, "both"])
@pytest.mark.parametrize("weighting", ["likelihood", "precision"])
def test_tables_of_the_posterior_are_those_of_single_pairs(weighting, relax, debias):
    options = {"weighting": weighting, "gamma": 4.0, "warp_penalty": 0.3, "normalize": "length", "relax": relax}
    options["debias"] = debias
    found = udtw.pairwise(SERIES, metric="udtw", var_x=VARIANCES, **options)
    for i, j in itertools.product(range(3), range(3)):
        one = udtw.align(SERIES[i], SERIES[j], VARIANCES[i], VARIANCES[j], **options)
        assert found[i, j] == pytest.approx(float(one.loss), rel=1e-9, abs=1e-9)


def test_the_search_with_a_warp_penalty_is_exact():
    X, labels = RNG.standard_normal((20, 12)), np.arange(20) % 2
    metric = get_metric("dtw", warp_penalty=0.5)
    model = KNeighborsTimeSeriesClassifier(3, metric=metric).fit(X, labels)
    queries = RNG.standard_normal((5, 12))
    found = model.search(queries)
    table = udtw.pairwise(queries, X, metric)
    assert np.array_equal(found.indices, np.argsort(table, axis=1, kind="stable")[:, :3])
    assert metric.with_params(warp_penalty=-0.5).bounds(load_series("X", X), load_series("X", X)) is None


@pytest.mark.parametrize("params", [{"gamma": 0.01}, {"gamma": 1.0, "beta": 0.3}, {"weighting": "precision"}])
def test_lower_bounds_of_the_free_energy_hold_and_the_search_is_exact(params):
    rng = np.random.default_rng(3)
    left, right = (
        load_series(name, [5 * rng.standard_normal(n) for n in rng.integers(3, 14, 12)]) for name in ("X", "Y")
    )
    left, right = (
        one.with_variances(np.where(one.values[:, :, 0] == 0, 1, rng.uniform(0.2, 3, one.values.shape[:2])))
        for one in (left, right)
    )
    metric = get_metric("udtw", warp_penalty=0.0 if "weighting" in params else 0.4, **params)
    table, bounds = distances(left, right, metric), metric.bounds(left, right)
    assert (bounds.quick <= table).all()
    i, j = (index.ravel() for index in np.indices(table.shape))
    for tighter in bounds.tighter:
        assert (tighter(PairBlock(left, right, i, j)) <= table[i, j]).all()
    found = nearest(left, right, 2, metric)
    assert np.array_equal(found.indices, np.argsort(table, axis=1, kind="stable")[:, :2])


def test_one_series_inside_another():
    rng = np.random.default_rng(5)
    stream = np.convolve(rng.standard_normal(120), np.ones(5) / 5, "same")
    query = stream[40:70] + 0.01 * rng.standard_normal(30)
    found = udtw.align(query, stream, relax="y", gamma=0.01)
    matches = found.matches()
    assert np.abs(matches.index - np.arange(40, 70)).max() <= 1
    assert matches.matched.min() > 0.999
    back = found.matches(of="y")
    assert back.matched[45:65].min() > 0.99
    assert (back.index[np.r_[:35, 75:120]] == -1).all()
    assert found.paths.starts.sum() == pytest.approx(1)
    assert found.paths.starts[0].argmax() == pytest.approx(40, abs=1)
    assert found.paths.ends[29].argmax() == pytest.approx(69, abs=1)
    path = found.paths.mode()
    assert path[0].tolist() == pytest.approx([0, 40], abs=1)
    drawn = found.paths.sample(200, generator=0)
    counted = np.bincount([walk[0, 1] for walk in drawn], minlength=120) / 200
    assert np.abs(counted - found.paths.starts[0]).max() < 0.12


def test_a_path_outside_of_relaxed_ends_is_refused():
    paths = udtw.PathDistribution(np.zeros((3, 4)), relax=(0, 0, 1, 1))
    assert np.isfinite(paths.log_prob(np.array([[0, 1], [1, 2], [2, 2]])))
    with pytest.raises(PathError, match="or from and to where relax allows it"):
        paths.log_prob(np.array([[0, 2], [1, 2], [2, 3]]))


def test_variances_of_features_are_the_sum_of_univariate_energies():
    x, y = RNG.standard_normal((5, 2)), RNG.standard_normal((6, 2))
    var_x, var_y = RNG.uniform(0.3, 2, (5, 2)), RNG.uniform(0.3, 2, (6, 2))
    a = udtw.align(x, y, var_x, var_y, gamma=2.0, beta=0.5)
    each = [udtw.align(x[:, f], y[:, f], var_x[:, f], var_y[:, f], gamma=2.0, beta=0.5) for f in (0, 1)]
    cost = sum(one.paths._energy for one in each)[0]
    assert np.allclose(a.coupling, udtw.PathDistribution(cost, gamma=2.0).coupling, atol=1e-12)
    assert a.variance.shape == (5, 6, 2)
    assert np.allclose(a.cost, sum(one.cost for one in each))
    one_for_all = udtw.align(x, y, np.full((5, 2), 0.7), 0.7, gamma=2.0)
    assert np.allclose(one_for_all.coupling, udtw.align(x, y, 0.7, 0.7, gamma=2.0).coupling)
    with pytest.raises(ShapeError, match=r"or one per feature of each step, shape \(B, 5, 2\); got \(1, 5, 3\)"):
        udtw.align(x, y, RNG.uniform(0.3, 2, (1, 5, 3)))


def test_matches_of_long_series_need_no_matrix(monkeypatch):
    """4,000 × 4,000 cells would be 64 MB in float32."""
    x = np.sin(np.linspace(0, 60, 4000)).astype(np.float32)
    y = x[np.minimum(np.arange(4000) + 20, 3999)]
    a = udtw.align(x, y, "estimate", "estimate", gamma="auto", band=200)
    for name in ("coupling", "transitions"):
        monkeypatch.setattr(type(a.paths._backend), name, None)
    found = a.matches()
    assert np.abs(found.expected[100:-100] - np.arange(80, 3880)).max() < 12
    assert ((found.low <= found.index) & (found.index <= found.high)).all()


def test_a_network_learns_the_noise_by_the_free_energy():
    """Without labels: matching pairs, in which some steps are noisy in a way that the network can see."""
    torch.manual_seed(0)
    clean = torch.sin(torch.linspace(0, 6, 40))[None, :, None].expand(16, 40, 1)
    rough = torch.zeros(16, 40, 1)
    rough[:, 25:32] = 1.5
    x, y = clean + 0.1 * torch.randn(16, 40, 1), clean + (0.1 + rough) * torch.randn(16, 40, 1)
    net = SigmaNet(1, context=5, sigma_range=(0.1, 3.1))
    loss = UDTWLoss(net, gamma=4.0, weighting="likelihood", normalize="length")
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    first = float(loss(x, y).detach())
    for _ in range(60):
        optimizer.zero_grad()
        value = loss(x, y)
        value.backward()
        optimizer.step()
    assert float(value.detach()) < first - 0.2
    with torch.no_grad():
        variance = net(y)
    assert variance[:, 25:32].mean() > 3 * variance[:, :20].mean()


def test_variances_estimated_from_the_roughness_of_the_series():
    rng = np.random.default_rng(1)
    noise = np.full(200, 0.05)
    noise[80:110] = 1.0
    x = np.sin(np.arange(200) / 15) + noise * rng.standard_normal(200)
    found = udtw.align(x, x[::-1].copy(), "estimate", "estimate", weighting="likelihood", gamma="auto")
    of_x, of_y = found.step_variances
    assert of_x[85:105].mean() > 50 * of_x[:60].mean()
    assert np.allclose(of_x, of_y[::-1])
    assert np.array_equal(found.loss, udtw.align(x, x[::-1], of_x, of_y, weighting="likelihood", gamma=4.0).loss)
    padded = np.stack([x, np.r_[x[:50], np.full(150, np.nan)]])[:, :, None]
    both = udtw.align(padded, padded, "estimate", "estimate", lengths_x=[200, 50], lengths_y=[200, 50])
    alone = udtw.align(x[:50], x[:50], "estimate", "estimate")
    assert both.loss[1] == pytest.approx(float(alone.loss))
    constant = udtw.align(np.ones(5), np.ones(5), "estimate", "estimate", weighting="likelihood")
    assert np.isfinite(constant.loss)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, Y, "guess"), {}, "var_x must be variances, or 'estimate' beside sequences; got 'guess'"),
        ((None, None, "estimate"), {"cost": np.zeros((3, 3))}, "beside sequences"),
        ((X, Y), {"gamma": "auto"}, "needs variances"),
        ((X, Y, NOISE), {"gamma": "cold"}, "a number or 'auto'; got 'cold'"),
    ],
)
def test_words_that_are_not_known(arguments, options, message):
    with pytest.raises(OptionError, match=message):
        udtw.align(*arguments, **options)


def test_an_estimate_needs_three_steps():
    with pytest.raises(LengthError, match="at least three steps; sequence 0 has 2"):
        udtw.align(np.zeros(2), np.zeros(4), "estimate")


@pytest.mark.parametrize("options", [{"weighting": "likelihood"}, {"warp_penalty": 0.5}])
def test_unusable_values_are_named_as_the_user_gave_them(options):
    with pytest.raises(VarianceError, match=r"var_x\[0, 2\] is -1.0"):
        udtw.align(X, Y, np.array([1.0, 1.0, -1.0, 1.0]), **options)
    with pytest.raises(NonFiniteError, match=r"^y\[0, 4"):
        udtw.align(X, np.r_[Y[:4], np.nan], NOISE, **options)
    with pytest.raises(NonFiniteError, match=r"^y\[0, 4"):
        udtw.dtw(X, np.r_[Y[:4], np.nan], warp_penalty=0.5)


def test_a_negative_beta_per_pair_is_refused():
    with pytest.raises(OptionError, match=r"must not be negative; got -0\.5"):
        udtw.align(np.zeros((2, 4, 1)), np.zeros((2, 5, 1)), weighting="likelihood", beta=torch.tensor([1.0, -0.5]))


def test_the_divergence_of_the_free_energy_is_zero_for_equal_series():
    x, noise = RNG.standard_normal((9, 2)), RNG.uniform(0.2, 2, 9)
    y, other = RNG.standard_normal((7, 2)), RNG.uniform(0.2, 2, 7)
    options = {"weighting": "likelihood", "gamma": 4.0, "warp_penalty": 0.3}
    assert float(udtw.align(x, x, noise, noise, debias=True, **options).loss) == pytest.approx(0, abs=1e-12)
    pairs = (x, y, noise, other), (x, x, noise, noise), (y, y, other, other)
    parts = [udtw.align(*pair, **options).free_energy for pair in pairs]
    expected = parts[0] - 0.5 * (parts[1] + parts[2])
    assert float(udtw.align(x, y, noise, other, debias=True, **options).loss) == pytest.approx(float(expected))
