"""Estimators on a device: what they return there is what they return on the CPU, and nothing is made elsewhere."""

import numpy as np
import pytest
import torch

from tests.simulated_device import MOVED, nothing_moved, simulated_device
from udtw._engine.pair_block import Batch
from udtw._engine.series_set import load_series
from udtw._io.device import checked_device
from udtw._io.training import Training
from udtw.errors import OptionError
from udtw.nn import SigmaNet
from udtw.timeseries import (
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    SequenceForecaster,
    TimeSeriesKMeans,
    TimeSeriesKMedoids,
    barycenter,
    load_model,
    save_model,
)


def data(count: int = 12):
    """Waves of two frequencies, of different lengths."""
    rng = np.random.default_rng(0)
    y = np.arange(count) % 2
    X = [np.sin(np.arange(10 + i % 3) * (0.5 + k)) + 0.1 * rng.standard_normal(10 + i % 3) for i, k in enumerate(y)]
    return X, y


def both(fitted):
    """``fitted(device)`` on the CPU by the same backend, and on the simulated device."""
    here = fitted("cpu")
    with simulated_device() as name:
        there = fitted(name)
    return here, there


def agree(here, there, tolerance=1e-3):
    for one, other in zip(here, there, strict=True):
        assert isinstance(other, np.ndarray | float | int)
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("sigma", "weighting"), [("local", "likelihood"), ("series", "likelihood"), ("context", "precision")]
)
def test_k_nearest_neighbours(sigma, weighting):
    X, y = data()

    def fitted(device):
        model = KNeighborsTimeSeriesClassifier(
            2, sigma=sigma, metric_params={"weighting": weighting}, max_iter=2, random_state=0, device=device
        )
        return model.fit(X, y).kneighbors(X)[:1]

    agree(*both(fitted))


@pytest.mark.parametrize("metric", ["euclidean", "dtw", "soft_dtw", "soft_dtw_divergence"])
def test_k_nearest_neighbours_without_variances(metric):
    X, y = data()
    X = np.stack([one[:10] for one in X])
    agree(*both(lambda device: KNeighborsTimeSeriesClassifier(metric=metric, device=device).fit(X, y).kneighbors(X)))


def test_a_network_trained_with_centroids():
    X, y = data()

    def fitted(device):
        model = KNeighborsTimeSeriesClassifier(
            sigma="step", training={"objective": "centroid"}, max_iter=2, random_state=0, device=device
        )
        return model.fit(X, y).kneighbors(X)[:1]

    agree(*both(fitted))


@pytest.mark.parametrize(
    ("objective", "sigma"),
    [("frechet", "free"), ("frechet", None), ("discriminative", "free"), ("discriminative", "local")],
)
def test_nearest_centroid(objective, sigma):
    X, y = data()

    def fitted(device):
        model = NearestCentroidTimeSeriesClassifier(
            objective=objective, sigma=sigma, max_iter=3, random_state=0, device=device
        ).fit(X, y)
        return model.prototypes_, model.distances(X), model.temperature_

    agree(*both(fitted))


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("euclidean", {}), ("dtw", {}), ("soft_dtw", {}), ("soft_dtw_divergence", {}), ("udtw", {}),
        ("udtw", {"sigma": None}), ("udtw", {"weighting": "precision"}), ("udtw", {"init": "medoid"}),
        ("udtw", {"sigma": "net"}),
    ],
)  # fmt: skip
def test_barycenter(metric, options):
    X = [one[:10] for one in data()[0]]
    torch.manual_seed(0)
    if options.get("sigma") == "net":
        options = {"sigma": SigmaNet(1)}

    def found(device):
        result = barycenter(X, metric, max_iter=3, device=device, **options)
        return result.mean, result.variance, result.loss

    agree(*both(found))


@pytest.mark.parametrize("metric", ["euclidean", "dtw", "udtw", "soft_dtw_divergence"])
def test_clusters(metric):
    X = [one[:8] for one in data(8)[0]]

    def fitted(device):
        means = TimeSeriesKMeans(2, metric=metric, n_init=1, max_iter=1, random_state=0, device=device).fit(X)
        medoids = TimeSeriesKMedoids(2, metric=metric, n_init=1, random_state=0, device=device).fit(X)
        return means.cluster_centers_, means.transform(X), medoids.labels_, medoids.transform(X)

    agree(*both(fitted))


@pytest.mark.parametrize("loss", ["udtw", "soft_dtw", "dtw"])
def test_forecaster(loss):
    X = np.stack([one[:10] for one in data()[0]])

    def fitted(device):
        model = SequenceForecaster(loss, hidden=4, max_iter=2, random_state=0, device=device).fit(X[:, :6], X[:, 6:])
        return model.predict(X[:, :6], return_std=True)

    agree(*both(fitted))


FITS = {
    "k-NN, local": lambda X, y, name: KNeighborsTimeSeriesClassifier(
        sigma="local", max_iter=3, random_state=0, device=name
    ).fit(X, y),
    "k-NN, series": lambda X, y, name: KNeighborsTimeSeriesClassifier(
        sigma="series", max_iter=3, random_state=0, device=name
    ).fit(X, y),
    "prototypes, local": lambda X, y, name: NearestCentroidTimeSeriesClassifier(
        sigma="local", max_iter=3, random_state=0, device=name
    ).fit(X, y),
    "prototypes, free": lambda X, y, name: NearestCentroidTimeSeriesClassifier(
        sigma="free", objective="frechet", max_iter=3, random_state=0, device=name
    ).fit(X, y),
    "forecaster": lambda X, y, name: SequenceForecaster("udtw", hidden=4, max_iter=2, random_state=0, device=name).fit(
        np.stack([one[:6] for one in X]), np.stack([one[6:10] for one in X])
    ),
}


@pytest.mark.parametrize("fit", FITS)
def test_data_stay_on_the_device_during_a_training(fit, monkeypatch):
    """A step copies nothing there: no series, no faults, no dropout, no indices. A check may copy indices of pairs."""
    done, step = [], Training._step

    def watched(self, tick):
        inner = self.task.step

        def only(number):
            with nothing_moved():
                return inner(number)

        self.task.step = only
        before = len(MOVED)
        step(self, tick)
        self.task.step = inner
        done.append([one for one in MOVED[before:] if not one.startswith("torch.int64")])

    monkeypatch.setattr(Training, "_step", watched)
    with simulated_device() as name:
        FITS[fit](*data(), name)
        assert MOVED, "the series themselves"
    assert len(done) >= 2
    assert done == [[]] * len(done)


def test_a_copy_to_the_device_is_noticed():
    told = pytest.raises(AssertionError, match=r"copied to the device.*float32 \(3,\)")
    with simulated_device() as name, told, nothing_moved():
        torch.zeros(3).to(name)


def test_series_are_moved_once():
    series = load_series("X", data()[0])
    with simulated_device() as name:
        there = load_series("X", data()[0], device=name)
        assert there.tensors[0] is there.tensors[0]
        assert there[np.arange(3)].device.type == there.with_variances(None).device.type == name
        assert Batch.of(there, torch.float64).values is there.tensors[0]
    assert Batch.of(series, torch.float64).values.data_ptr() == series.values.ctypes.data, "no copy on the CPU"


@pytest.mark.parametrize("name", ["cuda", "cuda:7", "xpu", "nonsense", "lazy", "meta"])
def test_a_device_that_is_not_there_is_a_named_error(name):
    if name.startswith("cuda") and torch.cuda.is_available() and name != "cuda:7":
        pytest.skip("there is such a device here")
    with pytest.raises(OptionError, match="torch sees no such device"):
        checked_device(name)
    X, y = data()
    with pytest.raises(OptionError, match=f"device='{name}'"):
        KNeighborsTimeSeriesClassifier(metric="dtw", device=name).fit(X, y)


def test_a_saved_model_loads_without_the_device(tmp_path):
    X, y = data()
    with simulated_device() as name:
        model = KNeighborsTimeSeriesClassifier(sigma="local", max_iter=1, random_state=0, device=name).fit(X, y)
        expected = model.kneighbors(X)[0]
        save_model(tmp_path / "model.safetensors", model)
    again, _ = load_model(tmp_path / "model.safetensors")
    assert again.device is None
    agree([expected], [again.kneighbors(X)[0]])
