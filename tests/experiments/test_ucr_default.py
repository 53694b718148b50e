"""UCR on the archive's own split, on a small generated file."""

import pytest

from experiments import Document, Unit, ucr_default
from experiments.registry import name_of, protocol_name
from udtw.data import LabelledSeries, UCRData, save_npz, synthetic_control
from udtw.errors import DataError, OptionError


@pytest.fixture
def data_dir(tmp_path):
    folder = tmp_path / "ucr"
    folder.mkdir()
    series = synthetic_control(6, length=24, random_state=0)
    parts = [LabelledSeries(series.X[k::2], series.y[k::2]) for k in (0, 1)]
    save_npz(UCRData("Small", *parts), folder / "Small.npz")
    (tmp_path / "published").mkdir()
    rows = ["dataset,method,accuracy,source", "Small,1NN-DTW,0.5,x", "Small,ROCKET,0.9,x", "Other,1NN-DTW,0.1,x"]
    (tmp_path / "published" / "ucr-default-split.csv").write_text("\n".join(rows))
    return str(folder)


def test_the_report_stands_beside_the_published_accuracies(data_dir, tmp_path, monkeypatch):
    monkeypatch.setitem(ucr_default.METHODS, ucr_default.OURS, [{"metric": "udtw", "sigma_iter": 2}])
    units = ucr_default.units(datasets=None, seeds=[0], quick=False, data_dir=data_dir)
    assert [unit.method for unit in units] == list(ucr_default.METHODS)
    results = [(unit, ucr_default.work(unit, data_dir)) for unit in units if "prototypes" not in unit.method]
    assert results[0][1]["published"] == {"1NN-DTW": 50.0, "ROCKET": 90.0}
    document = Document("UCR")
    ucr_default.report(results, document)
    text = document.write(tmp_path).with_suffix(".md").read_text()
    assert "1 data sets" in text
    assert "| published | ROCKET | 90.00 |" in text
    assert "Our DTW minus the published" in text


def test_settings_are_chosen_by_leaving_one_out(data_dir):
    result = ucr_default.work(Unit("ucr-default", "Small", "ADTW", 0), data_dir)
    assert result["setting"] in ucr_default.METHODS["ADTW"]


def test_a_damaged_file_of_published_accuracies_is_named(data_dir, tmp_path):
    (tmp_path / "published" / "ucr-default-split.csv").write_text("dataset,method,accuracy\nSmall,DTW,high\n")
    with pytest.raises(DataError, match="line 2"):
        ucr_default.published_accuracies("Small", data_dir)


def test_the_protocol_is_an_experiment_of_its_own():
    assert protocol_name("ucr", "default") == "ucr-default"
    assert name_of(Unit("ucr-default", "A", "DTW", 0)) == "ucr-default"
    with pytest.raises(OptionError, match="--protocol is for ucr"):
        protocol_name("ecg5000", "default")
