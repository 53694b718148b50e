"""Kinetics-skeleton: 200 actions to train with, 5-way 1-shot episodes over the others, from 2D and lifted 3D joints."""

from typing import Any

from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.skeleton_report import Results, one_table
from udtw.experiments.skeleton_runs import QUICK, make_units, work
from udtw.experiments.units import Unit

__all__ = ["SEEDS", "TITLE", "report", "units", "work"]

TITLE = "Kinetics-skeleton: few-shot action recognition"
NAME = "kinetics"
SEEDS = [0, 1, 2]
KEEPS_FILES = True
DATASETS = ("kinetics", "kinetics-3d")
COMMON: dict[str, Any] = {"joint_dim": 100, "n_steps": 30_000, "block_size": 10, "stride": 10}
MODES: dict[str, dict[str, Any]] = {"unsupervised": {"n_steps": 3_000}}
PAPER = {
    "uDTW": (35.5, 42.0, 25.9, 32.7),
    "sDTW div.": (35.0, 40.1, 24.0, 28.9),
    "sDTW": (34.7, 39.6, 23.3, 28.3),
    "TAP": (32.9, 36.0, None, None),
    "Euclidean": (21.2, 23.1, 12.7, 13.3),
}


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
    """One unit a method, mode, seed and data set; by default those of `DATASETS` (2D and 3D)."""
    chosen = datasets or list(DATASETS)
    if not set(chosen) <= set(DATASETS):
        raise OptionError(f"This experiment runs on {' and '.join(DATASETS)}; got {datasets}.")
    common, modes = (COMMON | QUICK, {}) if quick else (COMMON, MODES)
    return [unit for name in chosen for unit in make_units(NAME, name, seeds, common, modes)]


def report(results: Results, document: Document) -> None:
    for name in sorted({unit.dataset for unit, _ in results}):
        mine = [(unit, result) for unit, result in results if unit.dataset == name]
        one_table(document, f"{name}: 5-way 1-shot accuracy on novel classes, in %", mine, "Mean over training seeds.")
    document.table(
        "The paper's accuracies, in %",
        ["", "supervised 2D", "supervised 3D", "unsupervised 2D", "unsupervised 3D"],
        [[name, *values] for name, values in PAPER.items()],
    )
