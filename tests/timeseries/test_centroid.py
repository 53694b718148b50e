"""NearestCentroidTimeSeriesClassifier."""

import numpy as np
import pytest
import torch

import udtw
from udtw.errors import OptionError
from udtw.nn import SigmaNet
from udtw.timeseries import NearestCentroidTimeSeriesClassifier as Centroid
from udtw.timeseries import barycenter

from .helpers import bumps

X, Y = bumps()
X_NEW, Y_NEW = bumps(seed=1)
METRICS = ("euclidean", "dtw", "soft_dtw", "soft_dtw_divergence", "udtw")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("objective", ["frechet", "discriminative"])
def test_every_metric_and_objective_learns_the_classes(metric, objective):
    model = Centroid(metric, objective=objective, max_iter=30, random_state=0).fit(X, Y)
    assert model.score(X_NEW, Y_NEW) > 0.7
    assert model.prototypes_.shape == (2, 30, 1)


@pytest.mark.parametrize("sigma", [None, "free", "step", "context", "series", SigmaNet(1)], ids=str)
@pytest.mark.parametrize("objective", ["frechet", "discriminative"])
def test_every_kind_of_uncertainty(sigma, objective):
    model = Centroid(objective=objective, sigma=sigma, max_iter=30, random_state=0).fit(X, Y)
    assert model.score(X_NEW, Y_NEW) > 0.7
    assert (model.variances_ is None) == (sigma is None)
    if sigma is not None:
        assert (model.variances_ >= 0.25**2).all()
        assert (model.variances_ <= 4.0**2).all()


def test_the_decision_is_the_least_objective_of_the_public_align():
    model = Centroid(sigma="context", metric_params={"gamma": 0.2, "beta": 0.3}, max_iter=10, random_state=0).fit(X, Y)
    x = torch.tensor(X_NEW[..., None], dtype=torch.float32)
    with torch.no_grad():
        noise = model.sigma_net_(x)
        expected = [
            udtw.align(x, torch.tensor(p)[None], noise, torch.tensor(v)[None], **model.metric_.params).loss
            for p, v in zip(model.prototypes_, model.variances_, strict=True)
        ]
    table = torch.stack(expected, 1).numpy()
    assert model.metric_.params["debias"]
    assert model.metric_.params["beta"] != 0.3  # it was learned
    np.testing.assert_allclose(model.distances(X_NEW), table, rtol=1e-4, atol=1e-4)
    assert (model.predict(X_NEW) == model.classes_[table.argmin(1)]).all()


def test_frechet_prototypes_without_uncertainty_are_barycenters():
    model = Centroid("soft_dtw", objective="frechet", metric_params={"gamma": 0.5}, max_iter=20).fit(X, Y)
    expected = barycenter(X[Y == "two"], "soft_dtw", gamma=0.5, max_iter=20).mean
    np.testing.assert_allclose(model.prototypes_[1, :, 0], expected, atol=1e-5)


def test_the_loss_falls():
    trace = Centroid(max_iter=80, random_state=0).fit(X, Y).loss_trace_
    assert np.mean(trace[-5:]) < 0.5 * np.mean(trace[:5])


def test_probabilities_agree_with_the_decision():
    for objective in ("frechet", "discriminative"):
        model = Centroid(objective=objective, max_iter=20, random_state=0).fit(X, Y)
        shares = model.predict_proba(X_NEW)
        np.testing.assert_allclose(shares.sum(1), 1)
        assert (model.classes_[shares.argmax(1)] == model.predict(X_NEW)).all()
        assert ((model.decision_function(X_NEW) > 0) == (shares[:, 1] > 0.5)).all()


def test_prototypes_have_the_average_length_or_the_one_asked_for():
    ragged = [row[: 20 + i] for i, row in enumerate(X[:10])]
    labels = [0, 1] * 5
    assert Centroid(max_iter=2).fit(ragged, labels).prototypes_.shape == (2, 24, 1)
    assert Centroid(max_iter=2, length=11).fit(ragged, labels).prototypes_.shape == (2, 11, 1)


def test_same_seed_same_model_and_no_global_seed_is_touched():
    state = torch.get_rng_state()
    a, b = (Centroid(sigma="context", max_iter=5, random_state=3).fit(X, Y).distances(X_NEW) for _ in range(2))
    assert np.array_equal(a, b)
    assert torch.equal(state, torch.get_rng_state())


def test_a_given_network_is_copied():
    net = SigmaNet(1)
    before = net.net[0].weight.clone()
    Centroid(sigma=net, max_iter=5).fit(X, Y)
    assert torch.equal(before, net.net[0].weight)


@pytest.mark.parametrize("options", [{"objective": "luck"}, {"metric": "cosine"}, {"sigma": "deep"}])
def test_bad_options_are_named_errors(options):
    with pytest.raises(OptionError):
        Centroid(**options).fit(X, Y)


def test_distances_to_prototypes_are_those_of_the_public_metric():
    for metric in ("soft_dtw", "soft_dtw_divergence", "dtw"):
        model = Centroid(metric, metric_params={"gamma": 0.2}, max_iter=3, random_state=0).fit(X, Y)
        options = {} if metric == "dtw" else {"gamma": 0.2}
        table = udtw.pairwise(X_NEW, list(model.prototypes_.astype(float)), metric=metric, **options)
        np.testing.assert_allclose(model.distances(X_NEW), table, rtol=1e-3, atol=1e-4)
