"""What a band means, in units a user can count, and that it always leaves a path."""

import numpy as np
import pytest
import torch

import udtw
from udtw._engine.prior import FRACTION, ITAKURA, RADIUS, Band, admissible, intervals, parse
from udtw.errors import BandError, LengthError

CPU = torch.device("cpu")


def cells(band, n: int, m: int) -> np.ndarray:
    lengths = torch.tensor([[n], [m]])
    return admissible(parse(band, 1, n, m, CPU), lengths, n, m)[0].numpy()


@pytest.mark.parametrize("radius", [0, 1, 2, 5])
def test_equal_lengths_give_the_classical_sakoe_chiba_band(radius):
    i, j = np.indices((7, 7))
    assert np.array_equal(cells(radius, 7, 7), np.abs(i - j) <= radius)


@pytest.mark.parametrize(("n", "m"), [(5, 9), (9, 5), (2, 50), (50, 3), (1, 4), (4, 1), (1, 1), (100, 99)])
@pytest.mark.parametrize("band", [0, 1, 0.0, 0.1, "itakura"])
def test_every_band_leaves_a_path_on_unequal_lengths(n, m, band):
    assert np.isfinite(udtw.dtw(np.zeros(n), np.zeros(m), band=band))


def test_a_radius_counts_steps_of_the_shorter_sequence():
    wide = cells(1, 4, 10)
    assert wide.any(axis=0).all()
    diagonal = np.arange(10) * 3 / 9
    distance = np.abs(np.arange(4)[:, None] - diagonal[None, :])
    assert np.array_equal(wide, distance <= 1.5 + 1e-12)


def test_a_fraction_of_one_is_no_band_and_a_fraction_of_zero_the_diagonal():
    assert cells(1.0, 6, 11).all()
    assert np.array_equal(cells(0.0, 6, 11), cells(0, 6, 11))


@pytest.mark.parametrize(
    ("fraction", "n", "m", "radius"),
    [(0.5, 7, 7, 3), (0.5, 8, 7, 3), (0.25, 5, 9, 1), (0.26, 5, 9, 2), (0.1, 30, 21, 2)],
)
def test_a_fraction_is_of_the_steps_from_end_to_end_of_the_shorter_sequence(fraction, n, m, radius):
    assert np.array_equal(cells(fraction, n, m), cells(radius, n, m))
    assert not np.array_equal(cells(fraction, n, m), cells(radius + 1, n, m))


def test_itakura_is_symmetric_and_narrow_at_both_ends():
    band = cells("itakura", 21, 21)
    assert np.array_equal(band, band.T)
    assert np.array_equal(band, band[::-1, ::-1])
    assert band[0].sum() == 1
    assert band[10].sum() > 5


@pytest.mark.parametrize("backend", ["numba", "portable"])
@pytest.mark.parametrize("band", [0, 2, 0.3, "itakura"])
def test_a_band_equals_its_mask_for_pairs_of_different_lengths(backend, band):
    rng = torch.Generator().manual_seed(0)
    cost = torch.rand(5, 12, 9, generator=rng, dtype=torch.float64)
    lengths = torch.tensor([[12, 9], [3, 9], [12, 2], [1, 5], [7, 8]])
    mask = admissible(parse(band, 5, 12, 9, CPU), lengths.T, 12, 9)
    banded = udtw.PathDistribution(cost, 0.5, lengths=lengths, band=band, backend=backend)
    masked = udtw.PathDistribution(cost, 0.5, lengths=lengths, band=mask, backend=backend)
    assert torch.allclose(banded.soft_min, masked.soft_min, rtol=1e-13)
    assert torch.allclose(banded.coupling, masked.coupling, rtol=1e-12)
    assert not banded.coupling[~mask].any()


@pytest.mark.parametrize("backend", ["numba", "portable", "enumeration"])
def test_a_mask_without_a_path_is_refused_before_any_computation(backend):
    mask = np.ones((4, 5), bool)
    mask[2, :] = False
    with pytest.raises(BandError, match="no path for pair 0"):
        _ = udtw.PathDistribution(np.ones((4, 5)), band=mask, backend=backend).soft_min


def test_a_mask_may_wind():
    mask = np.zeros((5, 5), bool)
    for cell in [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (4, 2), (4, 3), (4, 4)]:
        mask[cell] = True
    coupling = udtw.PathDistribution(np.random.default_rng(0).random((5, 5)), band=mask).coupling
    assert np.allclose(coupling, mask)


@pytest.mark.parametrize(
    ("band", "message"),
    [
        (-1, "negative radius"),
        (1.5, "not a fraction"),
        (True, "neither a radius nor a mask"),
        ("sakoe", "'itakura'"),
        (np.ones((3, 3)), "must be boolean"),
        (np.ones((2, 3), bool), "must have shape"),
    ],
)
def test_bands_that_cannot_be_understood(band, message):
    with pytest.raises(BandError, match=message):
        udtw.dtw(np.zeros(3), np.zeros(3), band=band)


def test_no_band_is_the_default():
    assert parse(None, 1, 2, 2, CPU) == Band()


@pytest.mark.parametrize("band", [0, 2, 0.0, "itakura"])
@pytest.mark.parametrize(("n", "m"), [(1, 6), (6, 1)])
def test_a_single_step_may_be_matched_with_everything(band, n, m):
    assert cells(band, n, m).all()


def test_the_itakura_parallelogram_has_slopes_between_a_half_and_two():
    i, j = np.indices((21, 21))
    back_i, back_j = 20 - i, 20 - j
    expected = (j <= 2 * i) & (i <= 2 * j) & (back_j <= 2 * back_i) & (back_i <= 2 * back_j)
    assert np.array_equal(cells("itakura", 21, 21), expected)


@pytest.mark.parametrize("kind", [RADIUS, FRACTION, ITAKURA])
def test_intervals_of_rows_stay_inside_the_columns_of_their_pair(kind):
    lengths = torch.tensor([[9, 4, 1, 7], [5, 9, 3, 1]])
    start, stop = intervals(kind, 1.0, lengths, 9)
    for b, (n, m) in enumerate(lengths.T.tolist()):
        assert (start[b, :n] >= 0).all()
        assert (stop[b, :n] <= m).all()
        assert (start[b, :n] < stop[b, :n]).all()


@pytest.mark.parametrize(("n", "m"), [(3, 2), (2, 3)])
def test_a_path_that_ends_in_padding_is_no_path(n, m):
    """Of two pairs with one mask, the shorter must be refused though the longer is not."""
    mask = np.eye(3, dtype=bool)
    with pytest.raises(BandError, match="no path for pair 1"):
        _ = udtw.PathDistribution(np.ones((2, 3, 3)), band=mask, lengths=[(3, 3), (n, m)]).soft_min


@pytest.mark.parametrize("relax", [(0, 0, 5, 1), (0, 0, 1, 6)])
def test_what_one_series_can_leave_out_is_cut_where_the_other_is_compared_with_itself(relax):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(3), rng.standard_normal(8)
    possible = tuple(min(count, 2) for count in relax)
    selves = udtw.align(x, x, relax=possible).loss + udtw.align(y, y, relax=relax).loss
    assert udtw.align(x, y, relax=relax, debias=True).loss == pytest.approx(
        float(udtw.align(x, y, relax=relax).loss - 0.5 * selves)
    )
    with pytest.raises(LengthError, match="unmatched steps at y"):
        udtw.align(x, x, relax=relax)
