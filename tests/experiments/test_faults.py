"""The experiment with sensor faults, on a small generated file."""

import numpy as np
import pytest

from experiments import Document, Unit, faults
from udtw.data import LabelledSeries, UCRData, save_npz, synthetic_control


@pytest.fixture
def data_dir(tmp_path):
    series = synthetic_control(6, length=24, random_state=0)
    parts = [LabelledSeries(series.X[k::2], series.y[k::2]) for k in (0, 1)]
    save_npz(UCRData("Small", *parts), tmp_path / "Small.npz")
    return str(tmp_path)


def test_units_begin_with_the_main_condition(data_dir):
    units = faults.units(datasets=None, seeds=[0], quick=False, data_dir=data_dir)
    assert len(set(units)) == len(units) == len(faults.METHODS) * len(faults.CONDITIONS)
    assert {unit.options["condition"] for unit in units[: len(faults.METHODS)]} == {"medium"}


@pytest.mark.parametrize("condition", ["medium", "test only", "none"])
def test_a_unit_has_accuracies_of_every_setting(data_dir, condition, monkeypatch):
    monkeypatch.setitem(faults.METHODS, faults.OURS, [{"metric": "udtw", "sigma_iter": 2}])
    for method in ("ADTW", faults.OURS):
        result = faults.work(Unit("faults", "Small", method, 0, {"condition": condition}), data_dir)
        assert len(result["validation"]) == len(result["test"]) == len(faults.METHODS[method])
        assert ("examples" in result) == (method == faults.OURS and condition == "medium")
    if "examples" in result:
        assert {len(one["sigma"]) for one in result["examples"].values()} == {24}


def test_the_setting_is_chosen_on_validation_and_the_report_shows_the_difference(tmp_path):
    results = []
    rng = np.random.default_rng(0)
    for condition in ("medium", "none", "test only"):
        for name in "ABCDEFG":
            for method in faults.METHODS:
                better = 0.1 if method == faults.OURS else 0.0
                score = 0.6 + better + 0.02 * rng.random()
                unit = Unit("faults", name, method, 0, {"condition": condition})
                results.append((unit, {"validation": [0.5, 0.7], "test": [0.99, score]}))
    scores = faults.chosen_scores(results)
    assert max(scores["medium", "DTW"].values()) < 63
    document = Document("Faults")
    faults.report(results, document)
    text = document.write(tmp_path).with_suffix(".md").read_text()
    assert "uDTW minus each rival" in text
    assert "+10." in text or "+9." in text
    assert "Points lost" in text
