"""Doubtful stretches, steps without a partner, and tables of matches, on intervals written by hand."""

import numpy as np
import pandas
import pytest
import torch

import udtw
from udtw._engine.matches import Matches


def made(widths, low=None, matched=None) -> Matches:
    """Matches whose intervals have these widths; −1 is a step without a partner."""
    widths = np.asarray(widths)
    low = np.where(widths < 0, -1, 10 * np.arange(len(widths)) if low is None else low)
    high = np.where(widths < 0, -1, low + widths)
    known = np.where(widths < 0, np.nan, 1.0)
    return Matches(low, known, low + 0.5, low, high, np.where(widths < 0, 0.0, 1.0) if matched is None else matched)


def steps(found: Matches) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in found.doubtful()]


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ([1, 1, 3, 1, 1], []),  # three steps are never doubtful
        ([1, 1, 4, 1, 1], [(2, 2)]),
        ([4, 4, 6, 4, 4], []),  # 1.5 times the median is not more than that
        ([4, 4, 7, 4, 4], [(2, 2)]),
        ([1, 9, 1, 1, 9, 1, 1, 1], [(1, 4)]),  # two steps between them
        ([1, 9, 1, 1, 1, 9, 1, 1], [(1, 1), (5, 5)]),  # three
        ([9, 9, 1, 1, 1, 1, 1, 9], [(0, 1), (7, 7)]),
        ([-1, -1, -1], []),
        ([-1, 2, 9, 2, -1, 2], [(2, 2)]),  # the median is that of matched steps
    ],
)
def test_which_steps_are_doubtful(widths, expected):
    assert steps(made(widths)) == expected


def test_a_doubtful_stretch_reaches_over_all_its_intervals():
    [found] = made([1, 8, 9, 5, 1, 1, 1, 1], low=[0, 7, 2, 6, 20, 21, 22, 23]).doubtful()
    assert tuple(found) == (1, 3, 2, 15)
    [found] = made([1, 5, 12, 5, 1, 1, 1, 1], low=[0, 7, 8, 9, 20, 21, 22, 23]).doubtful()
    assert tuple(found) == (1, 3, 7, 20)


def test_steps_that_are_more_likely_unmatched_are_not_doubtful():
    matched = np.array([1.0, 0.49, 1.0, 1.0, 1.0, 1.0, 0.5, 1.0])
    assert steps(made([1, 9, 1, 1, 1, 1, 9, 1], matched=matched)) == [(6, 6)]


@pytest.mark.parametrize(("cost", "known"), [(12.0, True), (25.0, False)])
def test_a_step_has_no_partner_below_a_probability_of_1e_9(cost, known):
    found = udtw.PathDistribution(np.array([[0.0], [cost]]), relax=(0, 1, 0, 0))
    share = 2 * np.exp(-cost) / (1 + np.exp(-cost))
    matches = udtw.align(None, None, cost=np.array([[0.0], [cost]]), relax=(0, 1, 0, 0)).matches()
    assert found.coupling[1, 0] == pytest.approx(share / 2, rel=1e-6)
    assert (matches.index[1] == 0) == known
    assert np.isfinite(matches.expected[1]) == known
    assert matches.matched[1] < 1e-4


def test_tables_name_the_first_partner_and_leave_out_the_missing_ones():
    x = pandas.Series([0.0, 5.0, 1.0], index=["a", "b", "c"])
    y = pandas.Series([0.0, 1.0], index=["first", "last"])
    frame = udtw.align(x, y, gamma=0.01, gap_penalty=0.3).matches().to_frame()
    assert frame["j"].tolist() == [0, -1, 1]
    assert frame["partner"].tolist()[::2] == ["first", "last"]
    assert frame["partner"].isna().tolist() == [False, True, False]


def test_the_representation_states_the_median_number_of_steps():
    assert repr(made([0, 2, 2, 7])) == "Matches(4 steps, median interval of 3 step(s))"
    assert repr(made([-1, -1])) == "Matches(2 steps, none matched)"


def test_matches_from_grids_are_those_summed_by_diagonals():
    """A mask that allows everything is swept diagonal by diagonal, with the same sums in the same order."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(5, steps, 2, generator=generator).cumsum(1) for steps in (31, 23))
    lengths = {"lengths_x": [31, 20, 7, 1, 31], "lengths_y": [23, 23, 1, 9, 11]}
    by_rows, by_diagonals = (
        udtw.align(x, y, gamma=0.5, band=band, **lengths).matches(level=0.8)
        for band in (None, torch.ones(31, 23, dtype=torch.bool))
    )
    for name in ("index", "probability", "expected", "low", "high", "matched"):
        one, other = (getattr(found, name) for found in (by_rows, by_diagonals))
        assert torch.equal(one.isnan(), other.isnan())
        assert torch.equal(one.nan_to_num(), other.nan_to_num()), name
