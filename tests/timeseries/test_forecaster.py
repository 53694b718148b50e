"""SequenceForecaster: learns futures, says how certain it is, is a scikit-learn estimator, survives disk and Ctrl-C."""

import hashlib
import json
import pickle

import numpy as np
import pytest
import torch

import udtw
from udtw.errors import FileFormatError, OptionError, ShapeError

pytest.importorskip("sklearn")

from safetensors.torch import load_file, save
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from udtw.timeseries import SequenceForecaster
from udtw.timeseries.forecaster_model import ForecastTask

LOSSES = ["euclidean", "soft_dtw", "soft_dtw_divergence", "udtw"]


def waves(count=60, steps=24, cut=14, seed=0, noise=0.0):
    """Sines of random phase: the past decides the future."""
    rng = np.random.default_rng(seed)
    series = np.sin(np.arange(steps) / 3 + rng.uniform(0, 2 * np.pi, (count, 1)))
    series += noise * rng.normal(size=series.shape)
    return series[:, :cut], series[:, cut:]


def quick(loss="udtw", **options):
    training = {"dropout": 0.0, "learning_rate": 1e-2} | options.pop("training", {})
    return SequenceForecaster(loss, training=training, **{"hidden": 32, "max_iter": 25, "random_state": 0} | options)


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(*waves())


@parametrize_with_checks([quick(hidden=16, training={"batch_size": 200})])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", LOSSES)
def test_learns_the_future_from_the_past(loss):
    forecaster = quick(loss).fit(*waves())
    past, future = waves(seed=1)
    assert forecaster.score(past, future) > 0.9
    error = udtw.dtw(forecaster.predict(past)[..., None], future[..., None])
    assert error.mean() < 0.1 * np.square(future).sum(1).mean()


def test_several_features_in_and_out():
    past, future = waves()
    X, y = np.stack([past, -past], 2), np.stack([future, 2 * future, 0 * future], 2)
    forecaster = quick().fit(X, y)
    forecast, std = forecaster.predict(X, return_std=True)
    assert forecast.shape == std.shape == y.shape
    assert np.square(forecast - y).mean() < 0.1 * y.var()
    with pytest.raises(ShapeError, match="X"):
        forecaster.predict(X[..., :1])


def test_one_step_ahead_may_be_one_number_per_series():
    past, future = waves()
    forecast, std = quick().fit(past, future[:, 0]).predict(past, return_std=True)
    assert forecast.shape == std.shape == (60,)


def test_units_of_the_data_do_not_matter():
    past, future = waves()
    a = quick().fit(past, future).predict(past)
    b = quick().fit(1e3 * past - 7, 1e-2 * future + 5).predict(1e3 * past - 7)
    np.testing.assert_allclose(100 * (b - 5), a, atol=0.02)


@pytest.mark.parametrize("loss", ["euclidean", "udtw"])
def test_std_is_calibrated_on_series_like_those_of_validation(loss):
    past, future = waves(400, noise=0.3)
    forecaster = quick(loss, training={"validation_fraction": 0.5, "patience": 5}).fit(past, future)
    past, future = waves(400, seed=1, noise=0.3)
    forecast, std = forecaster.predict(past, return_std=True)
    ratio = (future - forecast) / std
    assert np.square(ratio).mean() == pytest.approx(1, abs=0.15)
    assert (np.abs(ratio) < 1.96).mean() == pytest.approx(0.95, abs=0.03)


def test_with_udtw_uncertainty_depends_on_the_series():
    rng = np.random.default_rng(0)
    kind = np.repeat([[1.0], [-1.0]], 200, 0)
    past = kind + 0.01 * rng.normal(size=(400, 6))
    future = kind * np.ones(8) + np.where(kind > 0, 0.05, 1.0) * rng.normal(size=(400, 8))
    forecaster = quick(metric_params={"beta": 0.5}, training={"sigma_range": (0.1, 3.0)}).fit(past, future)
    _, std = forecaster.predict(np.array([[1.0] * 6, [-1.0] * 6]), return_std=True)
    assert std[1].mean() > 2 * std[0].mean()
    constant = quick("euclidean").fit(past, future).predict(np.array([[1.0] * 6, [-1.0] * 6]), return_std=True)[1]
    np.testing.assert_array_equal(constant[0], constant[1])


def test_equal_seeds_give_equal_forecasts_and_leave_global_random_state_alone():
    data = waves()
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = quick(max_iter=3).fit(*data).predict(data[0])
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    torch.manual_seed(6)
    np.testing.assert_array_equal(first, quick(max_iter=3).fit(*data).predict(data[0]))
    assert not np.array_equal(first, quick(max_iter=3, random_state=1).fit(*data).predict(data[0]))


def test_the_weights_of_least_validation_loss_are_kept():
    X, y = waves(noise=0.5)
    forecaster = quick("euclidean", max_iter=200, training={"patience": 7}, hidden=64)
    forecaster.fit(X[:30], y[:30], X[30:], y[30:])
    history = forecaster.history_["euclidean"]
    assert history.best == np.argmin(history.valid)
    assert forecaster.n_iter_ == len(history.valid) == history.best + 1 + 7
    scaled = np.square(forecaster.predict(X[30:]) - y[30:]).mean() / y[:30].var()
    assert scaled == pytest.approx(min(history.valid), rel=1e-4)


def test_the_warm_start_is_a_euclidean_training():
    past, future = waves()
    euclidean = quick("euclidean").fit(past, future)
    warm = quick("soft_dtw").fit(past, future)
    assert list(warm.history_) == ["euclidean", "soft_dtw"]
    assert warm.history_["euclidean"] == euclidean.history_["euclidean"]
    assert list(quick("soft_dtw", warm_start_euclidean=False, max_iter=1).fit(past, future).history_) == ["soft_dtw"]


def test_an_interrupt_leaves_the_best_so_far(monkeypatch):
    calls, epoch = [], ForecastTask.step

    def interrupted(*args):
        calls.append(1)
        if len(calls) > 35:
            raise KeyboardInterrupt
        return epoch(*args)

    monkeypatch.setattr(ForecastTask, "step", interrupted)
    past, future = waves()
    forecaster = quick(training={"patience": None})
    with pytest.raises(KeyboardInterrupt):
        forecaster.fit(past, future)
    assert forecaster.score(past, future) > 0.8


def test_grid_search_and_clone():
    past, future = waves(24)
    grid = {"metric_params": [{"beta": 0.01}, {"beta": 0.1}], "hidden": [8, (8, 8)]}
    search = GridSearchCV(quick(max_iter=3), grid, cv=2).fit(past, future)
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


def test_progress_is_shown_only_if_asked(capsys):
    data = waves(12)
    quick(max_iter=1).fit(*data)
    assert capsys.readouterr() == ("", "")
    quick(max_iter=1, training={"progress": True}).fit(*data)
    assert "udtw loss" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "euclidean"},
        {"sigma": None, "hidden": (8, 8)},
        {"sigma": "step", "metric_params": {"gamma": 0.5}},
    ],
)
def test_save_and_load_give_the_same_forecaster(tmp_path, options):
    past, future = waves(20)
    forecaster = quick(**{"max_iter": 2} | options).fit(past, future)
    forecaster.save(tmp_path / "f")
    loaded = SequenceForecaster.load(tmp_path / "f")
    for a, b in zip(forecaster.predict(past, True), loaded.predict(past, True), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.get_params() == forecaster.get_params()
    assert loaded.history_ == forecaster.history_
    assert pickle.loads(pickle.dumps(loaded)).score(past, future) == forecaster.score(past, future)


def test_saving_again_replaces_and_leaves_nothing_else(tmp_path, fitted):
    fitted.save(tmp_path)
    other = quick("euclidean", max_iter=1).fit(*waves())
    other.save(tmp_path)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".json", ".safetensors"]
    assert SequenceForecaster.load(tmp_path).loss == "euclidean"


def test_a_save_that_fails_half_way_leaves_the_old_forecaster(tmp_path, fitted, monkeypatch):
    from udtw.timeseries import forecaster_files

    fitted.save(tmp_path)
    write = forecaster_files.write_atomically

    def weights_only(path, content):
        if path.suffix == ".json":
            raise OSError("disk full")
        write(path, content)

    monkeypatch.setattr(forecaster_files, "write_atomically", weights_only)
    with pytest.raises(OSError, match="disk full"):
        quick("euclidean", max_iter=1).fit(*waves()).save(tmp_path)
    assert SequenceForecaster.load(tmp_path).loss == "udtw"


def edit(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def spoil(folder):
    """NaN in the weights, under the checksum that they then have."""
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / config["weights"])
    content = save({name: torch.full_like(tensor, torch.nan) for name, tensor in tensors.items()})
    name = f"weights-{hashlib.sha256(content).hexdigest()}.safetensors"
    (folder / name).write_bytes(content)
    edit(folder, weights=name)


DAMAGE = {
    "no config": lambda f: (f / "config.json").unlink(),
    "not JSON": lambda f: (f / "config.json").write_text("{"),
    "foreign": lambda f: edit(f, format="other"),
    "newer": lambda f: edit(f, version=2),
    "unknown parameter": lambda f: edit(f, params={"nonsense": 1}),
    "another shape": lambda f: edit(f, future=[9, 1]),
    "no shape": lambda f: edit(f, past=None),
    "other network": lambda f: edit(f, params={"hidden": 31}),
    "unknown loss": lambda f: edit(f, params={"loss": "x"}),
    "weights elsewhere": lambda f: edit(f, weights="../weights.safetensors"),
    "no weights": lambda f: next(f.glob("*.safetensors")).unlink(),
    "infinite power": lambda f: edit(f, std_power=float("inf")),
    "weights that are NaN": spoil,
    "cut weights": lambda f: (w := next(f.glob("*.safetensors"))).write_bytes(w.read_bytes()[:-1]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_or_foreign_files_are_named_errors(tmp_path, fitted, damage):
    fitted.save(tmp_path)
    damage(tmp_path)
    with pytest.raises(FileFormatError):
        SequenceForecaster.load(tmp_path)


def test_what_is_not_there_cannot_be_loaded_or_saved(tmp_path):
    with pytest.raises(FileNotFoundError):
        SequenceForecaster.load(tmp_path / "nothing")
    with pytest.raises(NotFittedError):
        quick().save(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "cosine"}, "loss"),
        ({"sigma": "all"}, "sigma"),
        ({"metric_params": {"weighting": "both"}}, "weighting"),
        ({"metric_params": {"bend": 1}}, "bend"),
        ({"training": {"sigma_range": (2, 1)}}, "sigma_range"),
        ({"training": {"sigma_range": 3}}, "sigma_range"),
        ({"training": {"batch_size": 0}}, "batch_size"),
        ({"max_iter": 1.5}, "max_iter"),
        ({"training": {"learning_rate": 0}}, "learning_rate"),
        ({"training": {"validation_fraction": 1}}, "validation_fraction"),
        ({"training": {"dropout": -0.1}}, "dropout"),
        ({"training": {"objective": "x"}}, "objective"),
        ({"hidden": (8, 0)}, "hidden"),
    ],
)
def test_bad_options_are_named_errors(options, message):
    with pytest.raises(OptionError, match=message):
        quick(**options).fit(*waves(10))


def test_bad_shapes_are_named_errors(fitted):
    past, future = waves(10)
    with pytest.raises(ShapeError, match="y"):
        quick().fit(past, future[..., None, None])
    with pytest.raises(ShapeError, match="y"):
        quick().fit(past, future, past, future[:, :3])
    with pytest.raises(OptionError, match="y_val"):
        quick().fit(past, future, past)
    with pytest.raises(ShapeError, match="y"):
        fitted.score(past, future[:, :3])
