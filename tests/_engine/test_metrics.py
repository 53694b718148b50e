"""The table of metrics: rows agree with the public functions, and a new row works wherever a name does."""

import numpy as np
import pytest
import torch

import udtw
from udtw._engine import metrics
from udtw._engine.metrics import METRICS, Metric, get_metric, metric_names
from udtw._engine.pair_block import Batch
from udtw.errors import LengthError, OptionError
from udtw.fewshot.comparators import AlignmentComparator
from udtw.fewshot.tokens import Tokens
from udtw.interop import distance_function
from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier, barycenter

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((6, 8)), RNG.standard_normal((4, 8))
LABELS = np.array([0, 1, 0, 1, 0, 1])
FUNCTIONS = {
    "euclidean": udtw.euclidean,
    "dtw": udtw.dtw,
    "soft_dtw": udtw.soft_dtw,
    "soft_dtw_divergence": udtw.soft_dtw_divergence,
    "udtw": lambda x, y: udtw.align(x, y).loss,
}


def largest_gap(x, y, *, scale=1.0):
    """The largest difference of two series of one length."""
    return scale * (x - y).abs().amax((1, 2))


def first_gap(x, y, *, lengths_x=None, lengths_y=None):
    """The difference of the first steps, and of the lengths: elastic, though not sensible."""
    n, m = (x.shape[1] if one is None else one for one in (lengths_x, lengths_y))
    return (x[:, 0] - y[:, 0]).square().sum(1) + torch.as_tensor(n - m).abs()


@pytest.fixture(autouse=True)
def registered():
    udtw.register_metric("largest_gap", largest_gap, label="max")
    udtw.register_metric("first_gap", first_gap, elastic=True)
    yield
    del METRICS["largest_gap"], METRICS["first_gap"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_give_the_values_of_the_public_functions(name):
    expected = np.array([[float(FUNCTIONS[name](x, y)) for y in Y] for x in X])
    assert np.allclose(udtw.pairwise(X, Y, name), expected, rtol=1e-12)
    of_pairs = get_metric(name).between(Batch(torch.from_numpy(X[:4, :, None])), Batch(torch.from_numpy(Y[:, :, None])))
    assert np.allclose(of_pairs, np.diagonal(expected[:4]), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in METRICS if "gap" not in name])
def test_rows_are_described(name):
    row = METRICS[name]
    assert row.name == name
    assert row.label
    assert row.summary[0].islower() or row.summary.startswith("`")


def test_a_registered_metric_is_used_by_name_everywhere():
    expected = np.abs(X[:, None] - Y[None]).max(2)
    assert np.allclose(udtw.pairwise(X, Y, "largest_gap", scale=3.0), 3 * expected)
    nearest = KNeighborsTimeSeriesClassifier(metric="largest_gap").fit(X, LABELS)
    assert np.array_equal(nearest.kneighbors(Y)[1][:, 0], expected.argmin(0))
    centroid = NearestCentroidTimeSeriesClassifier(metric="largest_gap", max_iter=2, random_state=0).fit(X, LABELS)
    assert np.allclose(
        centroid.distances(Y), np.abs(Y[:, None] - centroid.prototypes_[None, :, :, 0]).max(2), atol=1e-5
    )
    mean = barycenter(X, "largest_gap", max_iter=3)
    assert mean.trace[-1] <= mean.trace[0]
    assert distance_function("largest_gap", scale=2.0)(X[0], Y[0]) == pytest.approx(2 * expected[0, 0])


def test_an_elastic_metric_gets_the_lengths():
    ragged = [X[0], X[1, :5], X[2, :3]]
    found = udtw.pairwise(ragged, metric="first_gap")
    assert found[0, 2] == pytest.approx((X[0, 0] - X[2, 0]) ** 2 + 5)
    tokens = Tokens(torch.from_numpy(X[:, :, None]).float(), torch.full((6,), 8))
    compared = AlignmentComparator("first_gap")(tokens, tokens).distance
    assert compared[0, 1] == pytest.approx((X[0, 0] - X[1, 0]) ** 2, rel=1e-5)


def test_a_metric_for_one_length_refuses_others():
    with pytest.raises(LengthError, match="series of one length"):
        udtw.pairwise([X[0], X[1, :5]], metric="largest_gap")
    with pytest.raises(OptionError, match="different lengths"):
        AlignmentComparator("largest_gap")


def test_a_metric_object_brings_its_parameters():
    sharp = get_metric("soft_dtw", gamma=0.01)
    assert np.array_equal(udtw.pairwise(X, metric=sharp), udtw.pairwise(X, metric="soft_dtw", gamma=0.01))
    classifier = KNeighborsTimeSeriesClassifier(metric=sharp, metric_params={"gamma": 1.0}).fit(X, LABELS)
    assert np.array_equal(classifier.kneighbors(Y)[0][:, 0], udtw.pairwise(Y, X, sharp).min(1))
    with pytest.raises(OptionError, match="brings its own parameters"):
        udtw.pairwise(X, metric=sharp, gamma=1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get_metric("cosine"), "metric must be one of"),
        (
            lambda: get_metric("dtw", root=True),
            "no parameter root; it has band, warp_penalty, relax, squared, normalize",
        ),
        (lambda: udtw.register_metric("dtw", largest_gap), "built-in"),
        (lambda: udtw.register_metric("my gap", largest_gap), "identifier"),
    ],
)
def test_what_cannot_be_a_metric(call, message):
    with pytest.raises(OptionError, match=message):
        call()


def test_metrics_of_installed_packages_are_found(monkeypatch):
    class EntryPoint:
        name = "installed_gap"

        def load(self):
            return largest_gap

    monkeypatch.setattr(metrics, "_installed", lambda: {"installed_gap": EntryPoint()})
    assert "installed_gap" in metric_names()
    try:
        assert isinstance(get_metric("installed_gap", scale=2.0), Metric)
    finally:
        METRICS.pop("installed_gap", None)
