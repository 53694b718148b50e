"""Known warps: the generator tells the truth, and a quick run gives a report."""

import numpy as np

from experiments import Document, calibration


def test_the_true_match_is_monotone_and_leads_from_end_to_end():
    data = calibration.known_warps(5, seed=3)
    assert (np.diff(data["match"], axis=1) >= 0).all()
    assert np.allclose(data["match"][:, [0, -1]], [0, calibration.STEPS - 1])
    assert ((data["var_x"] == calibration.BURST_NOISE).sum(1) == calibration.BURST).all()
    assert np.array_equal(data["x"], calibration.known_warps(5, seed=3)["x"])


def test_a_quick_run_is_reported(tmp_path, one_thread):
    units = calibration.units(datasets=None, seeds=[0], quick=True, data_dir=None)
    results = [(unit, calibration.work(unit, None)) for unit in units]
    by_method = {(unit.method, unit.options["gamma"]): result for unit, result in results}
    truth = by_method["uDTW, likelihood", 4.0]
    assert truth["error"] < by_method["uDTW, paper's weighting", 1.0]["error"]
    assert 0.8 < truth["coverage"]["0.9"]["all"] <= 1
    levels = [truth["coverage"][str(level)]["all"] for level in calibration.LEVELS]
    assert levels == sorted(levels)
    document = Document("calibration")
    calibration.report(results, document)
    text = document.write(tmp_path).with_suffix(".md").read_text()
    assert text.count("uDTW, likelihood") >= 2
    assert "Stated and observed coverage" in text
