"""NTU RGB+D 120, one-shot: novel classes A1, A7, …, A115 by one exemplar each; 20 to 100 others to train with."""

from typing import Any

from udtw.experiments.skeleton_report import report_by_size
from udtw.experiments.skeleton_runs import units_by_size, work

__all__ = ["SEEDS", "TITLE", "report", "units", "work"]

TITLE = "NTU RGB+D 120: one-shot action recognition"
NAME = "ntu120"
SEEDS = [0, 1, 2]
KEEPS_FILES = True
SIZES = (20, 40, 60, 80, 100)
COMMON: dict[str, Any] = {"joint_dim": 100, "n_steps": 30_000, "stride": 6}
MODES: dict[str, dict[str, Any]] = {"unsupervised": {"n_steps": 3_000}}
PAPER = {
    "supervised": {
        "matchnet": (20.5, 23.4, 25.1, 28.7, 30.0),
        "protonet": (21.7, 24.0, 25.9, 29.2, 32.1),
        "tap": (31.2, 37.7, 40.9, 44.5, 47.3),
        "euclidean": (18.7, 21.3, 24.9, 27.5, 30.0),
        "soft_dtw": (30.3, 37.2, 39.7, 44.0, 46.8),
        "soft_dtw_divergence": (30.8, 38.1, 40.0, 44.7, 47.3),
        "udtw": (32.2, 39.0, 41.2, 45.3, 49.0),
    },
    "unsupervised": {
        "euclidean": (13.5, 16.3, 20.0, 24.9, 26.2),
        "soft_dtw": (20.1, 25.3, 32.0, 36.9, 40.9),
        "soft_dtw_divergence": (20.8, 26.0, 33.2, 37.5, 42.3),
        "udtw": (22.7, 28.3, 35.9, 39.4, 44.0),
    },
}

units = units_by_size(NAME, COMMON, MODES, SIZES)
report = report_by_size(PAPER, SIZES)
