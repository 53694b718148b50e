"""Search of queries in a long series: what is found, in pieces, with what certainty, and what is refused."""

import itertools

import numpy as np
import pytest
import torch

import udtw
from benchmarks.search_coverage import simulate
from tests._kernels.cpu.test_stream import plain
from udtw import errors
from udtw._kernels.cpu.stream import StreamSweep
from udtw.timeseries import SubsequenceSearch, subsequence
from udtw.timeseries.subsequence import LENGTHS


def bumps(seed=0, steps=400, noise=0.05):
    """A query of 24 steps, and a stream that holds it at 100 and, stretched to 36 steps, at 250."""
    rng = np.random.default_rng(seed)
    query = np.sin(np.linspace(0, 2 * np.pi, 24)) + np.linspace(0, 1, 24)
    stream = noise * rng.standard_normal(steps) - 2
    stream[100:124] = query + noise * rng.standard_normal(24)
    stream[250:286] = np.interp(np.linspace(0, 23, 36), np.arange(24), query) + noise * rng.standard_normal(36)
    return query, stream


def spans(found):
    return [(match.begin, match.end) for match in found]


def all_weights(energy, gamma, penalty):
    """(W, W): the weight ``Σ exp(−energy/γ)`` of all paths from each begin to each end, one begin at a time."""
    rows, columns = energy.shape
    factor, aside = np.exp(-energy / gamma), np.exp(-penalty / gamma)
    weights = np.zeros((columns, columns))
    for begin in range(columns):
        total = np.zeros((rows, columns))
        for i in range(rows):
            for j in range(begin, columns):
                came = float(i == 0 and j == begin)
                if i > 0 and j > 0:
                    came += total[i - 1, j - 1]
                if i > 0:
                    came += aside * total[i - 1, j]
                if j > 0:
                    came += aside * total[i, j - 1]
                total[i, j] = factor[i, j] * came
        weights[begin] = total[-1]
    return weights


def test_the_copies_of_the_query_are_found_best_first():
    query, stream = bumps()
    found = SubsequenceSearch(query, gamma=0.1, warp_penalty=0.01).search(stream, k=2)
    (first, last), (begin, end) = spans(found)
    assert abs(first - 100) <= 1
    assert abs(last - 123) <= 1
    assert abs(begin - 250) <= 2
    assert abs(end - 285) <= 2
    assert found[0].distance < found[1].distance
    for match in found:
        assert match.probability > 0.9
        assert match.begin_interval[0] <= match.begin <= match.begin_interval[1]
        assert match.end_interval[0] <= match.end <= match.end_interval[1]


def test_distances_are_those_of_the_plain_recursion_and_matches_are_disjoint():
    query, stream = bumps(1)
    found = SubsequenceSearch(query, warp_penalty=0.2).search(stream, k=1000)
    energies, begins = plain(query[:, None], stream[:, None], 0.2)
    assert found[0].distance == pytest.approx(energies.min(), rel=1e-12)
    for match in found:
        assert match.distance == pytest.approx(energies[match.end], rel=1e-12)
        assert match.begin == begins[match.end]
    ordered = sorted(spans(found))
    assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(ordered))
    assert [match.distance for match in found] == sorted(match.distance for match in found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stream_in_chunks_gives_the_same_answer(dtype):
    query, stream = (array.astype(dtype) for array in bumps(2))
    search = SubsequenceSearch(query, gamma=0.1, warp_penalty=0.05)
    whole = search.search(stream, k=5)
    for sizes in ([1] * 30 + [370], [200, 200], [7, 390, 3]):
        search.reset()
        for chunk in np.split(stream, np.cumsum(sizes)[:-1]):
            search.update(chunk)
            search.matches(k=1)
        assert search.matches(k=5) == whole
    assert search.search(stream, k=5) == whole


def test_the_posterior_is_that_of_all_paths_that_cover_the_middle():
    rng = np.random.default_rng(3)
    query, stream = rng.standard_normal(6), rng.standard_normal(60)
    gamma, penalty = 1.5, 0.3
    for match in SubsequenceSearch(query, gamma=gamma, warp_penalty=penalty).search(stream, k=3, level=0.8):
        low, high = max(0, match.begin - 6), min(60, match.end + 7)
        weights = all_weights(np.square(query[:, None] - stream[low:high]), gamma, penalty)
        middle = (match.begin + match.end) // 2 - low
        weights[middle + 1 :] = 0
        weights[:, :middle] = 0
        weights /= weights.sum()
        inside = weights[max(0, match.begin - 1 - low) :, : match.end + 2 - low].sum()
        assert match.probability == pytest.approx(inside, rel=1e-9)
        ends = ((weights.sum(1), match.begin, match.begin_interval), (weights.sum(0), match.end, match.end_interval))
        for share, own, interval in ends:
            below, above = (int((share.cumsum() < part).sum()) + low for part in (0.1, 0.9))
            assert interval == (min(below, own), max(above, own))  # the match is inside its own interval


def test_neighbours_do_not_widen_the_intervals_of_a_match():
    period = np.sin(np.linspace(0, 2 * np.pi, 30, endpoint=False))
    found = SubsequenceSearch(period, gamma=0.05, warp_penalty=0.1).search(np.tile(period, 6), k=6)
    assert sorted(spans(found)) == [(30 * n, 30 * n + 29) for n in range(6)]
    assert all(match.begin_interval[1] - match.begin_interval[0] < 10 for match in found)
    assert all(match.probability > 0.9 for match in found)


def test_a_higher_temperature_is_less_certain():
    query, stream = bumps(4)
    cold, hot = (SubsequenceSearch(query, gamma=gamma, warp_penalty=0.01).search(stream, k=1)[0] for gamma in (0.01, 5))
    assert (cold.begin, cold.end, cold.distance) == (hot.begin, hot.end, hot.distance)
    assert hot.probability < cold.probability
    assert hot.begin_interval[1] - hot.begin_interval[0] > cold.begin_interval[1] - cold.begin_interval[0]


def test_several_queries_share_the_stream():
    query, stream = bumps(5)
    other = 1.5 * np.cos(np.linspace(0, 3 * np.pi, 40))
    stream[320:360] = other
    found = SubsequenceSearch([query, other], gamma=0.1, warp_penalty=0.05).search(stream, k=3)
    assert [match.query for match in found] == [1, 0, 0]
    assert spans(found)[0] == (320, 359)
    sums = SubsequenceSearch([query, other], warp_penalty=0.05).search(stream, k=3)
    means = SubsequenceSearch([query, other], warp_penalty=0.05, normalize="length").search(stream, k=3)
    for total, mean in zip(sums, means, strict=True):
        assert mean.distance == pytest.approx(total.distance / (24, 40)[total.query])


def test_several_features_and_kinds_of_arrays():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(6)
    query, stream = rng.standard_normal((12, 3)), rng.standard_normal((150, 3))
    stream[40:52] = query
    expected = SubsequenceSearch(query).search(stream, k=3)
    assert spans(expected)[0] == (40, 51)
    for kind in (torch.from_numpy, pandas.DataFrame):
        assert SubsequenceSearch(kind(query)).search(kind(stream), k=3) == expected
    flat = SubsequenceSearch(query[:, 0].tolist()).search(stream[:, 0].tolist(), k=2)
    assert SubsequenceSearch(pandas.Series(query[:, 0])).search(torch.from_numpy(stream[:, :1]), k=2) == flat


def test_noise_where_the_variances_say_so_costs_little():
    query, stream = bumps(7)
    stream[110:113] += 3.0
    noisy = np.full(len(stream), 0.05)
    noisy[110:113] = 9.0
    search = SubsequenceSearch(query, gamma=4.0, warp_penalty=0.5, var_query=0.05)
    found = search.search(stream, k=2, var_stream=noisy)
    assert any(abs(begin - 100) <= 2 and abs(end - 123) <= 2 for begin, end in spans(found))
    for begin in range(0, 400, 77):
        search.update(stream[begin : begin + 77], var_chunk=noisy[begin : begin + 77])
    assert search.matches(k=2) == found
    assert found[0].distance < search.search(stream, k=1, var_stream=0.05)[0].distance + 30


def test_a_change_of_units_changes_no_match():
    query, stream = bumps(8)
    one = SubsequenceSearch(query, gamma=4.0, var_query=0.1).search(stream, k=3, var_stream=0.2)
    ten = SubsequenceSearch(10 * query, gamma=4.0, var_query=10.0).search(10 * stream, k=3, var_stream=20.0)
    assert spans(one) == spans(ten)
    np.testing.assert_allclose([match.distance for match in one], [match.distance for match in ten], rtol=1e-9)


def test_shortest_query_and_stream():
    (match,) = SubsequenceSearch([1.0]).search([3.0], k=10)
    assert (match.begin, match.end, match.distance, match.probability) == (0, 0, 4.0, 1.0)
    assert match.begin_interval == match.end_interval == (0, 0)
    (match,) = SubsequenceSearch([1.0, 2.0, 3.0], warp_penalty=0.0).search([2.0], k=10)
    assert (match.begin, match.end, match.distance) == (0, 0, 2.0)


def test_an_interrupted_update_leaves_the_stream_as_it_was(monkeypatch):
    query, stream = bumps(9)
    monkeypatch.setattr(subsequence, "BAR_STEPS", 64)
    search = SubsequenceSearch(query, gamma=0.1).update(stream[:150])
    calls, real = [], StreamSweep.update

    def interrupted(self, *given):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(StreamSweep, "update", interrupted)
        with pytest.raises(KeyboardInterrupt):
            search.update(stream[150:])
    assert search.update(stream[150:]).matches(k=3) == search.search(stream, k=3)


def test_a_progress_bar(capsys):
    query, stream = bumps(10)
    found = SubsequenceSearch(query).search(stream, k=1, progress=True)
    assert found == SubsequenceSearch(query).search(stream, k=1)
    assert "search" in capsys.readouterr().err


def test_a_long_stream_is_chosen_from_in_blocks():
    query, _ = bumps()
    stream = np.random.default_rng(0).standard_normal(5 * subsequence.BLOCK)
    found = SubsequenceSearch(query, warp_penalty=0.1).search(stream, k=3)
    assert found[0].distance == SubsequenceSearch(query, warp_penalty=0.1).search(stream, k=1)[0].distance


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (errors.LengthError, "stream has no step", lambda s: s.search([])),
        (errors.LengthError, "Call update", lambda s: s.matches()),
        (errors.NonFiniteError, r"stream\[2, 0\] is nan", lambda s: s.search([0.0, 1.0, np.nan])),
        (errors.NonFiniteError, r"chunk\[0, 0\] is inf", lambda s: s.update([np.inf])),
        (errors.ShapeError, "1 feature", lambda s: s.search(np.zeros((9, 2)))),
        (errors.ShapeError, r"stream must have shape \(T,\) or \(T, d\)", lambda s: s.search(np.zeros((2, 9, 2)))),
        (errors.OptionError, "k must be", lambda s: s.search([0.0], k=0)),
        (errors.OptionError, "level must lie", lambda s: s.search([0.0], level=1.0)),
        (errors.OptionError, "level must lie", lambda s: s.search([0.0], level=0.0)),
        (errors.VarianceError, r"var_stream\[1\] is -1", lambda s: s.search([0.0, 1.0], var_stream=[1.0, -1.0])),
        (errors.OptionError, "variances with all chunks", lambda s: s.update([0.0]).update([0.0], var_chunk=[1.0])),
        (errors.RangeError, "do not fit", lambda s: s.search(np.full(5, 1e200))),
        (errors.OptionError, "warp_penalty", lambda s: SubsequenceSearch([0.0], warp_penalty=-1.0)),
        (errors.OptionError, "beta", lambda s: SubsequenceSearch([0.0], beta=-1.0)),
        (errors.OptionError, "normalize", lambda s: SubsequenceSearch([0.0], normalize="path")),
        (errors.GammaError, "gamma", lambda s: SubsequenceSearch([0.0], gamma=0.0)),
        (errors.LengthError, "query has no step", lambda s: SubsequenceSearch([])),
        (errors.NonFiniteError, r"query\[1\]\[1, 0\] is nan", lambda s: SubsequenceSearch([[0.0], [0.0, np.nan]])),
        (errors.ShapeError, "same number of features", lambda s: SubsequenceSearch([np.zeros(3), np.zeros((3, 2))])),
        (errors.ShapeError, "each of 2 queries", lambda s: SubsequenceSearch([[0.0], [1.0]], var_query=[1.0])),
    ],
)
def test_what_is_refused(error, message, call):
    with pytest.raises(error, match=message):
        call(SubsequenceSearch([0.0, 1.0, 0.0]))


def smooth(rng, steps, width=6):
    """Smooth noise of unit variance."""
    window = np.hanning(2 * width + 1)
    return np.convolve(rng.standard_normal(steps + 2 * width), window / np.linalg.norm(window), "valid")


def simulated(seed, variance):
    """Noisy query of 32 steps, noisy smooth stream that holds it once, warped, and the true begin and end."""
    rng = np.random.default_rng(seed)
    query, stream = smooth(rng, 32), smooth(rng, 300)
    length, begin = int(32 * rng.uniform(0.8, 1.25)), int(rng.integers(60, 200))
    time = np.maximum.accumulate(np.linspace(0, 1, length) + 0.006 * np.cumsum(smooth(rng, length, 4)))
    time = (time - time[0]) / (time[-1] - time[0])
    stream[begin : begin + length] = np.interp(31 * time, np.arange(32), query)
    query, stream = (series + np.sqrt(variance) * rng.standard_normal(len(series)) for series in (query, stream))
    return query, stream, begin, begin + length - 1


def coverage(seeds, variance, gamma, warp_penalty):
    """Share of streams in which the query was found, and of their begins and ends that lie in the 90 % intervals."""
    covered, found = [], 0
    for seed in seeds:
        query, stream, begin, end = simulated(seed, variance)
        search = SubsequenceSearch(query, gamma=gamma, warp_penalty=warp_penalty, var_query=variance)
        [match] = search.search(stream, k=1, level=0.9, var_stream=variance)
        if 2 * (min(end, match.end) - max(begin, match.begin)) >= end - begin:
            found += 1
            covered += [low <= true <= high for true, (low, high) in (
                (begin, match.begin_interval), (end, match.end_interval),
            )]  # fmt: skip
    return found / len(seeds), np.mean(covered)


def test_intervals_hold_what_they_promise_if_the_variances_are_those_of_the_noise():
    found, covered = coverage(range(60), 0.05, gamma=4.0, warp_penalty=0.5)
    assert found > 0.8
    assert 0.88 < covered <= 1
    assert coverage(range(60), 0.05, gamma=1.0, warp_penalty=0.5)[1] < covered


def test_an_exact_copy_is_found_with_certainty_by_default():
    rng = np.random.default_rng(0)
    stream = rng.standard_normal(800).cumsum()
    query = stream[300:360].copy()
    [match] = SubsequenceSearch(query).search(stream, k=1)
    assert (match.begin, match.end, match.distance) == (300, 359, 0)
    assert match.probability > 0.9
    [match] = SubsequenceSearch(-100 + 0.01 * query, normalize="window").search(stream, k=1)
    assert (match.begin, match.end) == (300, 359)
    assert match.distance < 1e-9
    assert match.probability > 0.9


def test_normalized_windows_are_searched_exactly():
    rng = np.random.default_rng(1)
    query, stream = rng.standard_normal((12, 2)), rng.standard_normal((150, 2)).cumsum(0)
    [match] = SubsequenceSearch(query, warp_penalty=0.3, gamma=0.1, normalize="window").search(stream, k=1)
    scaled = (query - query.mean(0)) / query.std(0)
    every = {}
    for length in {round(share * 12) for share in LENGTHS}:
        for begin in range(len(stream) - length + 1):
            window = stream[begin : begin + length]
            window = (window - window.mean(0)) / window.std(0)
            every[begin, begin + length - 1] = udtw.dtw(scaled, window, warp_penalty=0.3)
    best = min(every, key=every.get)
    assert (match.begin, match.end) == best
    assert match.distance == pytest.approx(every[best], rel=1e-9)


@pytest.mark.parametrize(("mode", "noise"), [(None, 0.3), ("window", 0.15)])
def test_default_intervals_hold_begin_and_end(mode, noise):
    """`benchmarks.search_coverage` with few streams; every hit lies inside its own intervals."""
    held = []
    for seed in range(30):
        query, stream, begin, end = simulate(seed, noise, mode == "window")
        [match] = SubsequenceSearch(query, normalize=mode).search(stream, k=1)
        (b0, b1), (e0, e1) = match.begin_interval, match.end_interval
        assert b0 <= match.begin <= b1
        assert e0 <= match.end <= e1
        if abs(match.begin - begin) < 30:
            held += [b0 <= begin <= b1, e0 <= end <= e1]
    assert len(held) > 50
    assert 0.84 < np.mean(held) < 1


def test_windows_take_no_variances_and_no_chunks():
    with pytest.raises(errors.OptionError, match="var_query"):
        SubsequenceSearch([1.0, 2.0, 0.0], var_query=1.0, normalize="window")
    with pytest.raises(errors.OptionError, match="whole stream"):
        SubsequenceSearch([1.0, 2.0, 0.0], normalize="window").update([1.0, 2.0])
