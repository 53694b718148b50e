"""The skeleton experiments: their units, one quick run from start to report, and tables that add up."""

import numpy as np
import pytest

from experiments import Document, Store, run
from experiments.experiment import over_seeds
from experiments.registry import experiment, work_of
from experiments.skeleton_faults import accuracies
from experiments.skeleton_tables import METHODS, SKELETON_TABLES, UNSUPERVISED, against, recipe_of
from experiments.units import Unit
from tests.skeleton.datasets.ntu_files import ntu_text, seen, standing
from tests.skeleton.datasets.test_numbered_sets import nw_ucla_files
from udtw.errors import OptionError

pytestmark = pytest.mark.usefixtures("one_thread")
EVERY = {"datasets": None, "seeds": [0], "quick": False, "data_dir": None}


TABLES = {table.name: table for table in SKELETON_TABLES}


@pytest.mark.parametrize(("name", "columns"), [("utd-mhad", 1), ("ntu60", 5), ("ntu120", 5), ("kinetics", 2)])
def test_every_method_has_its_unit_and_a_recipe(name, columns):
    units = TABLES[name].units(**EVERY)
    assert len(units) == len(set(units)) == columns * (len(METHODS) + len(UNSUPERVISED))
    for unit in units:
        recipe = recipe_of(unit)
        assert unit.method.startswith(recipe.metric)
        assert recipe.mode == unit.options["mode"]


def test_all_methods_share_everything_but_the_comparison():
    differing = {"metric", "encoder", "weighting", "learned", "sigma_gain", "sigma_range"}
    for mode in ("supervised", "unsupervised"):
        recipes = [recipe_of(u).as_dict() for u in TABLES["utd-mhad"].units(**EVERY) if u.options["mode"] == mode]
        same = [{k: v for k, v in recipe.items() if k not in differing} for recipe in recipes]
        assert all(recipe == same[0] for recipe in same)


def test_a_quick_run_from_start_to_report(tmp_path):
    utd_mhad = experiment("utd-mhad")
    units = utd_mhad.units(datasets=["synthetic"], seeds=[0, 1], quick=True, data_dir=None)
    chosen = [unit for unit in units if unit.method in ("udtw", "euclidean", "protonet-pictures")]
    store = Store(tmp_path / "units")
    summary = run(chosen, work_of(utd_mhad, None, tmp_path), store)
    assert summary.computed == len(chosen) == 10
    assert not list((tmp_path / "checkpoints").glob("*"))
    for unit, result in store.results():
        assert ("codes" in result) == (unit.options["mode"] == "unsupervised")
        assert 0.15 < result["alignment"]["mean"] < 1
    document = Document("test")
    utd_mhad.report(store.results(), document)
    text = (document.write(tmp_path).parent / "report.md").read_text()
    assert "Unsupervised, by codes" in text
    assert text.count("| uDTW |") == 1


def test_every_method_is_also_trained_across_views():
    units = TABLES["nw-ucla"].units(**EVERY)
    crossed = [unit for unit in units if unit.options.get("cross_view")]
    assert [unit.method for unit in crossed] == list(METHODS)
    assert len(units) == 2 * len(METHODS) + len(UNSUPERVISED)
    assert recipe_of(crossed[0]).mode == "supervised"


def test_both_protocols_run_on_files_of_three_views(tmp_path):
    for name, content in nw_ucla_files().items():
        (tmp_path / name).write_bytes(content)
    nw_ucla = experiment("nw-ucla")
    units = nw_ucla.units(datasets=None, seeds=[0], quick=True, data_dir=None)
    chosen = [unit for unit in units if unit.method == "protonet"]
    assert [bool(unit.options.get("cross_view")) for unit in chosen] == [False, True]
    few = {"n_query": 1}  # four training clips of each class
    found = [
        work_of(nw_ucla, str(tmp_path), tmp_path)(Unit(u.experiment, u.dataset, u.method, 0, u.options | few))
        for u in chosen
    ]
    assert found[0]["alignment"]["n"] == 2000
    assert found[1]["cross-view"]["n"] == 20  # two people, ten actions, the third view
    document = Document("test")
    nw_ucla.report(list(zip(chosen, found, strict=True)), document)
    assert "Cross-view" in (document.write(tmp_path).parent / "report.md").read_text()


def test_faults_from_start_to_report(tmp_path):
    faults = experiment("skeleton-faults")
    units = faults.units(datasets=["synthetic"], seeds=[0, 1], quick=True, data_dir=None)
    per_seed = {(unit.method, unit.options["train"]) for unit in units}
    assert len(units) == 2 * len(per_seed)
    assert ("soft_dtw", "stated") not in per_seed  # no use for a confidence
    assert ("udtw", "stated") in per_seed
    chosen = [unit for unit in units if unit.method in ("udtw", "protonet")]
    store = Store(tmp_path / "units")
    assert not run(chosen, work_of(faults, None, tmp_path), store).failed
    found = {(unit.method, unit.options["train"]): result for unit, result in store.results()}
    assert {"clean", "stated", "unstated"} <= found["udtw", "clean"].keys()
    assert "clean" not in found["udtw", "stated"]
    # Without uncertainty the confidence changes nothing: it is not computed twice.
    assert "stated" not in found["protonet", "clean"]
    stated, unstated = (accuracies(store.results(), "protonet", "clean", kind) for kind in ("stated", "unstated"))
    assert stated == unstated
    assert len(stated) == 2
    document = Document("test")
    faults.report(store.results(), document)
    text = (document.write(tmp_path).parent / "report.md").read_text()
    assert "| uDTW |" in text
    assert "uDTW minus the best comparator without uncertainty" in text


def test_faults_on_a_folder_of_few_classes(tmp_path):
    generator = np.random.default_rng(0)
    for label in range(6):  # three of them train, two are novel
        for take in range(12):
            clip = generator.standard_normal((20, 17, 3)).cumsum(0)
            (tmp_path / f"class{label}").mkdir(exist_ok=True)
            np.save(tmp_path / f"class{label}" / f"{take}.npy", clip.astype(np.float32))
    (tmp_path / "graph.json").write_text('{"graph": "coco17"}')
    faults = experiment("skeleton-faults")
    unit = faults.units(datasets=["folder"], seeds=[0], quick=True, data_dir=None)[0]
    found = work_of(faults, str(tmp_path), tmp_path)(unit)
    assert found["n_way"] == 2
    document = Document("test")
    faults.report([(unit, found)], document)
    assert "folder: 2-way 1-shot" in (document.write(tmp_path / "out").parent / "report.md").read_text()


def test_the_one_shot_protocol_runs_on_files_as_the_kinect_writes_them(tmp_path):
    for action in range(1, 61):
        for take in range(4):
            setup = f"S001C003P008R001A{action:03d}" if take == 0 else f"S001C001P001R00{take}A{action:03d}"
            text = ntu_text(9, {"1": seen(standing(9, seed=10 * action + take))})
            (tmp_path / f"{setup}.skeleton").write_text(text)
    ntu60 = experiment("ntu60")
    unit = ntu60.units(datasets=None, seeds=[0], quick=True, data_dir=None)[3]
    assert (unit.method, unit.options["n_train"]) == ("soft_dtw", 10)
    found = work_of(ntu60, str(tmp_path), tmp_path)(unit)
    assert found["alignment"]["n"] == 10 * 3  # all clips of the ten novel classes but their exemplars
    assert 0 <= found["alignment"]["mean"] <= 1


def result(method: str, seed: int, accuracy: float, **params) -> tuple[Unit, dict]:
    unit = Unit("ntu60", "ntu60", method, seed, {"mode": "supervised", **params})
    return unit, {"alignment": {"mean": accuracy, "half_width": 0.01, "n": 100}}


def test_the_interval_over_seeds_by_hand():
    assert over_seeds([0.5, 0.6]) == "55.0 ± 63.5"
    assert over_seeds([0.5]) == "50.0"


def test_differences_are_paired_by_seed():
    results = [result("udtw", s, 0.5 + 0.1 * s) for s in range(3)] + [result("tap", s, 0.4 + 0.1 * s) for s in range(3)]
    assert against(results) == [["TAP", "10.0 ± 0.0"]]


@pytest.mark.parametrize("name", ["ntu60", "ntu120"])
def test_the_papers_figures_are_beside_ours(name, tmp_path):
    table = TABLES[name]
    results = [result("udtw", 0, 0.567, n_train=table.sizes[0])]
    document = Document("test")
    table.report(results, document)
    text = (document.write(tmp_path).parent / "report.md").read_text()
    assert f"| uDTW | 56.7 ({table.published['supervised']['udtw'][0]}) | – (" in text
    assert "Unsupervised" not in text  # a mode that was not run has no table
    for mode, rows in table.published.items():
        assert all(len(row) == 5 and list(row) == sorted(row) for row in rows.values()), mode
        assert np.all(np.array(rows["udtw"]) > np.array(rows["soft_dtw"]))


def test_the_papers_figures_of_kinetics_are_one_table(tmp_path):
    document = Document("test")
    TABLES["kinetics"].report([], document)
    text = (document.write(tmp_path).parent / "report.md").read_text()
    assert "| uDTW | 35.5 | 42 | 25.9 | 32.7 |" in text
    assert "| TAP | 32.9 | 36 | – | – |" in text


def test_unknown_data_sets_are_refused():
    for name in ("utd-mhad", "kinetics", "ntu60"):
        with pytest.raises(OptionError, match="runs on"):
            TABLES[name].units(datasets=["mnist"], seeds=[0], quick=True, data_dir=None)
