"""The barycenter experiment on a small generated file."""

import pytest

from experiments import Document, barycenters
from udtw.data import LabelledSeries, UCRData, cylinder_bell_funnel, save_npz


@pytest.fixture
def data_dir(tmp_path):
    series = cylinder_bell_funnel(14, length=24, random_state=0)
    half = len(series.y) // 2
    train, test = LabelledSeries(series.X[:half], series.y[:half]), LabelledSeries(series.X[half:], series.y[half:])
    save_npz(UCRData("Small", train, test), tmp_path / "Small.npz")
    return str(tmp_path)


def test_every_metric_has_its_units_and_gammas(data_dir):
    units = barycenters.units(datasets=None, seeds=[0, 1], quick=False, data_dir=data_dir)
    assert len(set(units)) == len(units) == 2 * (2 + 3 * 3 + 1)


def test_members_are_of_one_class_and_unseen_series_are_others(data_dir):
    seen, unseen, label = barycenters.members("Small", 0, data_dir)
    assert seen.shape == (10, 24)
    assert unseen.shape == (4, 24)
    again, _, same = barycenters.members("Small", 0, data_dir)
    assert label == same
    assert (again == seen).all()


def test_units_are_computed_and_reported_with_pictures(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(barycenters, "MAX_ITER", 3)
    units = barycenters.units(datasets=["Small"], seeds=[0], quick=False, data_dir=data_dir)
    results = [(unit, barycenters.work(unit, data_dir)) for unit in units]
    for unit, result in results:
        assert len(result["mean"]) == 24
        assert result["objective"] <= result["start"]
        assert result["dtw"] > 0
        assert unit.method != "udtw" or min(result["variance"]) > 0
    document = Document("Means")
    barycenters.report(results, document)
    text = document.write(tmp_path / "out").with_suffix(".md").read_text()
    assert "uDTW, γ 0.1" in text
    assert "uDTW, free energy" in text
    assert "1.000 ± 0.000" in text  # the Euclidean mean against itself
    assert len(list((tmp_path / "out").glob("*.png"))) == 1
