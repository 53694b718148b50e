"""The clutter experiment: its units, and a quick run from pictures to a report."""

import pytest

pytest.importorskip("kornia")

from experiments import Document, Store, run
from experiments.clutter import METHODS
from experiments.registry import experiment, units_of, work_of

pytestmark = pytest.mark.usefixtures("one_thread")
EVERY = {"datasets": None, "seeds": [0, 1], "quick": False, "data_dir": None, "backbones": None, "per_class": None}


def test_every_comparator_has_the_same_budget():
    units = units_of(experiment("clutter"), **EVERY)
    assert len(units) == len(set(units)) == 2 * 2 * 2 * len(METHODS)
    for name in ("n_steps", "learning_rate", "n_way", "n_query", "n_episodes", "per_class", "matching"):
        assert len({unit.options[name] for unit in units}) == 1


def test_a_quick_run_from_pictures_to_report(tmp_path):
    clutter = experiment("clutter")
    options = {"datasets": ["synthetic"], "seeds": [0], "quick": True, "backbones": ["sift?image_size=48"]}
    units = [u for u in units_of(clutter, **EVERY | options) if u.method in ("udtw", "soft_dtw")]
    clutter.prepare(units, None, str(tmp_path))
    store = Store(tmp_path / "units")
    assert run(units, work_of(clutter, None, tmp_path), store).computed == 4
    for unit, result in store.results():
        assert 0.15 < result["clean"]["mean"] <= 1
        assert ("deletion-clutter" in result) == (unit.method == "udtw")
        if unit.method == "udtw":
            assert set(result["correlations-clutter"]) == {"contrast", "foreground"}
    document = Document("clutter")
    clutter.report(store.results(), document)
    text = document.write(tmp_path).with_suffix(".md").read_text()
    assert "uDTW minus the other" in text
    assert "ρ with foreground" in text
