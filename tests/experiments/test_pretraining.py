"""The start of the views: random tasks, their training, and the weights that come with the package."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from experiments import pretraining
from experiments.random_tasks import random_curve, random_task
from udtw._engine.series_set import load_series
from udtw.data import add_faults
from udtw.timeseries.views import START_FILE, USUAL_RANGE, SlopeView


def test_random_tasks_are_standardised_and_have_two_series_of_each_class():
    for seed in range(30):
        X, y = random_task(10, np.random.default_rng(seed))
        assert np.bincount(y).min() >= 2
        np.testing.assert_allclose(X.mean(1), 0, atol=1e-4)
        assert np.isfinite(X).all()
    curves = np.stack([random_curve(50, np.random.default_rng(seed)) for seed in range(30)])
    assert abs(np.corrcoef(curves) - np.eye(30)).mean() < 0.5


def test_training_writes_what_a_view_starts_with(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pretraining, "SERIES", 10)
    out = tmp_path / "start.safetensors"
    monkeypatch.setattr("sys.argv", ["pretraining", "--out", str(out), "--steps", "3"])
    pretraining.main()
    assert "loss" in capsys.readouterr().out
    assert set(load_file(out)) == set(load_file(START_FILE))
    with safe_open(out, "pt") as file:
        about = file.metadata()
    assert about.keys() >= {"beta", "beta_at_start", "seed", "steps", "learning_rate"}
    first = load_file(out)
    pretraining.main()
    assert all(torch.equal(first[name], again) for name, again in load_file(out).items())


def mean_loss(task, tasks=40):
    rng = np.random.default_rng(10)
    with torch.no_grad():
        return float(np.mean([float(task.loss(rng)) for _ in range(tasks)]))


def test_the_weights_of_the_package_are_better_than_none_on_new_tasks():
    task = pretraining.Pretraining(seed=5)
    before = mean_loss(task)
    task.view = SlopeView.of_series(load_series("X", np.random.default_rng(0).standard_normal((4, 50))), USUAL_RANGE)
    task.view.net.scale.fill_(1.0)
    assert mean_loss(task) < before - 0.02


@pytest.mark.parametrize("kind", ["bursts", "spikes", "dropouts"])
def test_faults_are_uncertain_from_the_beginning(kind):
    t = np.linspace(0, 6, 100)
    X = np.sin(t + np.linspace(0, 3, 20)[:, None])
    faulty, where = add_faults(X, kind, "medium", 0)
    variances = SlopeView.of_series(load_series("X", X), USUAL_RANGE).of(load_series("X", faulty)).variances
    sigma = np.sqrt(variances.mean(2))
    assert sigma[where].mean() > 1.3 * sigma[~where].mean()


@pytest.mark.parametrize("bounds", [(0.1, 9.0), (0.5, 2.0)])
def test_another_range_starts_with_the_same_order(bounds):
    series = load_series("X", np.random.default_rng(0).standard_normal((3, 60)).cumsum(1))
    usual, other = (SlopeView.of_series(series, given).of(series).variances for given in (USUAL_RANGE, bounds))
    assert np.array_equal(np.argsort(usual[0, :, 0]), np.argsort(other[0, :, 0]))
    assert np.sqrt(other).min() >= bounds[0]
    assert np.sqrt(other).max() <= bounds[1]
