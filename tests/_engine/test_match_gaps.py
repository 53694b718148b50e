"""`udtw.match` with stretches that belong to one series only, and with tie points."""

import numpy as np
import pandas
import pytest
import torch

import udtw
from experiments.alignments.left_out import f1_score, pair_with_stretches
from udtw.errors import BandError, OptionError


@pytest.mark.parametrize("kind", ["missing", "inserted"])
def test_stretches_of_one_series_are_left_out_and_no_longer_bend_the_warp(kind):
    left_out, truth, errors = [], [], {True: [], False: []}
    for seed in (0, 2, 4):
        pair, in_x, in_y = pair_with_stretches(kind, 0.3, seed)
        for gaps in (True, False):
            m = udtw.match(pair.x, pair.y, gaps=gaps)
            known = in_x & (m.index >= 0)
            errors[gaps].append(np.abs(m.expected - pair.truth)[known].mean())
            if gaps:
                assert m.noise.gaps
                assert "have no partner" in m.trust.sentence
                left_out += [1 - m.matched, 1 - m.matched_y]
                truth += [~in_x, ~in_y]
    assert f1_score(np.concatenate(left_out), np.concatenate(truth)) > 0.85
    assert np.mean(errors[True]) < 0.6 * np.mean(errors[False])


def test_a_pair_without_gaps_is_matched_as_without_the_option():
    for seed in (0, 1):
        pair, _, _ = pair_with_stretches("nothing", 0.0, seed)
        plain, found = udtw.match(pair.x, pair.y), udtw.match(pair.x, pair.y, gaps=True)
        assert not found.noise.gaps
        assert (found.matched == 1).all()
        assert (found.matched_y == 1).all()
        for name in ("expected", "low", "high"):
            assert np.array_equal(getattr(found, name), getattr(plain, name))


def test_unmatched_steps_have_no_partner_in_any_result():
    pair, in_x, _ = pair_with_stretches("inserted", 0.3, 1)
    m = udtw.match(torch.from_numpy(pair.x), pair.y, gaps=True)
    alone = m.matched < 0.5
    assert 20 < int(alone.sum()) < 40
    assert (m.index[alone] == -1).all()
    assert m.expected[alone].isnan().all()
    mean, deviation = m.warp(pair.y)
    assert np.array_equal(np.isnan(mean), alone.numpy())
    assert np.array_equal(np.isnan(deviation), alone.numpy())
    assert m.to_frame()["j"].eq(-1).sum() == int(alone.sum())
    assert isinstance(m.matched_y, torch.Tensor)
    assert m.alignment.matches(of="y").matched.shape == m.matched_y.shape
    again = udtw.match(pair.x, pair.y, gaps=True, noise=m.noise)
    assert f1_score(1 - again.matched, ~in_x) > 0.8


def test_several_features_and_batches_leave_steps_out():
    pair, in_x, _ = pair_with_stretches("inserted", 0.3, 1)
    other, _, _ = pair_with_stretches("nothing", 0.0, 1)
    x, y = (np.stack([one, np.roll(one, 3)], 1) for one in (pair.x, pair.y))
    found = udtw.match(x[None], y[None], gaps=True, anchors=[(2, 2, 30.0)])
    assert f1_score(1 - found[0].matched, ~in_x) > 0.8
    assert not udtw.match(other.x[None, :, None], other.y[None, :, None], gaps=True)[0].noise.gaps


def test_ties_draw_the_match_to_them():
    pair, _, _ = pair_with_stretches("nothing", 0.0, 3)
    free = udtw.match(pair.x, pair.y)
    j = int(free.index[50]) + 6
    hard = udtw.match(pair.x, pair.y, anchors=[(50, j, None)])
    assert hard.index[50] == hard.low[50] == hard.high[50] == j
    assert hard.expected[50] == j
    soft = udtw.match(pair.x, pair.y, anchors=[(50, j, 0.5)])
    assert free.expected[50] < soft.expected[50] <= j + 1
    frame = pandas.DataFrame({"i": [50], "j": [j], "sd": [0.0]})
    assert udtw.match(pair.x, pair.y, anchors=frame).index[50] == j
    with_gaps = udtw.match(pair.x, pair.y, anchors=[(50, j, None)], gaps=True)
    assert with_gaps.index[50] == j


def test_a_tie_can_say_that_one_series_begins_later():
    pair, _, _ = pair_with_stretches("nothing", 0.0, 3)
    begin = int(udtw.match(pair.x, pair.y).index[20])
    m = udtw.match(pair.x[20:], pair.y, anchors=[(0, begin, None)])
    assert m.noise.open_ends
    assert m.index[0] == begin


def test_ties_count_the_steps_of_the_user_on_uneven_times():
    pair, _, _ = pair_with_stretches("nothing", 0.0, 3)
    kept = np.r_[0:40, 41:70:2, 70:100]
    x = pandas.Series(pair.x[kept], index=kept.astype(float))
    j = int(udtw.match(x, pair.y).index[50]) + 3
    assert udtw.match(x, pair.y, anchors=[(50, j, 0)]).index[50] == j


@pytest.mark.parametrize(
    ("anchors", "error", "message"),
    [
        ([(10, 20), (15, 12)], OptionError, "cross"),
        ([(100, 5)], OptionError, "outside"),
        ([(1, 2, -1.0)], OptionError, "standard deviation"),
        ([(1.5, 2)], OptionError, "whole"),
        ([(1,)], OptionError, "not a tie"),
        ([(10, 10), (11, 30)], BandError, "no path"),
    ],
)
def test_unusable_ties_are_named(anchors, error, message):
    pair, _, _ = pair_with_stretches("nothing", 0.0, 3)
    with pytest.raises(error, match=message):
        udtw.match(pair.x, pair.y, anchors=anchors)


def test_ties_of_another_number_of_pairs_are_named():
    pair, _, _ = pair_with_stretches("nothing", 0.0, 3)
    batch = np.stack([pair.x] * 2)[:, :, None]
    with pytest.raises(OptionError, match="2"):
        udtw.match(batch, batch, anchors=[[(1, 1)], [(2, 2)], [(3, 3)]])
