"""Fréchet means and their uncertainty."""

import numpy as np
import pytest
import torch

import udtw
from udtw._engine.metrics import get_metric
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError
from udtw.nn import SigmaNet
from udtw.timeseries import barycenter
from udtw.timeseries.base import resample

from .helpers import bumps

METRICS = ("euclidean", "dtw", "soft_dtw", "soft_dtw_divergence", "udtw")
SERIES = bumps(per_class=5)[0][5:]
RAGGED = [SERIES[0][:20], SERIES[1], SERIES[2][:25, None].ravel()]


def objective(series, found, metric, **options):
    """The objective from public distances alone."""
    total = 0.0
    for x in series:
        if metric == "udtw":  # log Σ counts relative to its mean over the cells of the grid
            variance = np.tile(found.variance, (len(x), 1))
            total += udtw.align(x, found.mean, variance=variance, warp_penalty=2.0, **options).loss / len(series)
        else:
            total += getattr(udtw, metric)(x, found.mean, **options) / len(series)
    if metric == "udtw":
        ratio = 1 / (1 / found.variance).mean() / found.variance
        total += 2 / len(series) * (ratio - np.log(ratio) - 1).sum()  # the prior
    return total


@pytest.mark.parametrize("metric", METRICS)
def test_the_reported_objective_is_the_weighted_sum_of_distances(metric):
    options = {} if metric in ("euclidean", "dtw") else {"gamma": 0.3}
    found = barycenter(SERIES, metric, **options)
    assert found.mean.shape == (30,)
    assert found.loss == pytest.approx(objective(SERIES, found, metric, **options), rel=1e-9)
    assert found.trace[-1] == found.loss


@pytest.mark.parametrize("metric", METRICS)
def test_the_trace_never_rises_and_nothing_nearby_is_better(metric):
    options = {} if metric in ("euclidean", "dtw") else {"gamma": 0.3}
    found = barycenter(SERIES, metric, max_iter=300, tol=1e-10, **options)
    assert (np.diff(found.trace) <= 1e-9).all()
    rng = np.random.default_rng(0)
    for _ in range(5):
        other = type(found)(found.mean + 0.01 * rng.standard_normal(30), found.variance, 0.0, [], True, 0)
        assert objective(SERIES, other, metric, **options) > found.loss


def test_the_mean_of_copies_is_the_series_itself():
    copies = np.stack([SERIES[0]] * 3)
    np.testing.assert_allclose(barycenter(copies, "dtw").mean, SERIES[0])
    found = barycenter(copies, "soft_dtw_divergence", gamma=0.1, max_iter=200)
    np.testing.assert_allclose(found.mean, SERIES[0], atol=1e-3)
    assert found.loss == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("metric", METRICS[1:])
@pytest.mark.parametrize("length", [None, 12, 41])
def test_ragged_series_and_any_target_length(metric, length):
    found = barycenter(RAGGED, metric, length=length, max_iter=5)
    assert found.mean.shape == (length or 25,)
    assert np.isfinite(found.mean).all()


def test_features_stay_features():
    series = np.random.default_rng(0).standard_normal((4, 9, 2))
    found = barycenter(series, gamma=0.5, max_iter=5)
    assert found.mean.shape == (9, 2)
    assert found.variance.shape == (9,)


def test_uncertainty_is_learned_where_the_series_disagree():
    rng = np.random.default_rng(0)
    noisy = np.tile(3 * np.sin(np.linspace(0, 6, 40)), (12, 1))
    noisy[:, 15:22] += 2.5 * rng.standard_normal((12, 7))
    for weighting in ("likelihood", "precision"):
        options = {"gamma": 0.1, "beta": 0.2} if weighting == "precision" else {}
        variance = barycenter(noisy, weighting=weighting, **options).variance
        inside = variance[15:22].mean()
        outside = np.delete(variance, np.arange(13, 24)).mean()
        assert inside > 5 * outside


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_the_noisy_stretch_is_found_whatever_the_units(scale):
    """Warped copies with noise of 0.1, and of 0.8 in a stretch; nothing is said about either."""
    rng = np.random.default_rng(0)
    series = []
    for _ in range(12):
        time = np.linspace(0, 1, 80) ** np.exp(rng.uniform(-0.3, 0.3))
        noise = np.where((time > 0.5) & (time < 0.7), 0.8, 0.1)
        series.append(scale * (2 * np.sin(9 * time) + noise * rng.standard_normal(80)))
    sigma = np.sqrt(barycenter(series).variance) / scale
    assert sigma[44:52].mean() > 0.4
    assert np.median(sigma[:35]) < 0.2
    assert sigma.min() > 0.05, "no step is certain because a few series agree"


def test_default_means_are_smooth():
    series = np.sin(np.arange(60) / 6) + 0.5 * np.random.default_rng(0).standard_normal((10, 60))
    rough = {metric: np.square(np.diff(barycenter(series, metric).mean, 2)).mean() for metric in ("dtw", "udtw")}
    assert rough["udtw"] < 0.1 * rough["dtw"]


def test_one_series_and_constant_series_have_means():
    alone = barycenter([SERIES[0]])
    assert np.isfinite(alone.mean).all()
    flat = barycenter(np.ones((3, 8)))
    np.testing.assert_allclose(flat.mean, 1)
    assert (flat.variance > 0).all()


def test_noise_is_a_unit_of_the_series():
    """Σ/noise is all that counts: series and noise in other units give the same mean in those units."""
    rng = np.random.default_rng(0)
    series = np.sin(np.arange(20) / 3) + 0.3 * rng.standard_normal((6, 20))
    for weighting in ("likelihood", "precision"):
        one = barycenter(series, noise=0.04, max_iter=20, weighting=weighting)
        ten = barycenter(10 * series, noise=4.0, max_iter=20, weighting=weighting)
        np.testing.assert_allclose(ten.mean, 10 * one.mean, rtol=1e-6)
        np.testing.assert_allclose(ten.variance, 100 * one.variance, rtol=1e-6)
    same = barycenter(series / 0.2, max_iter=20, weighting="precision")
    np.testing.assert_allclose(same.mean, one.mean / 0.2, rtol=1e-6)
    assert same.loss == pytest.approx(one.loss)


def test_uncertainty_is_the_deviation_of_the_series_in_their_own_units():
    rng = np.random.default_rng(1)
    series = 0.5 * rng.standard_normal((200, 12))
    # Without warping the truth is known.
    found = barycenter(series, noise=0.01, beta=1.0, gamma=1.0, band=0, weighting="precision")
    np.testing.assert_allclose(0.01 + found.variance, series.var(0), rtol=0.02)
    np.testing.assert_allclose(barycenter(series, band=0).variance, series.var(0), rtol=0.02)
    excess = barycenter(series, band=0, noise=0.1).variance
    np.testing.assert_allclose(0.1 + excess, series.var(0), rtol=0.02)
    paper = barycenter(series, gamma=1.0, band=0, weighting="precision")
    assert paper.variance.max() < 0.01, "below Σ = 1 nothing is uncertain"


def test_a_large_beta_forbids_uncertainty_and_lam_pulls_to_unit_variance():
    wide = 4 * SERIES
    assert barycenter(wide, beta=50.0, weighting="precision").variance.max() < 0.01
    free, pulled = (
        barycenter(wide, get_metric("udtw", beta=0.05, lam=lam, weighting="precision")) for lam in (0.0, 5.0)
    )
    assert pulled.variance.max() < free.variance.max()


def test_a_network_is_trained_with_the_mean_and_the_given_one_stays():
    torch.manual_seed(0)
    net = SigmaNet(1, context=5)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = barycenter(SERIES, sigma=net, gamma=0.3, beta=0.2, max_iter=20, weighting="precision")
    assert found.loss < found.trace[0]
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert found.sigma is not None
    trained = found.sigma(torch.tensor(found.mean)[:, None])
    np.testing.assert_allclose(found.variance, trained.detach().numpy())
    expected = np.mean(
        [
            udtw.align(
                x, found.mean, found.sigma(torch.tensor(x)[:, None]).detach().numpy(), found.variance,
                gamma=0.3, beta=0.2, weighting="precision",
            ).loss
            for x in SERIES
        ]
    )  # fmt: skip
    assert found.loss == pytest.approx(expected, rel=1e-9)


def test_weights_interpolate_between_two_series():
    a, b = SERIES[0], SERIES[3]
    near_a, near_b = (barycenter([a, b], "soft_dtw_divergence", gamma=0.1, weights=w).mean for w in ([9, 1], [1, 9]))
    assert udtw.dtw(near_a, a) < udtw.dtw(near_a, b)
    assert udtw.dtw(near_b, b) < udtw.dtw(near_b, a)
    np.testing.assert_allclose(barycenter([a, b], "euclidean", weights=[1, 3]).mean, 0.25 * a + 0.75 * b)


@pytest.mark.parametrize("init", ["medoid", SERIES[2], SERIES[2][:, None]], ids=["medoid", "series", "column"])
def test_every_start_is_accepted_and_kept(init):
    kept = init.copy() if isinstance(init, np.ndarray) else init
    assert barycenter(SERIES, "dtw", init=init, max_iter=3).mean.shape == (30,)
    assert np.array_equal(kept, init)


def test_stopping_early_says_so():
    assert not barycenter(SERIES, gamma=0.1, max_iter=2).converged
    assert barycenter(SERIES, "soft_dtw", gamma=1.0, max_iter=500).converged


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: barycenter(SERIES, "cosine"), OptionError),
        (lambda: barycenter(RAGGED, "euclidean"), LengthError),
        (lambda: barycenter(SERIES, length=0), LengthError),
        (lambda: barycenter(SERIES, weights=[1, 2]), ShapeError),
        (lambda: barycenter(SERIES, weights=[-1, 1, 1, 1, 1]), OptionError),
        (lambda: barycenter(SERIES, init="best"), OptionError),
        (lambda: barycenter(SERIES, init=np.zeros((5, 3))), ShapeError),
        (lambda: barycenter(SERIES, init=np.full(5, np.nan)), NonFiniteError),
        (lambda: barycenter(SERIES, sigma="wide"), OptionError),
        (lambda: barycenter(SERIES, noise=0.0), OptionError),
        (lambda: barycenter([[1.0, np.nan]], "dtw"), NonFiniteError),
    ],
)
def test_bad_input_is_a_named_error(call, error):
    with pytest.raises(error):
        call()


def test_missing_steps_can_be_left_out():
    broken = SERIES.copy()
    broken[0, 4] = np.nan
    assert np.isfinite(barycenter(broken, "dtw", nan_policy="omit", length=30).mean).all()


def test_resampling_keeps_the_ends_and_lines():
    line = np.linspace(2, 5, 7)[:, None]
    np.testing.assert_allclose(resample(line, 4)[:, 0], np.linspace(2, 5, 4))
    np.testing.assert_allclose(resample(line, 20)[:, 0], np.linspace(2, 5, 20))
