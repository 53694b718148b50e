"""Saved estimators answer as before; other and damaged files are refused by name."""

import numpy as np
import pytest
import torch

from udtw._engine.metrics import get_metric
from udtw._engine.pair_block import Batch
from udtw._engine.series_set import load_series
from udtw.errors import FileFormatError, OptionError
from udtw.nn import SigmaNet, TrainingSettings
from udtw.timeseries import (
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    SequenceForecaster,
    TimeSeriesKMeans,
    TimeSeriesKMedoids,
    load_model,
    save_model,
)
from udtw.timeseries.model_files import _Reader, _Writer
from udtw.timeseries.views import SlopeView, ValueView

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((8, 12)) + np.arange(8)[:, None] % 2 * 3, np.array(["low", "high"] * 4)


@pytest.mark.parametrize(
    "view",
    [
        SlopeView.of_series(load_series("X", X), (0.5, 2.0)),
        ValueView(SigmaNet(1, context=3)),
        ValueView(SigmaNet(1, length=12)),
    ],
    ids=["slopes", "context", "series"],
)
def test_views_see_the_same(view):
    writer = _Writer()
    written = writer.encode("view", view)
    again = _Reader(writer.tensors).decode(written)
    batch = Batch.of(load_series("X", X))
    assert torch.equal(view(batch).values, again(batch).values)
    assert torch.equal(view(batch).variances, again(batch).variances)


def test_values_of_all_kinds_come_back():
    value = {
        "number": 1.5, "infinite": float("inf"), "none": None, "pair": (1, "a"), "list": [True, 2],
        "array": np.arange(6.0).reshape(2, 3), "labels": np.array(["a", "b"]), "metric": get_metric("dtw", band=3),
    }  # fmt: skip
    writer = _Writer()
    again = _Reader(writer.tensors).decode(writer.encode("value", value))
    assert again.pop("array").tolist() == value.pop("array").tolist()
    assert again.pop("labels").tolist() == value.pop("labels").tolist()
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    "estimator",
    [
        KNeighborsTimeSeriesClassifier(metric="euclidean"),
        KNeighborsTimeSeriesClassifier(max_iter=2, training=TrainingSettings(batch_size=4), random_state=0),
        NearestCentroidTimeSeriesClassifier(max_iter=2, metric_params={"gamma": 0.3}, random_state=0),
        TimeSeriesKMeans(2, metric="dtw", n_init=1, random_state=0),
        TimeSeriesKMedoids(2, metric="euclidean", random_state=0),
    ],
    ids=["euclidean", "knn", "centroid", "kmeans", "kmedoids"],
)
def test_saved_estimators_answer_as_before(tmp_path, estimator):
    estimator.fit(X, Y)
    save_model(tmp_path / "m.safetensors", estimator, {"unit": "K"})
    again, about = load_model(tmp_path / "m.safetensors")
    assert about == {"unit": "K"}
    assert {**again.get_params(), "device": None} == {**estimator.get_params(), "device": None}
    assert again.predict(X).tolist() == estimator.predict(X).tolist()


def test_what_cannot_be_saved_or_read_is_named(tmp_path):
    with pytest.raises(OptionError, match="not fitted"):
        save_model(tmp_path / "m.safetensors", KNeighborsTimeSeriesClassifier())
    with pytest.raises(OptionError, match="list cannot be saved"):
        save_model(tmp_path / "m.safetensors", [])
    (tmp_path / "m.safetensors").write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="saved model"):
        load_model(tmp_path / "m.safetensors")


def test_forecasters_are_saved_in_the_same_way(tmp_path, one_thread):
    forecaster = SequenceForecaster("euclidean", max_iter=1, random_state=0).fit(np.arange(40.0) % 7, horizon=3)
    save_model(tmp_path / "model", forecaster)
    again, about = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(), forecaster.predict())
    assert about == {}
    with pytest.raises(OptionError, match="about"):
        save_model(tmp_path / "other", forecaster, {"unit": "K"})
