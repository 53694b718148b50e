"""`udtw.match` on pairs with known warps: intervals hold, the verdict is right, bad input is named."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
import torch

import udtw
from experiments.alignments.synthetic import pair
from udtw._engine import between, rehearsal, trust
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError

STEPS = 100


def smooth(rng, width, steps=STEPS):
    reach = int(4 * width)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.convolve(rng.standard_normal(steps + 2 * reach), kernel / np.linalg.norm(kernel), "valid")


def correlated(rng, rho, deviation):
    noise = np.zeros(STEPS + 100)
    for i in range(1, len(noise)):
        noise[i] = rho * noise[i - 1] + deviation * np.sqrt(1 - rho**2) * rng.standard_normal()
    return noise[100:]


def warped_pair(seed, noise=0.1):
    """x, y and the true position in y of every step of x."""
    rng = np.random.default_rng(seed)
    y = smooth(rng, 4)
    warp = np.cumsum(np.exp(0.6 * smooth(rng, 8)))
    warp = (warp - warp[0]) / (warp[-1] - warp[0]) * (STEPS - 1)
    x = np.interp(warp, np.arange(STEPS), y)
    return x + noise * rng.standard_normal(STEPS), y + noise * rng.standard_normal(STEPS), warp


def coverage(match, truth):
    inside = np.isfinite(truth) & (match.low >= 0)
    return ((truth >= match.low - 0.5) & (truth <= match.high + 0.5))[inside].mean()


def shifted(x, y, rng):
    return x + 0.8, y


def scaled(x, y, rng):
    return 40 * x + 500, 7 * y - 3


def drifting(x, y, rng):
    return x + np.linspace(-1, 1, STEPS), y


def coloured(x, y, rng):
    return x + correlated(rng, 0.9, 0.3), y + correlated(rng, 0.9, 0.3)


def spiky(x, y, rng):
    x, y = x.copy(), y.copy()
    for one in (x, y):
        one[rng.integers(0, STEPS, 5)] += 3 * rng.standard_normal(5)
    return x, y


@pytest.mark.parametrize("spoil", [shifted, scaled, drifting, coloured, spiky])
def test_intervals_hold_whatever_differs_between_the_series(spoil):
    held = []
    for seed in range(8):
        x, y, warp = warped_pair(seed)
        held.append(coverage(udtw.match(*spoil(x, y, np.random.default_rng(seed))), warp))
    assert np.mean(held) > 0.8, np.round(held, 2)


def test_units_are_found():
    x, y, _ = warped_pair(1)
    noise = udtw.match(3 * x + 7, y).noise
    assert noise.gain == pytest.approx(3, rel=0.15)
    assert noise.offset == pytest.approx(7, abs=0.5)
    assert noise.var_x.shape == (STEPS,)


def test_results_do_not_depend_on_units():
    x, y, _ = warped_pair(2)
    plain, scaled_by_2 = udtw.match(x, y), udtw.match(2 * x, 2 * y)  # powers of two: no rounding
    assert np.array_equal(plain.low, scaled_by_2.low)
    assert np.array_equal(plain.high, scaled_by_2.high)
    assert plain.trust.p_value == scaled_by_2.trust.p_value


def test_a_lag_is_found_and_reported():
    rng = np.random.default_rng(0)
    long = smooth(rng, 4, STEPS + 25)
    x, y = (one + 0.1 * rng.standard_normal(STEPS) for one in (long[:STEPS], long[25:]))
    m = udtw.match(x, y)
    truth = np.arange(STEPS) - 25.0
    alone = np.asarray(m.index) < 0
    assert m.noise.open_ends
    assert abs(int(alone.sum()) - 25) <= 3
    assert alone[:20].all()
    assert coverage(m, np.where(truth >= 0, truth, np.nan)) > 0.85
    assert "no partner" in m.trust.sentence
    assert not udtw.match(x, y, lag=False).noise.open_ends


def test_a_series_that_nearly_repeats_itself_is_not_matched_a_period_off():
    drawn = pair("colored 0.9", 1.0, [100, 10])
    m = udtw.match(drawn.x, drawn.y)
    assert not m.noise.open_ends
    assert np.abs(m.expected - drawn.truth).mean() < 5


def test_correlated_noise_widens_intervals_and_is_reported():
    x, y, _ = warped_pair(3)
    rng = np.random.default_rng(3)
    x_noisy, y_noisy = coloured(x, y, rng)
    plain, noisy = udtw.match(x, y), udtw.match(x_noisy, y_noisy)
    assert noisy.noise.correlation_time > 3 > plain.noise.correlation_time
    assert (noisy.high - noisy.low).mean() > 1.5 * (plain.high - plain.low).mean()


def test_unrelated_series_are_not_a_good_match():
    rng = np.random.default_rng(5)
    verdicts = [
        udtw.match(rng.standard_normal(90).cumsum(), rng.standard_normal(80).cumsum()).trust.verdict for _ in range(12)
    ]
    assert verdicts.count("good") <= 1
    assert verdicts.count("none") >= 4


def test_a_partner_that_explains_little_is_not_a_good_match(monkeypatch):
    monkeypatch.setattr(trust, "compare_with_unrelated", lambda x, y: (0.005, False))  # by chance, or by their form
    x, y, _ = warped_pair(0)
    fit = between.fit_between(x[None, :, None], y[None, :, None])
    noisy = replace(fit, x=fit.x + 3 * fit.x.std() * np.random.default_rng(0).standard_normal(fit.x.shape))
    trusts = [trust.judge(one, 0.9, 0.9, 0.1) for one in (fit, noisy)]
    assert trusts[0].verdict == "good"
    assert trusts[1].explained < 0.5
    assert trusts[1].verdict == "weak"


def test_true_pairs_are_hardly_ever_no_match():
    verdicts = [udtw.match(*warped_pair(seed, 0.2)[:2]).trust.verdict for seed in range(12)]
    assert verdicts.count("none") <= 1
    assert verdicts.count("good") >= 5


def test_a_series_matches_itself():
    x, _, _ = warped_pair(0)
    m = udtw.match(x, x)
    assert m.trust.verdict == "good"
    assert np.array_equal(m.index, np.arange(STEPS))


def test_mirrored_periodic_and_straight_series_get_no_confident_verdict():
    x, y, _ = warped_pair(4)
    mirrored = udtw.match(x, -y).trust
    assert mirrored.verdict == "none"
    assert "upside down" in mirrored.sentence
    rng = np.random.default_rng(0)
    wave = np.sin(np.arange(200) / 5)
    periodic = udtw.match(wave + 0.1 * rng.standard_normal(200), wave + 0.1 * rng.standard_normal(200)).trust
    assert periodic.verdict == "weak"
    assert "repeats itself" in periodic.sentence
    assert udtw.match(np.arange(50.0), np.arange(60.0) ** 1.05).trust.verdict != "good"


def test_warp_takes_arrays_that_are_read_only():
    """As pandas gives them."""
    ages = np.arange(6.0)
    ages.flags.writeable = False
    mean, _ = udtw.match([0.0, 1.0, 4.0, 1.0, 0.0, 2.0], [0.0, 1.0, 4.0, 1.0, 0.0, 2.0]).warp(ages)
    assert mean == pytest.approx(ages, abs=0.5)


def test_warp_brings_values_to_the_other_axis_with_gradients():
    x, y, _ = warped_pair(6)
    m = udtw.match(x, y)
    mean, std = m.warp(y)
    assert mean.shape == std.shape == (STEPS,)
    assert np.abs(mean - x).mean() < 0.2
    assert (std >= 0).all()
    table = np.stack([y, 2 * y], 1)
    assert np.allclose(m.warp(table)[0][:, 1], 2 * mean)
    assert np.allclose(m.warp(np.ones(STEPS))[0], 1)
    assert np.allclose(m.warp(np.ones(STEPS))[1], 0)
    values = torch.tensor(y, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: m.warp(v)[0], values)
    with pytest.raises(ShapeError, match="one row for each of the 100 steps of y"):
        m.warp(y[:5])


def test_several_features_batches_tensors_and_frames():
    x, y, warp = warped_pair(7)
    two_x, two_y = np.stack([x, -x], 1), np.stack([y, -y], 1)
    m = udtw.match(two_x, two_y)
    assert coverage(m, warp) > 0.8
    assert m.noise.var_x.shape == (STEPS, 2)
    several = udtw.match(np.stack([two_x, two_x]), np.stack([two_y, two_y]))
    assert len(several) == 2
    assert np.array_equal(several[0].low, m.low)
    assert isinstance(udtw.match(torch.tensor(x), torch.tensor(y)).low, torch.Tensor)
    frame = udtw.match(pandas.Series(x, index=range(5, 105)), pandas.Series(y)).to_frame()
    assert list(frame.columns) == ["j", "probability", "expected", "low", "high", "matched", "partner"]
    assert frame.index[0] == 5


def test_uneven_times_are_used():
    x, y, warp = warped_pair(8, 0.05)
    keep = np.sort(np.random.default_rng(0).permutation(STEPS)[:80])
    keep[0], keep[-1] = 0, STEPS - 1
    times = pandas.Timestamp("2026-01-01") + pandas.to_timedelta(np.unique(keep), unit="s")
    m = udtw.match(pandas.Series(x[np.unique(keep)], index=times), y)
    assert coverage(m, warp[np.unique(keep)]) > 0.8


def test_dates_that_overlap_nowhere_are_reported():
    x, y, _ = warped_pair(0)
    first, later, overlapping = (
        pandas.date_range(day, periods=STEPS) for day in ("2020-01-01", "2024-01-01", "2020-02-01")
    )
    apart = udtw.match(pandas.Series(x, first), pandas.Series(y, later)).trust
    together = udtw.match(pandas.Series(x, first), pandas.Series(y, overlapping)).trust
    assert (apart.verdict, together.verdict) == ("weak", "good")
    assert "dates overlap nowhere" in apart.sentence
    assert "dates" not in together.sentence


def test_noise_of_other_pairs_can_be_used():
    pairs = [warped_pair(seed) for seed in range(3)]
    noise = udtw.fit_noise_between([(2 * x, y) for x, y, _ in pairs])
    assert noise.gain == pytest.approx(2, rel=0.1)
    x, y, warp = warped_pair(9)
    m = udtw.match(2 * x, y, noise=noise)
    assert coverage(m, warp) > 0.8
    assert m.noise.gain == pytest.approx(noise.gain)


def test_calibrate_takes_pairs_without_true_alignments():
    pairs = [warped_pair(seed, 0.2)[:2] for seed in range(3)]
    fitted = udtw.calibrate(pairs, var_x="estimate", var_y="estimate")
    assert 0.7 < fitted.coverage <= 1
    assert "drawn from the noise between" in repr(fitted)
    assert "white noise" in repr(udtw.calibrate([x for x, _ in pairs]))


@pytest.mark.parametrize(
    ("x", "y", "error", "words"),
    [
        ([1.0], [1.0, 2.0, 3.0], LengthError, "at least three steps; got 1 and 3"),
        (np.ones(9), np.arange(9.0), OptionError, "constant"),
        (np.full(9, np.nan), np.arange(9.0), NonFiniteError, "no value at all"),
        (np.r_[np.nan, np.arange(8.0)], np.arange(9.0), NonFiniteError, r"x\[0, 0\] is nan"),
        (np.arange(5.0), np.arange(600.0), LengthError, "more than a factor of 100"),
        (np.ones((9, 2)), np.ones((9, 3)), ShapeError, "same number of features; got 2 and 3"),
    ],
)
def test_bad_input_is_named(x, y, error, words):
    with pytest.raises(error, match=words):
        udtw.match(x, y)


def test_level_is_checked():
    with pytest.raises(OptionError, match="between 0 and 1"):
        udtw.match(np.arange(9.0), np.arange(9.0), level=90)


def test_intervals_are_nested_and_follow_their_level():
    x, y, _ = warped_pair(10)
    half, narrow, wide = (udtw.match(x, y, level=level) for level in (0.5, 0.9, 0.98))
    assert (half.high - half.low).mean() < 0.8 * (narrow.high - narrow.low).mean()
    assert (wide.low <= narrow.low).all()
    assert (wide.high >= narrow.high).all()


def test_rehearsal_recovers_noise_that_an_alignment_absorbs():
    """Estimated variances of smooth noise are far too low; the rehearsal knows by about how much."""
    x, y, _ = warped_pair(11, 0.0)
    rng = np.random.default_rng(11)
    true = 0.3**2
    fits = between.fit_between(
        (x + correlated(rng, 0.9, 0.3))[None, :, None], (y + correlated(rng, 0.9, 0.3))[None, :, None]
    )
    seen = float(fits.level[0] * fits.scale[0, 0] ** 2)
    tempered = rehearsal.rehearse(fits, 0.9)
    assert seen < 0.7 * true
    assert tempered.raw_inflation > 1.3
    assert 0.5 <= tempered.coverage <= 1


def test_blocks_take_every_step():
    values = np.arange(11.0)[None]
    assert between.averaged(values, 4).tolist() == [[1.5, 7.0]]
    assert between.averaged(values, 1) is values


def test_intervals_are_quantiles_within_blocks_rounded_to_whole_steps():
    low, high = rehearsal.intervals(np.eye(2)[None], 4, (11, 11), 0.5)
    assert (low[0, 0], high[0, 0]) == (0.5, 2.5)  # the middle half of the steps −½ to 3½
    assert (low[0, -1], high[0, -1]) == (5.25, 8.75)  # … 3½ to 10½
    assert (low[0, 0] <= low[0]).all()
    first, last = rehearsal.whole_steps(np.array([0.5, 4.9, 2.2]), np.array([2.5, 5.1, 6.3]))
    assert first.tolist() == [1.0, 5.0, 3.0]
    assert last.tolist() == [2.0, 5.0, 6.0]


def test_drawn_warps_move_as_freely_as_the_one_that_was_found():
    rng = np.random.default_rng(0)
    spreads = []
    for size in (0.05, 0.8):
        y = smooth(rng, 4, 400)
        warp = np.cumsum(np.exp(size * smooth(rng, 20, 400)))
        warp = (warp - warp[0]) / (warp[-1] - warp[0]) * 399
        x = np.interp(warp, np.arange(400), y) + 0.05 * rng.standard_normal(400)
        fit = between.fit_between(x[None, :, None], (y + 0.05 * rng.standard_normal(400))[None, :, None])
        _, _, warps = rehearsal.draw_pairs(rehearsal.Model.of(fit), float(fit.level[0]), 1.0, rng)
        spreads.append(np.log(np.diff(warps[:, ::20], axis=1)).std())
    assert spreads[0] < 0.25
    assert spreads[1] > 0.4


def test_warp_penalty_comes_from_the_evidence():
    """Counts of paths agree with the engine; a warp that hardly moves has a larger penalty than one that does."""
    for rows, columns, penalty in ((5, 7, 0.3), (30, 12, 2.0), (1, 4, 0.5)):
        free_energy = udtw.align(None, None, cost=np.zeros((rows, columns)), warp_penalty=penalty).free_energy
        assert between.log_path_count(rows, columns, penalty) == pytest.approx(-float(free_energy))
    rng = np.random.default_rng(1)
    y = smooth(rng, 4, 400)
    penalties = []
    for warp in (np.arange(400.0), 399 * np.linspace(0, 1, 400) ** 2):
        x = np.interp(warp, np.arange(400), y) + 0.1 * rng.standard_normal(400)
        fit = between.fit_between(x[None, :, None], (y + 0.1 * rng.standard_normal(400))[None, :, None])
        penalties.append(between.with_warp_penalty(fit).warp_penalty)
    assert penalties[0] > 0 == penalties[1]


def test_units_are_kept_unless_others_fit_far_better():
    """A gain that the evidence hardly supports would bend the warp; one that it demands is found."""
    x, y, _ = warped_pair(12)
    assert udtw.match(1.02 * x + 0.02, y).noise.gain == 1
    assert udtw.match(3 * x + 1, y).noise.gain == pytest.approx(3, rel=0.1)


def test_p_values_of_unrelated_series_are_not_small():
    rng = np.random.default_rng(2)
    p = [trust.compare_with_unrelated(smooth(rng, 4)[:, None], smooth(rng, 4)[:, None])[0] for _ in range(20)]
    assert np.mean(p) > 0.3
    assert np.mean(np.asarray(p) <= 0.05) <= 0.2


def test_a_stretch_without_variation_has_open_ends_all_the_same():
    """An unrelated step costs something, even where the other series is constant."""
    x, var = np.random.default_rng(0).standard_normal((1, 30, 1)), np.ones((1, 30))
    _, var_x, _, var_y = between.with_open_ends(x, var, np.zeros((1, 30, 1)), var)
    assert (var_x > 0).all()
    assert (var_y > 0).all()
