"""All pairs against one pair at a time, for every metric, ragged or not, in parallel or not."""

import sys

import numpy as np
import pytest
import torch

import udtw
from udtw._engine.metrics import METRICS
from udtw.errors import (
    BackendError,
    GammaError,
    LengthError,
    NonFiniteError,
    OptionError,
    RangeError,
    ShapeError,
    SizeError,
    VarianceError,
)

RNG = np.random.default_rng(0)
RAGGED_X = [RNG.standard_normal((n, 2)) for n in (5, 9, 1, 7, 7)]
RAGGED_Y = [RNG.standard_normal((n, 2)) for n in (8, 3, 12)]
VAR_X = [RNG.uniform(0.5, 2, len(s)) for s in RAGGED_X]
VAR_Y = [RNG.uniform(0.5, 2, len(s)) for s in RAGGED_Y]

SINGLE = {
    "dtw": lambda x, y, a, b, **o: udtw.dtw(x, y, **o),
    "soft_dtw": lambda x, y, a, b, **o: udtw.soft_dtw(x, y, gamma=0.5, **o),
    "soft_dtw_divergence": lambda x, y, a, b, **o: udtw.soft_dtw_divergence(x, y, gamma=0.5, **o),
    "udtw": lambda x, y, a, b, **o: (
        udtw.align(x, y, a, b, gamma=0.5, beta=0.3, lam=0.2, weighting="precision", **o).loss
    ),
}


def options_of(metric: str) -> dict:
    extra = {"beta": 0.3, "lam": 0.2, "weighting": "precision", "var_x": VAR_X, "var_y": VAR_Y}
    extra = extra if metric == "udtw" else {}
    return extra if metric == "dtw" else {"gamma": 0.5, **extra}


@pytest.mark.parametrize("metric", SINGLE)
@pytest.mark.parametrize("options", [{}, {"band": 2}, {"band": "itakura"}, {"normalize": "length"}])
@pytest.mark.parametrize("backend", ["numba", "portable"])
def test_ragged_lists_equal_single_calls(metric, options, backend):
    found = udtw.pairwise(RAGGED_X, RAGGED_Y, metric, n_jobs=2, backend=backend, **options_of(metric), **options)
    for i, (x, a) in enumerate(zip(RAGGED_X, VAR_X, strict=True)):
        for j, (y, b) in enumerate(zip(RAGGED_Y, VAR_Y, strict=True)):
            assert found[i, j] == pytest.approx(SINGLE[metric](x, y, a, b, **options), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_one_collection_is_symmetric_and_equals_the_full_table(metric):
    X = RNG.standard_normal((12, 10))
    half, full = udtw.pairwise(X, metric=metric), udtw.pairwise(X, X, metric=metric)
    assert half.shape == (12, 12)
    assert np.array_equal(half, half.T)
    assert np.allclose(half, full, atol=1e-12)
    if metric in ("euclidean", "dtw", "soft_dtw_divergence"):
        assert not half.diagonal().any()


@pytest.mark.parametrize("dim", [1, 3, 40])
def test_features_and_float32(dim):
    X, Y = (RNG.standard_normal((6, 11, dim)).astype(np.float32) for _ in range(2))
    found = udtw.pairwise(X, Y, "soft_dtw", n_jobs=-1)
    assert found.dtype == np.float32
    assert np.allclose(found, [[udtw.soft_dtw(x, y) for y in Y] for x in X], rtol=1e-5, atol=1e-4)


def test_normalised_by_the_expected_path_length():
    found = udtw.pairwise(RAGGED_X, RAGGED_Y, "udtw", var_x=VAR_X, var_y=VAR_Y, normalize="path")
    single = udtw.align(RAGGED_X[1], RAGGED_Y[2], VAR_X[1], VAR_Y[2], normalize="path").loss
    assert found[1, 2] == pytest.approx(single, rel=1e-12)
    soft = udtw.pairwise(RAGGED_X, RAGGED_Y, "soft_dtw", normalize="path")
    assert soft[1, 2] == pytest.approx(udtw.soft_dtw(RAGGED_X[1], RAGGED_Y[2], normalize="path"), rel=1e-12)


def test_parts_are_distance_and_regulariser():
    distance, omega = udtw.pairwise(RAGGED_X, RAGGED_Y, var_x=VAR_X, var_y=VAR_Y, return_parts=True)
    one = udtw.align(RAGGED_X[0], RAGGED_Y[1], VAR_X[0], VAR_Y[1])
    assert distance[0, 1] == pytest.approx(one.distance, rel=1e-12)
    assert omega[0, 1] == pytest.approx(one.regularizer, rel=1e-10)


def test_a_variance_on_one_side_is_one_on_the_other():
    found = udtw.pairwise(RAGGED_X, RAGGED_Y, var_x=VAR_X)
    assert found[1, 0] == pytest.approx(udtw.align(RAGGED_X[1], RAGGED_Y[0], VAR_X[1]).loss, rel=1e-12)


@pytest.mark.parametrize("metric", ["dtw", "udtw"])
def test_small_blocks_give_the_same_bits(metric, monkeypatch):
    X, Y = RNG.standard_normal((9, 14)), RNG.standard_normal((7, 12))
    expected = udtw.pairwise(X, Y, metric, n_jobs=2)
    monkeypatch.setattr(sys.modules["udtw._engine.pairwise"], "BLOCK_CELLS", 500)  # the module, not the function
    assert np.array_equal(udtw.pairwise(X, Y, metric), expected)


def test_matrix_slices_give_the_same_result(monkeypatch):
    X = RNG.standard_normal((5, 8, 30))
    expected = udtw.pairwise(X, metric="udtw")
    monkeypatch.setattr("udtw._engine.problem.MATRIX_BYTES", 1000)
    assert np.allclose(udtw.pairwise(X, metric="udtw"), expected, rtol=1e-12)


@pytest.mark.parametrize("metric", ["dtw", "udtw"])
def test_values_that_do_not_fit_are_a_named_error(metric):
    with pytest.raises(RangeError, match="float32"):
        udtw.pairwise(np.full((2, 3), [[1e19], [-1e19]], np.float32), metric=metric)


def test_missing_values_are_named_or_left_out():
    series = [np.array([1.0, np.nan, 2.0, 3.0]), np.array([1.0, 2.0])]
    with pytest.raises(NonFiniteError, match=r"X\[0, 1, 0\] is nan; 1 value\(s\) .*nan_policy='omit'"):
        udtw.pairwise(series, metric="dtw")
    found = udtw.pairwise(series, metric="dtw", nan_policy="omit")
    assert found[0, 1] == udtw.dtw(np.array([1.0, 2.0, 3.0]), series[1])
    padded = np.array([[1.0, 2.0, np.nan], [1.0, 2.0, 3.0]])
    assert udtw.pairwise(padded, metric="dtw", nan_policy="omit")[0, 1] == 1
    assert np.isnan(series[0][1])


def test_torch_in_torch_out_and_roots():
    X = torch.randn(4, 6)
    found = udtw.pairwise(X, metric="dtw", squared=False)
    assert isinstance(found, torch.Tensor)
    assert torch.allclose(found.square(), udtw.pairwise(X, metric="dtw"), atol=1e-5)


def test_euclidean_table():
    X, Y = RNG.standard_normal((4, 6, 2)), RNG.standard_normal((3, 6, 2))
    exact = ((X[:, None] - Y[None]) ** 2).sum((2, 3))
    assert np.allclose(udtw.pairwise(X, Y, "euclidean"), exact)
    assert np.allclose(udtw.pairwise(X, Y, "euclidean", normalize="length"), exact / 6)
    for ragged in (RAGGED_X, RAGGED_X[:2]):
        with pytest.raises(LengthError, match="one length"):
            udtw.pairwise(ragged, metric="euclidean")
    with pytest.raises(LengthError, match="one length"):
        udtw.pairwise(X, Y[:, :5], metric="euclidean")


def test_progress_bar_counts_every_pair(capsys):
    udtw.pairwise(RNG.standard_normal((6, 10)), metric="dtw", progress=True)
    assert "21/21" in capsys.readouterr().err
    udtw.pairwise(RNG.standard_normal((6, 10)), metric="dtw")
    assert not capsys.readouterr().err


def test_a_table_that_does_not_fit_is_refused_with_an_estimate(monkeypatch):
    monkeypatch.setattr("udtw._io.memory.free_bytes", lambda: 2**30)
    series = np.zeros((20_000, 1))
    with pytest.raises(SizeError, match=r"20,000 × 20,000 distances \(dtw\) would take about 4\.2 GiB.*in parts"):
        udtw.pairwise(series, metric="dtw")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"metric": "cosine"}, OptionError, "metric must be one of"),
        ({"n_jobs": 0}, OptionError, "n_jobs"),
        ({"backend": "enumeration"}, BackendError, "single tiny pairs"),
        ({"gamma": 0}, GammaError, "positive"),
        ({"metric": "dtw", "var_x": [1]}, OptionError, "belong to metrics with variances"),
        ({"metric": "dtw", "normalize": "path"}, OptionError, "does not go with"),
        ({"squared": False}, OptionError, "no parameter squared"),
        ({"band": np.ones((5, 5), bool)}, OptionError, "a mask belongs to"),
        ({"nan_policy": "skip"}, OptionError, "nan_policy"),
        ({"var_y": [1]}, OptionError, "var_y needs Y"),
        ({"var_x": [np.ones(5)]}, ShapeError, "one array of variances per series"),
        ({"var_x": [np.ones(4)] * 3}, ShapeError, r"var_x\[0\] must hold one variance per step, shape \(5,\)"),
        ({"var_x": [np.zeros(5)] * 3}, VarianceError, r"var_x\[0, 0\] is 0.0"),
    ],
)
def test_calls_that_make_no_sense(arguments, error, message):
    with pytest.raises(error, match=message):
        udtw.pairwise(RNG.standard_normal((3, 5)), **arguments)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([], LengthError, "is empty"),
        ([np.ones(3), np.ones((3, 2))], ShapeError, "same number of features"),
        (np.ones(3), ShapeError, r"\(n, T\)"),
        ([np.ones(3), np.ones(0)], LengthError, r"X\[1\] has no step"),
        ([["a"]], ShapeError, r"X\[0\] must hold real numbers"),
    ],
)
def test_collections_that_are_none(data, error, message):
    with pytest.raises(error, match=message):
        udtw.pairwise(data)
