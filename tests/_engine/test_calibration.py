"""γ and ω fitted to known alignments."""

import numpy as np
import pytest
import torch

import udtw
from udtw._engine.align import align
from udtw._engine.warped_copies import SMOOTHING, random_warp, smoothed
from udtw.data.generators import known_warps
from udtw.errors import LengthError, NonFiniteError, OptionError, PathError, ShapeError, VarianceError

RNG = np.random.default_rng(0)


def pairs_of(data):
    return list(zip(data["x"], data["y"], strict=True))


def observed(data, fitted, *variances):
    """Coverage of 90 % intervals on pairs that were not used for the fit."""
    a = udtw.align(
        data["x"][..., None], data["y"][..., None], *variances, weighting="likelihood", gamma=fitted.gamma,
        warp_penalty=fitted.warp_penalty,
    )  # fmt: skip
    at = a.matches(0.9)
    return ((data["match"] >= at.low - 0.5) & (data["match"] <= at.high + 0.5)).mean()


@pytest.mark.parametrize(("gamma", "omega"), [(1.0, 0.5), (0.5, 1.0), (4.0, 0.0)])
def test_the_parameters_of_sampled_paths_are_found(gamma, omega, one_thread):
    rng = np.random.default_rng(3)
    pairs, paths = [], []
    for seed in range(150):
        x = 0.7 * rng.standard_normal(24).cumsum()
        y = x + 0.7 * rng.standard_normal(24)
        model = udtw.PathDistribution((x[:, None] - y) ** 2, gamma=gamma, warp_penalty=omega)
        pairs.append((x, y))
        paths += model.sample(1, generator=seed)
    fitted = udtw.calibrate(pairs, paths)
    assert fitted.gamma == pytest.approx(gamma, rel=0.25)
    assert fitted.warp_penalty / fitted.gamma == pytest.approx(omega / gamma, abs=0.25)


@pytest.mark.parametrize("variance", ["none", "true", "estimate"])
def test_intervals_hold_what_they_state_on_known_warps(variance, one_thread):
    train, test = known_warps(60, seed=11), known_warps(100, seed=12)
    choices = {"none": (None, None), "estimate": ("estimate", "estimate")}
    fit, judge = (choices.get(variance, (data["var_x"], data["var_y"])) for data in (train, test))
    fitted = udtw.calibrate(pairs_of(train), warps=train["match"], var_x=fit[0], var_y=fit[1], gamma=0.01)
    high = 0.95 if variance == "none" else 0.97  # intervals of whole steps hold more if they are short
    assert 0.85 < observed(test, fitted, *judge) < high
    assert fitted.coverage == fitted.observed[fitted.levels.index(0.9)]
    assert fitted.coverage == pytest.approx(observed(train, fitted, *fit))
    assert list(fitted.observed) == sorted(fitted.observed)


@pytest.mark.parametrize("variance", ["none", "true", "estimate"])
def test_warped_copies_need_no_true_alignment(variance, one_thread):
    """γ and ω from single series hold for real pairs, whose warps were never seen."""
    train, test = known_warps(60, seed=13), known_warps(100, seed=14)
    choices = {"none": (None, None), "estimate": ("estimate", "estimate")}
    fit, judge = (choices.get(variance, (data["var_x"], data["var_y"])) for data in (train, test))
    fitted = udtw.calibrate(list(train["x"]), var_x=fit[0])
    assert 0.85 < observed(test, fitted, *judge) < 0.95
    assert udtw.calibrate(list(train["x"]), var_x=fit[0]) == fitted
    assert udtw.calibrate(list(train["x"]), var_x=fit[0], random_state=1) != fitted


def test_no_start_gives_a_better_score(one_thread):
    data = known_warps(20, seed=15)
    options = {"warps": data["match"], "var_x": data["var_x"], "var_y": data["var_y"]}
    scores = [
        udtw.calibrate(pairs_of(data), gamma=gamma, warp_penalty=omega, **options).score
        for gamma, omega in ((None, 0.0), (1e-3, 0.0), (5.0, 2.0), (1e3, 0.0))
    ]
    assert np.ptp(scores) < 1e-4


def test_a_reward_for_warps_is_not_fitted(one_thread):
    data = known_warps(30, seed=1)
    assert udtw.calibrate(pairs_of(data), warps=data["match"], warp_penalty=1.0).warp_penalty == 0


@pytest.mark.parametrize("cells", [400, 100])
def test_pairs_of_different_lengths_and_features_in_chunks(monkeypatch, one_thread, cells):
    rng = np.random.default_rng(0)
    pairs, warps = [], []
    for n, m in ((12, 9), (10, 14), (7, 7), (11, 13)):
        y = rng.standard_normal((m, 2)).cumsum(0)
        warp = np.linspace(0, m - 1, n)
        x = np.stack([np.interp(warp, np.arange(m), column) for column in y.T], 1)
        pairs.append((torch.from_numpy(x + 0.3 * rng.standard_normal(x.shape)), y))
        warps.append(warp)
    options = {"warps": warps, "var_x": 0.1, "var_y": 0.1, "weighting": "precision", "band": 0.8}
    at_once = udtw.calibrate(pairs, **options)
    shapes = []

    def watched(x, y, *variances, **more):
        shapes.append((len(x), x.shape[1] * y.shape[1]))
        return align(x, y, *variances, **more)

    monkeypatch.setattr("udtw._engine.calibration.align", watched)
    monkeypatch.setattr("udtw._engine.calibration.CELLS_PER_CHUNK", cells)
    in_chunks = udtw.calibrate(pairs, **options)
    assert all(count == 1 or count * size <= cells for count, size in shapes)
    assert max(count for count, _ in shapes) == (2 if cells == 400 else 1)
    assert in_chunks.gamma == pytest.approx(at_once.gamma, rel=1e-6)
    assert in_chunks.coverage == at_once.coverage


def test_a_price_that_cannot_be_too_high_stays_bounded(one_thread):
    """All true paths are diagonals through noise: the score improves with every increase of ω/γ."""
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.standard_normal((2, 12))) for _ in range(10)]
    fitted = udtw.calibrate(pairs, warps=[np.arange(12.0)] * 10, warp_penalty=30.0)
    assert 5 < fitted.warp_penalty / fitted.gamma <= 20 * (1 + 1e-9)
    assert fitted.score < 0.01


def test_the_score_is_the_probability_that_matches_state():
    x, y = RNG.standard_normal((2, 3, 8))
    path = np.stack([np.arange(8)] * 2, 1)
    fitted = udtw.calibrate(list(zip(x, y, strict=True)), [path] * 3)
    coupling = udtw.align(x[..., None], y[..., None], weighting="likelihood", **fitted.options).coupling
    share = coupling / coupling.sum(2, keepdims=True)
    assert fitted.score == pytest.approx(-np.log(share[:, np.arange(8), np.arange(8)]).mean(), rel=1e-4)


def test_random_warps_are_monotone_and_as_strong_as_stated():
    rng = np.random.default_rng(0)
    for strength in (0.1, 0.6):
        warps = np.stack([random_warp(200, strength, rng) for _ in range(50)])
        assert (np.diff(warps) > 0).all()
        assert np.allclose(warps[:, [0, -1]], [0, 199])
        assert np.log(np.diff(warps)).std(1).mean() == pytest.approx(strength, rel=0.15)


def test_smoothing_removes_most_of_the_noise_and_little_of_the_series():
    rng = np.random.default_rng(0)
    clean = np.sin(np.arange(120) / 8)[:, None]
    noise = np.full(120, 0.01)
    noise[50:60] = 0.5
    found = smoothed(clean + np.sqrt(noise)[:, None] * rng.standard_normal((120, 1)), noise)
    assert np.square(found - clean).mean() < 0.2 * noise.mean()


def test_smoothing_has_the_least_penalised_error():
    rng = np.random.default_rng(1)
    series, noise = rng.standard_normal((15, 2)).cumsum(0), rng.uniform(0.1, 2, 15)
    bend = np.diff(np.eye(15), n=2, axis=0)
    weight = np.diag(1 / noise) / (1 / noise).mean()
    exact = [np.linalg.solve(weight + s * bend.T @ bend, weight @ series) for s in SMOOTHING]
    assert min(np.abs(smoothed(series, noise) - one).max() for one in exact) < 1e-9


def test_series_without_noise_cannot_be_calibrated():
    with pytest.raises(OptionError, match="no noise"):
        udtw.calibrate(np.ones((4, 12)))


SERIES = [RNG.standard_normal(6) for _ in range(4)]
PAIRS = [(one, one + 0.1) for one in SERIES]
PATH = np.stack([np.arange(6)] * 2, 1)
WARP = np.arange(6.0)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((PAIRS[:2], [PATH] * 2), {}, LengthError, "at least 3 pairs.* got 2"),
        ((PAIRS, [PATH] * 3), {}, LengthError, "One true alignment per pair is needed: 4; got 3"),
        ((PAIRS, [PATH] * 4), {"warps": [WARP] * 4}, OptionError, "not both"),
        ((PAIRS, [PATH[1:]] * 4), {}, PathError, r"true_paths\[0\] must go from \[0, 0\] to \[5, 5\]"),
        ((PAIRS, [PATH[[0, 1, 3, 4, 5]]] * 4), {}, PathError, r"step 1 goes from \[1, 1\] to \[3, 3\]"),
        ((PAIRS, [PATH[[0, 1, 1, 2, 3, 4, 5]]] * 4), {}, PathError, r"step 1 goes from \[1, 1\] to \[1, 1\]"),
        ((PAIRS, [PATH.astype(float)] * 4), {}, PathError, "integer array"),
        ((PAIRS,), {"warps": [WARP[:5]] * 4}, LengthError, r"warps\[0\] must hold a position for each of the 6 steps"),
        ((PAIRS,), {"warps": [WARP[::-1]] * 4}, PathError, "must not decrease; it goes from 5 to 4 at step 0"),
        ((PAIRS,), {"warps": [WARP + 1] * 4}, PathError, r"must lie in \[0, 5\]; it goes from 1 to 6"),
        ((PAIRS,), {"warps": [WARP * np.nan] * 4}, NonFiniteError, r"warps\[0\] holds NaN"),
        ((SERIES, [PATH] * 4), {}, OptionError, "pair 0 is not"),
        (([PAIRS[0], PAIRS[0][0], PAIRS[1]],), {}, OptionError, "some are single series"),
        ((SERIES,), {"var_y": 1.0}, OptionError, "as var_x"),
        ((SERIES,), {"speed_std": -1.0}, OptionError, "speed_std must be a number, 0 or more; got -1.0"),
        (([one[:2] for one in SERIES],), {}, LengthError, "at least three steps; got 2"),
        ((PAIRS, [PATH] * 4), {"level": 1.0}, OptionError, "between 0 and 1"),
        ((PAIRS, [PATH] * 4), {"gamma": -1.0}, OptionError, "must be a positive number; got -1.0"),
        ((PAIRS, [PATH] * 4), {"var_x": [np.zeros(6)] * 4}, VarianceError, "positive"),
        (([(a, a) for a in SERIES], [PATH] * 4), {}, OptionError, "no noise to fit"),
        (([(a, np.zeros((6, 2))) for a in SERIES], [PATH] * 4), {}, ShapeError, "same features; got 1 and 2"),
    ],
)
def test_bad_input_is_named(arguments, options, error, message):
    with pytest.raises(error, match=message):
        udtw.calibrate(*arguments, **options)
