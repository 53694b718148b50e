"""NTU RGB+D 60, one-shot: novel classes A1, A7, …, A55 by one exemplar each; 10 to 50 of the others to train with."""

from typing import Any

from udtw.experiments.skeleton_report import report_by_size
from udtw.experiments.skeleton_runs import units_by_size, work

__all__ = ["SEEDS", "TITLE", "report", "units", "work"]

TITLE = "NTU RGB+D 60: one-shot action recognition"
NAME = "ntu60"
SEEDS = [0, 1, 2]
KEEPS_FILES = True
SIZES = (10, 20, 30, 40, 50)
COMMON: dict[str, Any] = {"joint_dim": 100, "n_steps": 20_000, "stride": 6}
MODES: dict[str, dict[str, Any]] = {"unsupervised": {"n_steps": 2_000}}
PAPER = {
    "supervised": {
        "matchnet": (46.1, 48.6, 53.3, 56.3, 58.8),
        "protonet": (47.2, 51.1, 54.3, 58.9, 63.0),
        "tap": (54.2, 57.3, 61.7, 64.7, 68.3),
        "euclidean": (38.5, 42.2, 45.1, 48.3, 50.9),
        "soft_dtw": (53.7, 56.2, 60.0, 63.9, 67.8),
        "soft_dtw_divergence": (54.0, 57.3, 62.1, 65.7, 69.0),
        "udtw": (56.9, 61.2, 64.8, 68.3, 72.4),
    },
    "unsupervised": {
        "euclidean": (20.9, 23.7, 26.3, 30.0, 33.1),
        "soft_dtw": (35.6, 45.2, 53.3, 56.7, 61.7),
        "soft_dtw_divergence": (36.0, 46.1, 54.0, 57.2, 62.0),
        "udtw": (37.0, 48.3, 55.3, 58.0, 63.3),
    },
}

units = units_by_size(NAME, COMMON, MODES, SIZES)
report = report_by_size(PAPER, SIZES)
