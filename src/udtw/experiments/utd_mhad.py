"""UTD-MHAD: 5-way 1-shot recognition of actions that were never trained on, by every comparator.

27 actions of 8 people: 15 to train with, 4 for validation, 8 novel ones to test on (the rule is in
`udtw.skeleton.datasets.protocols`). Every method has the same encoder, blocks, augmentation, episodes and steps; the
settings below were chosen on the training and validation classes.
"""

from typing import Any

from udtw.errors import OptionError
from udtw.experiments.document import Document
from udtw.experiments.skeleton_report import WAYS, Results, against, one_table
from udtw.experiments.skeleton_runs import EPISODES, QUICK, make_units, work
from udtw.experiments.units import Unit

__all__ = ["SEEDS", "TITLE", "report", "units", "work"]

TITLE = "UTD-MHAD: few-shot action recognition"
NAME = "utd-mhad"
SEEDS = [0, 1, 2, 3, 4]
KEEPS_FILES = True
COMMON: dict[str, Any] = {
    "width": 64, "joint_dim": 32, "depth": 0, "n_steps": 300, "rotation": 30.0, "stretch": 0.1, "noise": 0.02,
}  # fmt: skip
MODES: dict[str, dict[str, Any]] = {
    "unsupervised": {
        "n_steps": 50, "dropout": 0.0, "encoder_rate": 1e-4, "n_atoms": 128, "n_nearest": 64, "temperature": 5.0,
    }
}  # fmt: skip


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
    """One unit a method, mode and seed; ``datasets`` may be ``["synthetic"]``, which needs no files."""
    chosen = datasets or [NAME]
    if not set(chosen) <= {NAME, "synthetic"}:
        raise OptionError(f"This experiment runs on {NAME} or synthetic; got {datasets}.")
    common = COMMON | QUICK if quick else COMMON
    modes = {} if quick else MODES
    return [unit for name in chosen for unit in make_units(NAME, name, seeds, common, modes)]


def report(results: Results, document: Document) -> None:
    for name in sorted({unit.dataset for unit, _ in results}):
        mine = [(unit, result) for unit, result in results if unit.dataset == name]
        seeds = sorted({unit.seed for unit, _ in mine})
        one_table(
            document,
            f"{name}: 5-way 1-shot accuracy on novel classes, in %",
            mine,
            f"Mean ± 95 % interval over training seeds {seeds} (Student's t); each is judged by the same {EPISODES} "
            "episodes with 10 queries a class, whose own interval is about ±0.4. Chance is 20 %.",
        )
        for way, label in WAYS.items():
            rows = against(mine, way=way)
            if rows:
                document.table(
                    f"{name}, {label.lower()}: uDTW minus the other, in points", ["other", "difference"], rows
                )
