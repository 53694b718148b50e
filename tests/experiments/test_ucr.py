"""The UCR experiment on small generated files."""

import numpy as np
import pytest

from experiments import Document, Unit, published, ucr
from udtw.data import LabelledSeries, UCRData, save_npz, synthetic_control


@pytest.fixture
def data_dir(tmp_path):
    """A set with a class of two series and a missing value, and one too long to be taken."""
    series = synthetic_control(6, length=24, random_state=0)
    X = series.X.copy()
    X[3, 5] = np.nan
    save_npz(
        UCRData("Small", LabelledSeries(X[:18], series.y[:18]), LabelledSeries(X[18:], series.y[18:])),
        tmp_path / "Small.npz",
    )
    long = LabelledSeries(np.zeros((4, 400)), np.array([0, 0, 1, 1]))
    save_npz(UCRData("Long", long, long), tmp_path / "Long.npz")
    return str(tmp_path)


def test_units_cover_every_method_by_seed_and_leave_out_long_series(data_dir):
    units = ucr.units(datasets=None, seeds=[0, 1], quick=False, data_dir=data_dir)
    assert {u.dataset for u in units} == {"Small"}
    assert len(set(units)) == len(units) == 2 * (17 + 2 * 15)
    assert [u.seed for u in units] == sorted(u.seed for u in units)
    assert len(ucr.units(datasets=None, seeds=[0], quick=True, data_dir=data_dir)) == 3 * 6


def test_parts_are_disjoint_normalised_and_by_seed(data_dir, monkeypatch):
    monkeypatch.setattr(ucr, "MAX_SERIES", 24)
    parts = ucr.load_parts("Small", 0, data_dir)
    assert [len(y) for _, y in parts] == [12, 6, 6]
    rows = np.concatenate([X for X, _ in parts])
    assert len(np.unique(rows, axis=0)) == 24
    np.testing.assert_allclose(rows.mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(rows.std(1), 1, atol=1e-4)
    again = ucr.load_parts("Small", 0, data_dir)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(parts, again, strict=True))
    assert not np.array_equal(parts[0][0], ucr.load_parts("Small", 1, data_dir)[0][0])


@pytest.mark.parametrize("method", ["knn dtw", "knn udtw", "frechet soft_dtw", "discriminative udtw"])
def test_a_unit_gives_accuracies(data_dir, method, monkeypatch):
    monkeypatch.setattr(ucr, "ADAM_ITER", 5)
    setting = {"gamma": 0.1} if method != "knn udtw" else {"sigma_iter": 3}
    result = ucr.work(Unit("ucr", "Small", method, 0, setting), data_dir)
    keys = {"1", "3", "5"} if method.startswith("knn") else {"centroid"}
    for part in ("validation", "test"):
        assert set(result[part]) == keys
        assert all(0 <= v <= 1 for v in result[part].values())


def fake(method, dataset, seed, setting, validation, test):
    keys = ("1", "3", "5") if method.startswith("knn") else ("centroid",)
    result = {"validation": dict.fromkeys(keys, validation), "test": dict.fromkeys(keys, test)}
    return Unit("ucr", dataset, method, seed, setting), result


GRID = {"knn": {"udtw": [{"sigma": None}, {"sigma": "context"}]}}


def test_settings_are_chosen_by_validation_and_seeds_averaged():
    results = [
        fake("knn udtw", "A", 0, {"sigma": None}, 0.9, 0.5),
        fake("knn udtw", "A", 0, {"sigma": "context"}, 0.8, 1.0),
        fake("knn udtw", "A", 1, {"sigma": None}, 0.9, 0.7),
    ]
    scores, used = ucr.chosen_scores(results, GRID)
    assert scores["udtw", "K = 3"] == {"A": pytest.approx(60.0)}
    assert used["K = 3"] == {"sigma None": 2}


def test_ties_go_to_what_is_better_on_the_validation_of_all_data_sets():
    results = [
        fake("knn udtw", "A", 0, {"sigma": None}, 0.9, 0.6),
        fake("knn udtw", "A", 0, {"sigma": "context"}, 0.9, 0.4),
        fake("knn udtw", "B", 0, {"sigma": None}, 0.5, 0.1),
        fake("knn udtw", "B", 0, {"sigma": "context"}, 0.6, 0.2),
    ]
    scores, _ = ucr.chosen_scores(results, GRID)
    assert scores["udtw", "K = 1"] == {"A": pytest.approx(40.0), "B": pytest.approx(20.0)}


@pytest.mark.parametrize("order", [1, -1])
def test_other_ties_go_to_the_first_of_the_grid_whatever_the_order_of_the_results(order):
    results = [
        fake("knn udtw", "A", 0, {"sigma": None}, 0.9, 0.6),
        fake("knn udtw", "A", 0, {"sigma": "context"}, 0.9, 0.4),
    ]
    scores, _ = ucr.chosen_scores(results[::order], GRID)
    assert scores["udtw", "K = 1"] == {"A": pytest.approx(60.0)}


def test_a_seed_that_is_not_finished_takes_no_part():
    results = [
        fake(f"knn {metric}", name, seed, setting, 0.5, 0.5)
        for seed in (0, 1)
        for metric in ("dtw", "udtw")
        for setting in ucr.GRIDS["knn"][metric]
        for name in ("A", "B")
    ]
    kept, seeds = ucr.complete_seeds(results)
    assert seeds == {"knn": [0, 1]}
    assert kept == results
    kept, seeds = ucr.complete_seeds(results[:-1])
    assert seeds == {"knn": [0]}
    assert {unit.seed for unit, _ in kept} == {0}
    old = fake("knn udtw", "A", 0, {"sigma": "of old"}, 0.5, 0.5)
    assert ucr.complete_seeds([*results, old])[1] == {"knn": [0, 1]}, "settings that are gone need no result"


def test_results_of_other_settings_take_no_part():
    results = [
        fake("knn udtw", "A", 0, {"sigma": "context"}, 0.5, 0.6),
        fake("knn udtw", "A", 0, {"sigma": "step"}, 0.9, 1.0),
    ]
    scores, _ = ucr.chosen_scores(results, GRID)
    assert scores["udtw", "K = 1"] == {"A": pytest.approx(60.0)}


def test_soft_metrics_have_the_same_number_of_settings():
    for grids in ucr.GRIDS.values():
        assert len({len(grids[metric]) for metric in ("soft_dtw", "soft_dtw_divergence", "udtw")}) == 1


def test_the_report_compares_only_data_sets_that_every_method_has(tmp_path):
    results = [
        fake(f"{kind} {metric}", name, 0, ucr.GRIDS[kind][metric][0], 0.5, 0.5 + 0.1 * (metric == "udtw"))
        for kind in ("knn", "frechet", "discriminative")
        for metric in published.UCR
        for name in ("A", "B")
    ]
    results.append(fake("knn dtw", "C", 0, ucr.GRIDS["knn"]["dtw"][0], 0.5, 0.5))
    document = Document("UCR")
    ucr.report(results, document)
    text = document.write(tmp_path).with_suffix(".md").read_text()
    assert "over 2 data sets" in text
    assert "60.0 ± 0.0" in text
    assert "+10.0" in text
    assert "83.3" in text


def test_an_unfinished_run_is_reported_as_such(tmp_path):
    document = Document("UCR")
    ucr.report([], document)
    assert "No data set" in document.write(tmp_path).with_suffix(".md").read_text()
