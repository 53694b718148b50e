"""Work on joblib's backends: the same bits from other processes and from a Dask cluster, whatever a worker suffers."""

import os
import signal
import sys
import threading

import joblib
import numpy as np
import pytest
from rich.console import Console

from experiments import Store, Unit, run
from tests import joblib_task_functions as tasks
from udtw import pairwise
from udtw._io import joblib_tasks
from udtw.errors import OptionError, ShapeError, WorkerError
from udtw.images import embed, load_backbone, load_images, open_tokens
from udtw.timeseries import (
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    barycenter,
    class_barycenters,
)

BACKENDS = ["dask", "loky"]


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster of two worker processes, and a client of it."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as workers,
        Client(workers) as client,
    ):
        yield client


@pytest.fixture(params=BACKENDS)
def elsewhere(request, cluster, monkeypatch):
    """Inside the test, joblib's work is done by other processes; and some was."""
    handed_out = []
    monkeypatch.setattr(
        joblib_tasks, "_finished", lambda *args, own=joblib_tasks._finished: handed_out.append(args) or own(*args)
    )
    with joblib.parallel_config(request.param, n_jobs=2):
        yield
    assert handed_out


def walks(count, seed=0, low=20, high=40):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=rng.integers(low, high)).cumsum().astype(np.float32) for _ in range(count)]


def here(function, *args, **params):
    """The result in this thread's own process, while a backend is active."""
    with joblib.parallel_config("sequential"):
        return function(*args, **params)


@pytest.mark.parametrize("metric", ["dtw", "soft_dtw", "soft_dtw_divergence", "udtw"])
@pytest.mark.usefixtures("elsewhere")
def test_all_pairs_have_the_same_bits(metric, monkeypatch):
    monkeypatch.setattr(sys.modules["udtw._engine.pairwise"], "BLOCK_CELLS", 20_000)  # so that there are many tiles
    x, y = walks(31), walks(17, seed=1)
    assert np.array_equal(pairwise(x, y, metric), here(pairwise, x, y, metric, n_jobs=2))
    assert np.array_equal(pairwise(x, metric=metric), here(pairwise, x, metric=metric))


@pytest.mark.usefixtures("elsewhere")
def test_parts_of_uncertain_pairs_have_the_same_bits(monkeypatch):
    monkeypatch.setattr(sys.modules["udtw._engine.pairwise"], "BLOCK_CELLS", 20_000)
    x = walks(23)
    params = {"var_x": [0.5 + np.abs(one) for one in x], "return_parts": True, "normalize": "path", "band": 0.3}
    for mine, theirs in zip(pairwise(x, **params), here(pairwise, x, **params), strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("metric", ["dtw", "udtw", "soft_dtw"])
@pytest.mark.usefixtures("elsewhere")
def test_neighbours_are_the_same(metric):
    train, test = walks(20), walks(9, seed=2)
    model = KNeighborsTimeSeriesClassifier(3, metric=metric, sigma=None).fit(train, np.arange(20) % 3)
    mine, theirs = model.search(test), here(model.search, test)
    assert np.array_equal(mine.distances, theirs.distances)
    assert np.array_equal(mine.indices, theirs.indices)


@pytest.mark.usefixtures("elsewhere")
def test_means_of_classes_are_the_same():
    x, y = walks(12), np.arange(12) % 3
    found = class_barycenters(x, y, "udtw", max_iter=5)
    assert list(found) == [0, 1, 2]
    for label, one in found.items():
        alone = here(barycenter, [row for row, own in zip(x, y, strict=True) if own == label], "udtw", max_iter=5)
        assert np.array_equal(one.mean, alone.mean)
        assert np.array_equal(one.variance, alone.variance)
    fit = NearestCentroidTimeSeriesClassifier("soft_dtw", objective="frechet", max_iter=5).fit
    assert np.array_equal(fit(x, y).prototypes_, here(fit, x, y).prototypes_)


@pytest.mark.usefixtures("elsewhere")
def test_units_of_an_experiment_run_elsewhere_and_are_kept_here(tmp_path):
    store = Store(tmp_path / "units")
    units = [Unit("squares", "numbers", "square", seed, {}) for seed in range(4)]
    summary = run(units, tasks.square, store, console=Console(quiet=True))
    assert (summary.computed, len(summary.failed)) == (3, 1)
    assert "two is not wanted" in summary.failed[0].error
    results = {unit.seed: result for unit, result in store.results()}
    assert {seed: one["value"] for seed, one in results.items()} == {0: 0, 1: 1, 3: 9}
    assert os.getpid() not in {one["process"] for one in results.values()}
    assert {one["threads"] for one in results.values()} == {1}


@pytest.mark.usefixtures("elsewhere")
def test_tokens_are_the_same(tmp_path):
    images = load_images("synthetic").of_split("test").limited(2)
    backbone = load_backbone("patches")
    embed(images, backbone, tmp_path / "elsewhere", images_per_shard=5)
    here(embed, images, backbone, tmp_path / "here", images_per_shard=5)
    mine, theirs = (open_tokens(tmp_path / name) for name in ("elsewhere", "here"))
    every = np.arange(len(mine))
    assert np.array_equal(mine.tokens(every), theirs.tokens(every))


def test_a_killed_worker_costs_no_result(cluster):
    """Of a Dask cluster, whose nanny starts another one."""
    victim = next(iter(cluster.run(os.getpid).values()))
    timer = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    with joblib.parallel_config("dask"):
        timer.start()
        found = dict(joblib_tasks.spread(tasks.slow_square, [(number,) for number in range(24)]))
    timer.join()
    assert {number: value for number, (value, _) in found.items()} == {n: n**2 for n in range(24)}
    cluster.wait_for_workers(2)


def test_a_killed_process_costs_no_result(tmp_path):
    with joblib.parallel_config("loky", n_jobs=2):
        found = dict(joblib_tasks.spread(tasks.die_once, [(tmp_path / "died", number) for number in range(4)]))
    assert found == {number: number for number in range(4)}


def test_a_task_that_kills_every_worker_is_a_named_error():
    with joblib.parallel_config("loky", n_jobs=2), pytest.raises(WorkerError, match="1 of 1 tasks got lost 3 times"):
        list(joblib_tasks.spread(tasks.die, [(0,)]))


@pytest.mark.usefixtures("elsewhere")
def test_what_a_task_raises_is_raised_here():
    with pytest.raises(OptionError, match="0 is refused") as caught:
        list(joblib_tasks.spread(tasks.refuse, [(0,)]))
    assert "In a worker" in caught.value.__notes__[0]


@pytest.mark.usefixtures("elsewhere")
def test_work_in_a_worker_is_not_handed_out_again():
    assert joblib_tasks.chosen()
    assert dict(joblib_tasks.spread(tasks.chosen_there, [(0,)])) == {0: False}


def test_threads_are_no_backend_of_this_kind():
    assert not joblib_tasks.chosen()
    with joblib.parallel_config("threading", n_jobs=2):
        assert not joblib_tasks.chosen()


def test_shares_cover_everything_once():
    assert [i for share in joblib_tasks.shares(11, 2) for i in share] == list(range(11))
    assert max(map(len, joblib_tasks.shares(11, 2))) == 2


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True])
def test_a_senseless_number_of_workers(n_jobs):
    with pytest.raises(OptionError, match="n_jobs"):
        joblib_tasks.check_jobs(n_jobs)


def test_labels_and_weights_of_class_means_are_checked():
    with pytest.raises(ShapeError, match="one label per series"):
        class_barycenters(walks(3), [0, 1])
    with pytest.raises(OptionError, match="weights"):
        class_barycenters(walks(3), [0, 1, 1], weights=[1, 1])
