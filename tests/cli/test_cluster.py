"""``--dask``: a command's work on a cluster gives the same answer, and a cluster that is not there is named."""

import pytest

pytest.importorskip("typer")
pytest.importorskip("distributed")

from distributed import LocalCluster

from tests.cli.helpers import fails, run_json
from udtw._io import joblib_tasks
from udtw.timeseries.class_probabilities import FOLDS

COMMAND = ("classify", "cbf", "--metric", "dtw")


def test_classification_on_a_cluster_gives_the_same_accuracy(monkeypatch):
    handed_out = []
    monkeypatch.setattr(
        joblib_tasks, "spread", lambda *args, own=joblib_tasks.spread: handed_out.append(args) or own(*args)
    )
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", protocol="tcp://"
    ) as found:
        there = run_json(*COMMAND, "--dask", found.scheduler_address)
    assert len(handed_out) == FOLDS + 1, "each third of the training series, then the others"
    here = run_json(*COMMAND)
    assert len(handed_out) == FOLDS + 1
    assert there["accuracy"] == here["accuracy"]


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("udtw.cli.training.CONNECT_SECONDS", 0.5)
    message = fails(1, *COMMAND, "--dask", "tcp://127.0.0.1:9")
    assert "No Dask scheduler answers at tcp://127.0.0.1:9" in message
