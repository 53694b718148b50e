"""The greedy choice of disjoint candidates against the obvious quadratic one."""

import numpy as np
import pytest

from udtw.timeseries import subsequence
from udtw.timeseries.subsequence import Candidates, best_disjoint


def obvious(lists, k):
    """Look through all candidates in order, and take each that overlaps none that was taken."""
    every = sorted(
        (cost, end, number, int(starts[end]))
        for number, (costs, starts) in enumerate(lists)
        for end, cost in enumerate(costs)
    )
    taken = []
    for cost, end, number, begin in every:
        if len(taken) < k and all(end < other_begin or other_end < begin for _, other_begin, other_end, _ in taken):
            taken.append((number, begin, end, cost))
    return taken


def candidates(rng, count, ties):
    costs = rng.integers(0, 10, count).astype(float) if ties else rng.random(count)
    starts = np.minimum(np.maximum.accumulate(np.arange(count) - rng.integers(0, 12, count)), np.arange(count))
    return costs, np.maximum(starts, 0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("queries", [1, 3])
def test_the_choice_is_that_of_the_obvious_algorithm(seed, queries, monkeypatch):
    monkeypatch.setattr(subsequence, "BLOCK", 16)
    rng = np.random.default_rng(seed)
    lists = [candidates(rng, 200, ties=seed % 2 == 0) for _ in range(queries)]
    for k in (1, 5, 1000):
        assert best_disjoint([Candidates(*own) for own in lists], k) == obvious(lists, k)


def test_many_matches_of_a_long_stream_are_found_quickly():
    rng = np.random.default_rng(0)
    costs, starts = rng.random(300_000), np.maximum(np.arange(300_000) - 20, 0)
    found = best_disjoint([Candidates(costs, starts)], 2000)
    begins, ends = np.array(sorted((begin, end) for _, begin, end, _ in found)).T
    assert len(found) == 2000
    assert (begins[1:] > ends[:-1]).all()
    assert found[0][3] == costs.min()


def test_no_room_for_more():
    assert best_disjoint([Candidates(np.array([2.0, 1.0, 3.0]), np.array([0, 0, 0]))], 5) == [(0, 0, 1, 1.0)]
