"""The search kernel against a plain recursion, against other libraries, and against itself in pieces."""

import itertools

import numpy as np
import pytest

from udtw._kernels.cpu import stream
from udtw._kernels.cpu.stream import StreamSweep


def plain(query, series, penalty=0.0, cost=None):
    """Least energies and begins of the paths that end in each column, cell by cell as the recurrence is written."""
    if cost is None:
        cost = np.square(query[:, None].astype(float) - series[None].astype(float)).sum(2)
    rows, columns = cost.shape
    value, first = np.full((rows, columns), np.inf), np.zeros((rows, columns), int)
    for j in range(columns):
        for i in range(rows):
            # In the order in which ties are decided: min returns the first of equals.
            ways = [(0.0, j)] if i == 0 else [(value[i - 1, j - 1], first[i - 1, j - 1])] if j > 0 else []
            if i > 0:
                ways.append((value[i - 1, j] + penalty, first[i - 1, j]))
            if j > 0:
                ways.append((value[i, j - 1] + penalty, first[i, j - 1]))
            least, first[i, j] = min(ways, key=lambda way: way[0])
            value[i, j] = cost[i, j] + least
    return value[-1], first[-1]


def found(sweep, series, sizes=None, variances=None):
    """All energies and begins of a stream that comes in chunks of those sizes."""
    edges = np.concatenate([[0], np.cumsum([len(series)] if sizes is None else sizes)])
    parts = [
        sweep.update(series[a:b], None if variances is None else variances[a:b]) for a, b in itertools.pairwise(edges)
    ]
    energies, firsts = zip(*parts, sweep.rest(), strict=True)
    return np.concatenate(energies), np.concatenate(firsts)


def problem(seed, rows, columns, dim=1, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, dim)).astype(dtype), rng.standard_normal((columns, dim)).astype(dtype)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize(
    ("rows", "columns", "dim"), [(1, 1, 1), (1, 7, 1), (6, 1, 1), (9, 4, 2), (4, 30, 1), (8, 40, 3), (21, 50, 1)]
)
def test_energies_and_begins_are_those_of_the_plain_recursion(rows, columns, dim, penalty):
    query, series = problem(rows, rows, columns, dim)
    energies, firsts = found(StreamSweep(query, penalty), series)
    exact, begins = plain(query, series, penalty)
    np.testing.assert_allclose(energies, exact, rtol=1e-13)
    assert np.array_equal(firsts, begins)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_numbers_with_many_ties_agree_exactly(dtype):
    rng = np.random.default_rng(0)
    query, series = rng.integers(0, 3, (11, 1)).astype(dtype), rng.integers(0, 3, (300, 1)).astype(dtype)
    for penalty in (0.0, 1.0):
        energies, firsts = found(StreamSweep(query, penalty), series)
        exact, begins = plain(query, series, penalty)
        assert np.array_equal(energies, exact)
        assert np.array_equal(firsts, begins)
        assert (np.diff(firsts) >= 0).all()


def test_variances_divide_the_cost_and_claiming_them_has_a_price():
    query, series = problem(3, 10, 60, 2)
    rng = np.random.default_rng(4)
    var_query, var_series = rng.uniform(0.2, 3, 10), rng.uniform(0.2, 3, 60)
    sigma = 0.5 * (var_query[:, None] + var_series)
    squares = np.square(query[:, None] - series[None]).sum(2)
    cost = squares / sigma + 1.5 * (np.log(sigma) - 1.2)
    energies, firsts = found(StreamSweep(query, 0.1, var_query, 1.5, 1.2), series, [13, 47], var_series)
    exact, begins = plain(query, series, 0.1, cost)
    assert (cost < -0.1).any(), "some paths should gain by staying"
    np.testing.assert_allclose(energies, exact, rtol=1e-11, atol=1e-11)
    assert np.array_equal(firsts, begins)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dim", [1, 2])
def test_the_division_into_chunks_changes_no_bit(dim, dtype):
    query, series = problem(5, 19, 400, dim, dtype)
    whole = found(StreamSweep(query, 0.1), series)
    for sizes in ([1] * 400, [3, 0, 17, 380], [399, 1], [18, 18, 364]):
        pieces = found(StreamSweep(query, 0.1), series, sizes)
        assert all(np.array_equal(a, b) for a, b in zip(whole, pieces, strict=True))


def test_streams_longer_than_one_piece(monkeypatch):
    query, series = problem(6, 5, 1000)
    whole = found(StreamSweep(query), series)
    monkeypatch.setattr(stream, "PIECE", 64)
    pieces = found(StreamSweep(query), series)
    assert all(np.array_equal(a, b) for a, b in zip(whole, pieces, strict=True))


def test_reading_the_rest_does_not_end_the_stream():
    query, series = problem(7, 12, 90)
    sweep = StreamSweep(query, 0.2)
    done = [sweep.update(series[:50])[0]]
    assert np.array_equal(np.concatenate([*done, sweep.rest()[0]]), found(StreamSweep(query, 0.2), series[:50])[0])
    done += [sweep.update(series[50:])[0], sweep.rest()[0]]
    assert np.array_equal(np.concatenate(done), found(StreamSweep(query, 0.2), series)[0])


def test_begins_are_exact_however_far_the_stream_has_gone():
    query, series = problem(8, 16, 200, dtype=np.float32)
    near, late = StreamSweep(query), StreamSweep(query)
    late.seen = far = 3 * 2**33  # a multiple of three, since the rolling rows are numbered by the column
    energies, firsts = near.update(series)
    later, begins = late.update(series)
    assert np.array_equal(later[15:], energies)
    assert np.array_equal(begins[15:] - far, firsts)


def test_a_match_longer_than_the_whole_numbers_of_float32():
    query = np.array([[1.0], [0.0]], np.float32)
    sweep = StreamSweep(query)
    sweep.update(np.ones((1, 1), np.float32))
    assert sweep.update(np.zeros((3, 1), np.float32))[1].tolist() == [0, 0, 0]
    more = 3 * (2**24 + 1)  # as if so many zeros had followed, which only age the path to the last row
    sweep.whole[sweep.at.first : sweep.at.x].reshape(3, -1)[:, 2] -= more
    sweep.seen += more
    assert sweep.update(np.zeros((5, 1), np.float32))[1].tolist() == [0] * 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_vectors_fit_their_rows(dtype):
    vector = 32 // np.dtype(dtype).itemsize
    for rows in range(1, 40):
        at = StreamSweep(np.zeros((rows, 2), dtype)).at
        last = 1 + vector * -(-rows // vector)  # one past the last position that a loop over the rows touches
        assert at.row >= last
        assert at.span >= stream.PIECE - 2 + last


def test_against_dtaidistance():
    dtai = pytest.importorskip("dtaidistance.subsequence.dtw")
    query, series = problem(9, 25, 300)
    peer = dtai.SubsequenceAlignment(query[:, 0], series[:, 0], penalty=0.3)
    peer.align()
    # It divides the root of the energy by the length of the query, and adds the square of its penalty.
    energies, firsts = found(StreamSweep(query, 0.3**2), series)
    np.testing.assert_allclose(np.sqrt(energies), peer.matching_function() * 25, rtol=1e-12)
    best = int(energies.argmin())
    assert peer.get_match(best).segment == [firsts[best], best]


def test_against_tslearn():
    metrics = pytest.importorskip("tslearn.metrics")
    for seed, dim in ((10, 1), (11, 3)):
        query, series = problem(seed, 20, 200, dim)
        path, root = metrics.dtw_subsequence_path(query, series)
        energies, firsts = found(StreamSweep(query), series)
        best = int(energies.argmin())
        assert energies[best] == pytest.approx(float(root) ** 2, rel=1e-12)
        assert (path[0][1], path[-1][1]) == (firsts[best], best)
