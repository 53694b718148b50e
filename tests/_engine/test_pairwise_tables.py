"""How the table of all pairs is cut: every pair once, in pieces of the size that is wanted, whoever computes them."""

import sys

import numpy as np
import pytest

import udtw
from udtw._engine.metrics import get_metric
from udtw._engine.pairwise import PAIR_BYTES, Table
from udtw._engine.series_set import load_series
from udtw._io import joblib_tasks
from udtw._kernels.base import Backend

pairwise = sys.modules["udtw._engine.pairwise"]  # the module, which `udtw.pairwise`, the function, hides

RNG = np.random.default_rng(0)
STEPS = 4
CELLS = STEPS * STEPS


def table(n: int, m: int, symmetric: bool = False) -> Table:
    left, right = (load_series("X", RNG.standard_normal((count, STEPS))) for count in (n, m))
    return Table.of(left, None if symmetric else right, get_metric("dtw"))


def times_computed(asked: Table, pieces) -> np.ndarray:
    times = np.zeros((len(asked.left), len(asked.right)), int)
    for i, j in pieces:
        np.add.at(times, (i, j), 1)
    return times


@pytest.mark.parametrize("pairs", [1, 2, 3, 5, 11, 1000])
@pytest.mark.parametrize("symmetric", [False, True])
def test_blocks_hold_every_pair_once_and_no_more_cells_than_wanted(monkeypatch, pairs, symmetric):
    monkeypatch.setattr(pairwise, "BLOCK_CELLS", pairs * CELLS)
    asked = table(7, 7 if symmetric else 5, symmetric)
    found = list(asked.blocks())
    wanted = np.triu(np.ones((7, 7), int)) if symmetric else np.ones((7, 5), int)
    assert np.array_equal(times_computed(asked, ((b.i, b.j) for b in found)), wanted)
    assert sum(len(block.i) for block in found) == asked.total == wanted.sum()
    assert max(len(block.i) for block in found) <= pairs


def test_series_of_like_length_are_side_by_side():
    ragged = load_series("X", [np.ones(n) for n in (5, 2, 4, 2)])
    [block] = Table.of(ragged, ragged, get_metric("dtw")).blocks()
    assert block.lengths[0].tolist() == sorted(block.lengths[0])
    assert block.lengths[1, :4].tolist() == [2, 2, 4, 5]


@pytest.mark.parametrize(
    ("tasks", "largest", "edge"),
    [(2, 3, 3), (2, 100, 4), (35, 100, 2), (35, 1, 1)],
    ids=["not larger than a tile", "a fair share", "not smaller than a block", "one pair"],
)
@pytest.mark.parametrize("symmetric", [False, True])
def test_tiles_hold_every_pair_once_and_are_of_a_fair_size(monkeypatch, tasks, largest, edge, symmetric):
    monkeypatch.setattr(pairwise, "BLOCK_CELLS", 4 * CELLS)
    monkeypatch.setattr(pairwise, "TILE_CELLS", largest**2 * CELLS)
    monkeypatch.setattr(joblib_tasks, "shares", lambda total: [range(1)] * tasks)
    asked = table(8, 8 if symmetric else 5, symmetric)
    tiles = asked.tiles()
    assert len(tiles[0][0]) == len(tiles[0][1]) == edge
    times = times_computed(asked, (np.meshgrid(r, c, indexing="ij") for r, c in tiles))
    assert times.max() == 1
    assert (np.triu(times) if symmetric else times).sum() == asked.total


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_table_filled_elsewhere_is_the_same(monkeypatch, symmetric, parts):
    """Tiles come back in any order; each is sent only the series that it needs, and counts towards the progress."""
    monkeypatch.setattr(pairwise, "BLOCK_CELLS", 4 * CELLS)
    monkeypatch.setattr(joblib_tasks, "shares", lambda total: [range(1)] * 50)
    asked = table(7, 7 if symmetric else 5, symmetric)

    def value(block):
        ones = np.arange(1, parts + 1)[:, None]
        return ones * (block.left.values[block.i, 0, 0] + 3 * block.right.values[block.j, 1, 0])

    def elsewhere(function, tasks):
        monkeypatch.setattr(joblib_tasks, "chosen", lambda: False)  # a worker does not start workers itself
        assert all(len(task[0].left) <= 2 and task[0].n_threads == 1 for task in tasks)
        return ((k, function(*tasks[k])) for k in reversed(range(len(tasks))))

    expected = asked.fill(parts, value, lambda pairs: None)
    monkeypatch.setattr(joblib_tasks, "chosen", lambda: True)
    monkeypatch.setattr(joblib_tasks, "spread", elsewhere)
    advanced: list[int] = []
    found = asked.fill(parts, value, advanced.append)
    assert np.array_equal(found, expected)
    assert sum(advanced) == asked.total


@pytest.mark.parametrize("metric", ["dtw", "udtw"])
@pytest.mark.parametrize(("dim", "backend", "fused"), [(1, "numba", True), (16, "numba", True), (17, "numba", False),
                                                       (1, "portable", False)])  # fmt: skip
def test_cost_matrices_are_made_only_where_the_kernel_cannot_read_the_series(monkeypatch, metric, dim, backend, fused):
    made = []
    own = Backend._in_slices
    monkeypatch.setattr(Backend, "_in_slices", staticmethod(lambda *args: made.append(args) or own(*args)))
    X = RNG.standard_normal((3, STEPS, dim))
    found = udtw.pairwise(X, metric=metric, backend=backend)
    assert bool(made) != fused
    single = udtw.dtw if metric == "dtw" else lambda x, y: udtw.align(x, y).loss
    assert found[0, 2] == pytest.approx(single(X[0], X[2]), rel=1e-10)


def test_a_block_takes_memory_for_each_of_its_pairs():
    def bytes_of(left, right):
        return Table.of(load_series("X", left), load_series("X", right), get_metric("dtw")).workspace_bytes()

    assert bytes_of(np.zeros((3, 10)), np.zeros((5, 10))) == 15 * PAIR_BYTES
    long = np.zeros((3, 5000))
    assert bytes_of(long, long) == 3 * PAIR_BYTES  # a row of the table at least
    wide = np.zeros((1000, 1000))
    assert bytes_of(wide, wide) == 1000 * PAIR_BYTES
    short = np.zeros((1000, 10))
    assert bytes_of(short, short) == pairwise.BLOCK_CELLS // 100 * PAIR_BYTES
