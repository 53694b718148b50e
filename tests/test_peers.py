"""Hard alignments against the libraries that also have them: 1,000 random problems for each, equal to rounding."""

from collections.abc import Iterator

import numpy as np
import pytest

import udtw

PROBLEMS = 1000
GROUP = 20
"""Problems that share their relaxed ends: `udtw.dtw` takes one ``relax`` for a batch."""
ROUNDING = {"rtol": 1e-11, "atol": 1e-12}


def series(rng: np.random.Generator, lengths: np.ndarray, dim: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """A batch of series of these lengths, padded with NaN, and the series themselves."""
    rows = [rng.standard_normal((length, dim)) for length in lengths]
    padded = np.full((len(rows), max(lengths), dim), np.nan)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded, rows


def relaxations(rng: np.random.Generator, most: int) -> Iterator[tuple[int, int, int, int]]:
    """Four counts up to ``most`` for each group of problems; each end is closed about half of the time."""
    for _ in range(PROBLEMS // GROUP):
        x_begin, x_end, y_begin, y_end = (rng.integers(0, most + 1, 4) * rng.integers(0, 2, 4)).tolist()
        yield x_begin, x_end, y_begin, y_end


@pytest.mark.parametrize("dim", [1, 3])
def test_amerced_dtw_is_that_of_aeon(dim):
    adtw_distance = pytest.importorskip("aeon.distances").adtw_distance
    rng = np.random.default_rng(dim)
    n, m = rng.integers(1, 30, (2, PROBLEMS))
    penalty = rng.uniform(0, 3, PROBLEMS) * rng.integers(0, 2, PROBLEMS)
    (x, xs), (y, ys) = series(rng, n, dim), series(rng, m, dim)
    expected = [adtw_distance(a.T, b.T, warp_penalty=w) for a, b, w in zip(xs, ys, penalty, strict=True)]
    options = {"warp_penalty": penalty, "lengths_x": n, "lengths_y": m}
    np.testing.assert_allclose(udtw.dtw(x, y, **options), expected, **ROUNDING)
    np.testing.assert_allclose(udtw.soft_dtw(x, y, gamma=1e-4, **options), expected, atol=1e-2)


@pytest.mark.parametrize("penalty", [0.0, 0.6])
def test_relaxed_ends_are_psi_of_dtaidistance(penalty):
    distance = pytest.importorskip("dtaidistance.dtw").distance
    rng = np.random.default_rng(0)
    for relax in relaxations(rng, 8):
        n, m = rng.integers(max(relax) + 1, 25, (2, GROUP))
        (x, xs), (y, ys) = series(rng, n, 1), series(rng, m, 1)
        # Its order is begin and end of the first series, then of the second, as ours; it squares the penalty.
        expected = [distance(a[:, 0], b[:, 0], psi=relax, penalty=penalty) for a, b in zip(xs, ys, strict=True)]
        found = udtw.dtw(x, y, relax=relax, warp_penalty=penalty**2, squared=False, lengths_x=n, lengths_y=m)
        np.testing.assert_allclose(found, expected, **ROUNDING)


def test_relaxed_ends_in_a_band_are_psi_in_a_window_of_dtaidistance():
    """Equal lengths only: there a window w is the radius w − 1. Otherwise it runs along both diagonals, ours between.

    No end is relaxed beyond the band: dtaidistance 2.5.1 keeps only the window of a row, and with a larger psi it reads
    the row before it.
    """
    distance = pytest.importorskip("dtaidistance.dtw").distance
    rng = np.random.default_rng(1)
    for relax in relaxations(rng, 6):
        radius, length = max(relax) + int(rng.integers(0, 3)), int(rng.integers(10, 25))
        x, y = rng.standard_normal((2, GROUP, length, 1))
        expected = [distance(a[:, 0], b[:, 0], psi=relax, window=radius + 1) for a, b in zip(x, y, strict=True)]
        np.testing.assert_allclose(udtw.dtw(x, y, relax=relax, band=radius, squared=False), expected, **ROUNDING)


@pytest.mark.parametrize("dim", [1, 2])
def test_a_relaxed_stream_is_the_subsequence_dtw_of_tslearn(dim):
    dtw_subsequence_path = pytest.importorskip("tslearn.metrics").dtw_subsequence_path
    rng = np.random.default_rng(dim)
    n, m = rng.integers(1, 10, PROBLEMS), rng.integers(10, 40, PROBLEMS)
    (x, queries), (y, streams) = series(rng, n, dim), series(rng, m, dim)
    expected = [dtw_subsequence_path(query, stream)[1] for query, stream in zip(queries, streams, strict=True)]
    found = udtw.dtw(x, y, relax="y", squared=False, lengths_x=n, lengths_y=m)
    np.testing.assert_allclose(found, expected, **ROUNDING)


def test_a_relaxed_stream_is_the_subsequence_dtw_of_librosa():
    dtw = pytest.importorskip("librosa.sequence", reason="librosa, with nine packages for sound, is no test extra").dtw
    rng = np.random.default_rng(3)
    n, m = rng.integers(1, 10, PROBLEMS), rng.integers(10, 40, PROBLEMS)
    (x, queries), (y, streams) = series(rng, n, 2), series(rng, m, 2)
    expected = []
    for query, stream in zip(queries, streams, strict=True):
        cost = np.square(query[:, None] - stream[None]).sum(2)
        expected.append(dtw(C=cost, subseq=True, backtrack=False)[-1].min())
    np.testing.assert_allclose(udtw.dtw(x, y, relax="y", lengths_x=n, lengths_y=m), expected, **ROUNDING)
